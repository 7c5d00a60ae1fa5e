//! The axes: the things that a study can vary.
//!
//! [`AXES`] alone says what an axis is: the enum, a cell's fields and id, files, options, columns
//! and words come from its rows.

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
    /// The axis's row.
    pub fn row(self) -> &'static AxisRow {
        &AXES[self as usize]
    }

    /// The axis's name.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// The axis of that name.
    pub fn named(name: &str) -> Option<Axis> {
        let row = AXES.iter().find(|row| row.name == name)?;
        Some(row.axis)
    }

    /// The same, or else which there are.
    pub(crate) fn known(name: &str) -> Result<Axis, String> {
        Axis::named(name)
            .ok_or_else(|| units::unknown("axis", name, AXES.iter().map(|row| row.name)))
    }

    /// What its values are.
    pub fn kind(self) -> ValueKind {
        self.row().kind
    }

    /// Whether it can be on and off, so that `both` on the command line means the two.
    pub fn is_switch(self) -> bool {
        self.kind() == ValueKind::Switch
    }

    /// Whether a cell's id has its value always, by its place: that of each axis up to the placement.
    /// The others stand there as `axis=value`, where they are not at their default.
    pub fn is_always_told(self) -> bool {
        self <= Axis::Placement
    }

    /// Whether a value of the axis is told: always, or where it is not the default.
    pub fn tells(self, value: &Value) -> bool {
        self.is_always_told() || *value != self.row().default
    }

    /// A value as cells have it: `1024` is `1KiB`; else what is wrong and what to write instead.
    pub fn read(self, text: &str) -> Result<Value, Invalid> {
        let mut probe = Cell::default();
        probe.set(self, text)?;
        Ok(probe.value(self))
    }

    /// A value as a number, for axes whose values are numbers.
    pub fn number(self, value: &Value) -> Option<f64> {
        let number = value.number().map(|n| n as f64);
        number.filter(|_| self.kind().is_of_numbers())
    }

    /// A value for readers: sizes with their unit and a space.
    pub fn in_words(self, value: &Value) -> String {
        match value.number() {
            Some(bytes) if self.kind() == ValueKind::Bytes => units::bytes_in_words(bytes),
            _ => value.to_string(),
        }
    }

    /// A value as a circumstance: `at 64 KiB`, `with 2 threads`, `over unix`.
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
        let told = self.circumstance(value);
        told.split_once(' ')
            .map_or(told.clone(), |(_, subject)| subject.to_owned())
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
