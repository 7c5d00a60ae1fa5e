//! The sets of values that axes have: their parsers, which check bounds, and their printers.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use strum::VariantArray;

use super::{Axis, Value};
use crate::cell::Invalid;
use crate::units;

/// A set of values with their textual form.
pub(super) trait Values<T> {
    /// Parses a value of the set. `or` stands before the bounds in the error: other words that are values.
    fn read(&self, axis: Axis, text: &str, or: &str) -> Result<T, Invalid>;

    /// The value in the form that [`Values::read`] parses to the same value.
    fn value(&self, value: &T) -> Value;
}

/// The default value of an axis. A test parses each default.
pub(super) fn default_of<T: Default>(axis: Axis, values: &impl Values<T>) -> T {
    values
        .read(axis, axis.row().default, "")
        .unwrap_or_default()
}

fn wrong<T>(axis: Axis, text: &str, why: &str) -> Result<T, Invalid> {
    Err(Invalid(format!("{axis} `{text}` {why}")))
}

/// Numbers of bytes within bounds.
pub(super) struct Bytes(pub(super) RangeInclusive<u64>);

impl<T: TryFrom<u64> + Into<u64> + Copy> Values<T> for Bytes {
    fn read(&self, axis: Axis, text: &str, or: &str) -> Result<T, Invalid> {
        let n = units::parse_bytes(text).map_err(|e| Invalid(format!("{axis}: {e}")))?;
        if let (true, Ok(n)) = (self.0.contains(&n), T::try_from(n)) {
            return Ok(n);
        }
        let least = match self.0.start() {
            1 => "1 byte".to_owned(),
            least => format!("{least} bytes"),
        };
        let most = units::bytes(*self.0.end());
        let why = format!("is out of bounds: {or}from {least} to {most}");
        wrong(axis, text, &why)
    }

    fn value(&self, value: &T) -> Value {
        Value::Bytes((*value).into())
    }
}

/// Numbers within bounds, with the noun that errors call them by.
pub(super) struct Number(pub(super) RangeInclusive<u64>, pub(super) &'static str);

/// Whole numbers from `least` to `most`.
pub(super) const fn count(least: u64, most: u32) -> Number {
    Number(least..=most as u64, "a whole number")
}

impl<T: TryFrom<u64> + Into<u64> + Copy> Values<T> for Number {
    fn read(&self, axis: Axis, text: &str, or: &str) -> Result<T, Invalid> {
        let Number(bounds, noun) = self;
        (text.trim().parse().ok())
            .filter(|number| bounds.contains(number))
            .and_then(|number| T::try_from(number).ok())
            .ok_or_else(|| {
                let (least, most) = (bounds.start(), bounds.end());
                Invalid(format!(
                    "{axis} `{text}` is out of bounds: {or}{noun} from {least} to {most}"
                ))
            })
    }

    fn value(&self, value: &T) -> Value {
        Value::Count((*value).into())
    }
}

/// Words for "none", of which the first is printed, or else another set of values.
pub(super) struct Or<V>(pub(super) &'static [&'static str], pub(super) V);

impl<T, V: Values<T>> Values<Option<T>> for Or<V> {
    fn read(&self, axis: Axis, text: &str, _: &str) -> Result<Option<T>, Invalid> {
        if self.0.contains(&text) {
            return Ok(None);
        }
        let words: String = self.0.iter().map(|word| format!("`{word}`, ")).collect();
        let or = format!("{words}or ");
        self.1.read(axis, text, &or).map(Some)
    }

    fn value(&self, value: &Option<T>) -> Value {
        match value {
            Some(value) => self.1.value(value),
            None => Value::parse(self.0[0]),
        }
    }
}

/// Words, each a variant of `T`, or else bytes up to a bound.
pub(super) struct OrBytes<T: 'static>(pub(super) &'static [T], pub(super) u64);

impl<T: From<u64> + Display + Copy> Values<T> for OrBytes<T> {
    fn read(&self, axis: Axis, text: &str, or: &str) -> Result<T, Invalid> {
        match self.0.iter().find(|word| word.to_string() == text) {
            Some(word) => Ok(*word),
            None => Bytes(1..=self.1).read(axis, text, or).map(u64::into),
        }
    }

    fn value(&self, value: &T) -> Value {
        Value::parse(&value.to_string())
    }
}

/// Names of rows of the engine's tables, which are not looked up here.
pub(super) struct Name;

impl Values<String> for Name {
    fn read(&self, axis: Axis, text: &str, _: &str) -> Result<String, Invalid> {
        if units::is_name(text) {
            Ok(text.to_owned())
        } else {
            wrong(axis, text, "is not a name")
        }
    }

    fn value(&self, value: &String) -> Value {
        Value::parse(value)
    }
}

/// The variants of an enum.
pub(super) struct OneOf;

fn one_of<T: Copy>(
    axis: Axis,
    text: &str,
    known: &[T],
    name: fn(T) -> &'static str,
) -> Result<T, Invalid> {
    match known.iter().find(|value| name(**value) == text) {
        Some(value) => Ok(*value),
        None => {
            let names = known.iter().map(|value| name(*value));
            Err(Invalid(units::unknown(axis.name(), text, names)))
        }
    }
}

impl<T: VariantArray + Into<&'static str> + Copy> Values<T> for OneOf {
    fn read(&self, axis: Axis, text: &str, _: &str) -> Result<T, Invalid> {
        one_of(axis, text, T::VARIANTS, Into::into)
    }

    fn value(&self, value: &T) -> Value {
        Value::parse((*value).into())
    }
}

/// The two values of a switch.
pub(super) struct OnOff;

fn on_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

impl Values<bool> for OnOff {
    fn read(&self, axis: Axis, text: &str, _: &str) -> Result<bool, Invalid> {
        one_of(axis, text, &[true, false], on_off)
    }

    fn value(&self, value: &bool) -> Value {
        Value::Flag(*value)
    }
}

/// Texts that the type's own `FromStr` parses.
pub(super) struct Text;

impl<T: FromStr<Err = Invalid> + Display> Values<T> for Text {
    fn read(&self, _: Axis, text: &str, _: &str) -> Result<T, Invalid> {
        text.parse()
    }

    fn value(&self, value: &T) -> Value {
        Value::parse(&value.to_string())
    }
}

/// Nanoseconds up to a bound, as a duration in whole microseconds; 0 needs no unit.
pub(super) struct Time(pub(super) u64);

impl Values<u64> for Time {
    fn read(&self, axis: Axis, text: &str, _: &str) -> Result<u64, Invalid> {
        let time = units::parse_duration(text).map_err(|e| Invalid(format!("{axis}: {e}")))?;
        let us = u64::try_from(time.as_micros()).ok();
        match us.and_then(|us| us.checked_mul(1000)) {
            Some(ns) if ns <= self.0 => Ok(ns),
            _ => {
                let most = units::duration(Duration::from_nanos(self.0));
                wrong(axis, text, &format!("is out of bounds: from 0 to {most}"))
            }
        }
    }

    fn value(&self, value: &u64) -> Value {
        match value {
            0 => Value::Count(0),
            ns => Value::Duration(Duration::from_nanos(*ns)),
        }
    }
}
