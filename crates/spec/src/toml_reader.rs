//! A TOML file of a study or of claims: its reader, which converts single values, and its error.

use std::collections::BTreeMap;

use itertools::Itertools as _;
use serde::Deserialize;
use serde::de::{self, DeserializeOwned, Deserializer, SeqAccess, Visitor};
use toml::Spanned;

use crate::axis::{Axis, Value};
use crate::units;

/// An error in a TOML file, with its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub struct TomlError {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The error and the remedy.
    pub message: String,
}

pub(crate) type RawAxes = BTreeMap<Axis, Spanned<RawValues>>;

/// A value as text, whether it was written as a string, a whole number or a boolean.
pub(crate) struct RawText(pub(crate) String);

pub(crate) struct RawValues(Vec<Spanned<RawText>>);

impl<'de> Deserialize<'de> for RawText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Scalar;
        impl Visitor<'_> for Scalar {
            type Value = RawText;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a string, a whole number or a boolean")
            }
            fn visit_str<E: de::Error>(self, v: &str) -> Result<RawText, E> {
                Ok(RawText(v.to_owned()))
            }
            fn visit_i64<E: de::Error>(self, v: i64) -> Result<RawText, E> {
                Ok(RawText(v.to_string()))
            }
            fn visit_u64<E: de::Error>(self, v: u64) -> Result<RawText, E> {
                Ok(RawText(v.to_string()))
            }
            fn visit_bool<E: de::Error>(self, v: bool) -> Result<RawText, E> {
                Ok(RawText(if v { "on" } else { "off" }.to_owned()))
            }
        }
        deserializer.deserialize_any(Scalar)
    }
}

impl<'de> Deserialize<'de> for RawValues {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = RawValues;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a list of strings or whole numbers")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<RawValues, A::Error> {
                let mut list = Vec::new();
                while let Some(value) = seq.next_element()? {
                    list.push(value);
                }
                Ok(RawValues(list))
            }
        }
        deserializer.deserialize_seq(List)
    }
}

/// The text of a file, which gives an error its line and column.
pub(crate) struct Reader<'t> {
    pub(crate) text: &'t str,
}

impl Reader<'_> {
    /// An error at a place in the file.
    pub(crate) fn fail<T>(
        &self,
        place: std::ops::Range<usize>,
        message: impl Into<String>,
    ) -> Result<T, TomlError> {
        Err(at(self.text, place.start, message.into()))
    }

    /// A value converted by `read`, whose error gets the place of the value in the file.
    pub(crate) fn convert<T, U, E: ToString>(
        &self,
        value: &Spanned<T>,
        read: impl Fn(&T) -> Result<U, E>,
    ) -> Result<U, TomlError> {
        read(value.get_ref()).or_else(|e| self.fail(value.span(), e.to_string()))
    }

    /// An optional value converted by `read`.
    pub(crate) fn convert_optional<T, U, E: ToString>(
        &self,
        value: &Option<Spanned<T>>,
        read: impl Fn(&T) -> Result<U, E>,
    ) -> Result<Option<U>, TomlError> {
        value.as_ref().map(|v| self.convert(v, read)).transpose()
    }

    /// A value within bounds; `why` is the error for any other value.
    pub(crate) fn bounded<T: Copy>(
        &self,
        value: &Spanned<T>,
        fits: impl Fn(T) -> bool,
        why: impl Into<String>,
    ) -> Result<T, TomlError> {
        match *value.get_ref() {
            value if fits(value) => Ok(value),
            _ => self.fail(value.span(), why),
        }
    }

    /// The values of each axis that is named, in the order of the table.
    pub(crate) fn axes(&self, raw: &RawAxes) -> Result<Vec<(Axis, Vec<Value>)>, TomlError> {
        let read = |(axis, values): (&Axis, _)| Ok((*axis, self.values(*axis, values)?));
        raw.iter().map(read).collect()
    }

    pub(crate) fn values(
        &self,
        axis: Axis,
        values: &Spanned<RawValues>,
    ) -> Result<Vec<Value>, TomlError> {
        let list = &values.get_ref().0;
        if list.is_empty() {
            let why = "has no values: name at least one, or leave the axis out";
            return self.fail(values.span(), format!("axis `{axis}` {why}"));
        }
        (list.iter().map(|value| self.value(axis, value)))
            .process_results(|read| read.unique().collect())
    }

    pub(crate) fn value(&self, axis: Axis, value: &Spanned<RawText>) -> Result<Value, TomlError> {
        self.convert(value, |text| axis.read(&text.0))
    }
}

pub(crate) fn from_toml<T: DeserializeOwned>(text: &str) -> Result<T, TomlError> {
    toml::from_str(text).map_err(|e| {
        let lines = e.message().split('\n').map(str::trim);
        let message = lines.filter(|line| !line.is_empty()).join("; ");
        at(text, e.span().map_or(0, |s| s.start), message)
    })
}

/// An error at a byte offset of a text.
pub(crate) fn at(text: &str, offset: usize, message: String) -> TomlError {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |l| l.chars().count()) + 1;
    TomlError {
        line,
        column,
        message: units::one_line(&message),
    }
}

/// The word of a list that has this name, or an error that lists the names. `noun` is the word for them.
pub(crate) fn named<T: Copy + Into<&'static str>>(
    noun: &str,
    name: &str,
    all: &[T],
) -> Result<T, String> {
    let words = all.iter().copied();
    (words.clone().find(|word| (*word).into() == name))
        .ok_or_else(|| units::unknown(noun, name, words.map(Into::into)))
}

/// All rows converted by `read`, or the first error.
pub(crate) fn convert_all<R, T>(
    rows: &[R],
    read: impl Fn(&R) -> Result<T, TomlError>,
) -> Result<Vec<T>, TomlError> {
    rows.iter().map(read).collect()
}
