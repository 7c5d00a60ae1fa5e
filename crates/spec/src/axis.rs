//! The axes: the properties of a cell that a study can vary.
//!
//! [`AXES`] alone defines an axis. Its rows give the variants of [`Axis`], the fields and the id of
//! a [`Cell`], the keys of study files, the options, the columns and the words of reports.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error};

use crate::cell::Invalid;
use crate::units;

#[macro_use]
mod row;
mod facts;
mod table;
mod value;
mod values;

pub use facts::CellFacts;
pub use row::{AppliesTo, AxisGroup, AxisRow, ValueKind};
pub use table::{AXES, Axis, Cell, Serving};
pub use value::Value;

impl Axis {
    /// The row of [`AXES`] that defines the axis.
    pub fn row(self) -> &'static AxisRow {
        &AXES[self as usize]
    }

    /// The axis's name in study files, options, ids and columns: `read-size`.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// The axis of that name.
    pub fn named(name: &str) -> Option<Axis> {
        (AXES.iter())
            .find(|row| row.name == name)
            .map(|row| row.axis)
    }

    /// The axis of that name, or an error that lists the known names.
    pub(crate) fn known(name: &str) -> Result<Axis, String> {
        Axis::named(name)
            .ok_or_else(|| units::unknown("axis", name, AXES.iter().map(|row| row.name)))
    }

    /// The kind of the axis's values.
    pub fn kind(self) -> ValueKind {
        self.row().kind
    }

    /// Returns true for an axis with the values `on` and `off`: the command line's `both` means the two.
    pub fn is_switch(self) -> bool {
        self.kind() == ValueKind::Switch
    }

    /// Returns true for an axis whose value stands in every id, by its position: those up to the
    /// placement. The others follow as `axis=value`, where the value is not the default.
    pub fn is_always_in_id(self) -> bool {
        self <= Axis::Placement
    }

    /// Returns true if an id contains the axis's value: always, or where it is not the default.
    pub fn is_shown(self, value: &Value) -> bool {
        self.is_always_in_id() || *value != self.row().default
    }

    /// Parses a value into the form that cells have: `1024` becomes `1KiB`. The error says which values
    /// there are.
    pub fn read(self, text: &str) -> Result<Value, Invalid> {
        let mut probe = Cell::default();
        probe.set(self, text)?;
        Ok(probe.value(self))
    }

    /// The value as a number; none for an axis of words and for a word such as `auto`.
    pub fn number(self, value: &Value) -> Option<f64> {
        let is_numeric = self.kind().is_of_numbers();
        value.number().filter(|_| is_numeric).map(|n| n as f64)
    }

    /// The value in a sentence: sizes with a space before their unit, `64 KiB`.
    pub fn in_words(self, value: &Value) -> String {
        match value.number() {
            Some(bytes) if self.kind() == ValueKind::Bytes => units::bytes_in_words(bytes),
            _ => value.to_string(),
        }
    }

    /// The value as a phrase after a statement: `at 64 KiB`, `with 2 threads`, `over unix`.
    pub fn circumstance(self, value: &Value) -> String {
        let AxisRow { name, phrase, .. } = self.row();
        let is_word = self.kind().is_of_numbers() && self.number(value).is_none();
        if phrase.is_empty() || is_word {
            return format!("with {name} {value}");
        }
        let s = if *value == "1" { "" } else { "s" };
        phrase
            .replace("{s}", s)
            .replace("{}", &self.in_words(value))
    }

    /// A value as the subject of a sentence: `` `send` ``, `64 KiB`, `2 threads`.
    pub fn subject(self, value: &Value) -> String {
        let phrase = self.circumstance(value);
        match phrase.split_once(' ') {
            Some((_, subject)) => subject.to_owned(),
            None => phrase,
        }
    }
}

impl fmt::Display for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Axis {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Axis, D::Error> {
        let name = String::deserialize(deserializer)?;
        Axis::known(&name).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests;
