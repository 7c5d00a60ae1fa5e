//! The value of an axis without the axis: the common type of studies, cells and findings.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::time::Duration;

use serde::de::{Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};

use crate::units;

/// A value of an axis: `64KiB`, `8`, `250ms`, `on`, `sendmsg`.
///
/// [`Value::parse`] is its one parser and `Display` its one printer; files have the printed text. A
/// number of bytes below 1 KiB is printed without a unit, as a count is, so that `Bytes(8)` and
/// `Count(8)` are equal: the axis knows which of them a number is ([`super::Axis::kind`]).
#[derive(Clone, Debug)]
pub enum Value {
    /// Bytes.
    Bytes(u64),
    /// A number without a unit.
    Count(u64),
    /// A time, in whole microseconds.
    Duration(Duration),
    /// `on` or `off`.
    Flag(bool),
    /// A name of a table's row, one of a fixed set of words, or words with lists of CPUs.
    Word(String),
}

impl Value {
    /// Parses a text as [`super::Axis::read`] and `Display` write it; a text that is no number, time or
    /// flag is a word. It never fails: `Axis::read` checks that an axis has the value.
    pub fn parse(text: &str) -> Value {
        let word = || Value::Word(text.to_owned());
        match text {
            "on" => Value::Flag(true),
            "off" => Value::Flag(false),
            _ if text.starts_with(|c: char| c.is_ascii_digit()) => {
                let bytes = || units::parse_bytes(text).map(Value::Bytes).ok();
                let time = || units::parse_duration(text).map(Value::Duration).ok();
                // A name may have a number's digits, as a list of CPUs has: `0303`, `0:1`.
                (text.parse().map(Value::Count).ok())
                    .or_else(bytes)
                    .or_else(time)
                    .filter(|value| *value == text)
                    .unwrap_or_else(word)
            }
            _ => word(),
        }
    }

    /// The number of bytes, or the count; none for another kind of value.
    pub fn number(&self) -> Option<u64> {
        match self {
            Value::Bytes(number) | Value::Count(number) => Some(*number),
            Value::Duration(_) | Value::Flag(_) | Value::Word(_) => None,
        }
    }

    /// The word; empty for another kind of value.
    pub fn word(&self) -> &str {
        match self {
            Value::Word(word) => word,
            _ => "",
        }
    }

    fn rank(&self) -> Rank<'_> {
        let of_number = |kind, number| Rank {
            kind,
            number,
            word: "",
        };
        match self {
            Value::Bytes(number) | Value::Count(number) => of_number(0, u128::from(*number)),
            Value::Duration(time) => of_number(1, time.as_nanos()),
            Value::Flag(flag) => of_number(2, u128::from(*flag)),
            Value::Word(word) => Rank {
                kind: 3,
                number: 0,
                word,
            },
        }
    }
}

/// The key of the order: numbers first, then times, flags and words.
#[derive(PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Rank<'v> {
    kind: u8,
    number: u128,
    word: &'v str,
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Bytes(bytes) => f.pad(&units::bytes(*bytes)),
            Value::Count(count) => f.pad(&count.to_string()),
            Value::Duration(time) => f.pad(&units::duration(*time)),
            Value::Flag(flag) => f.pad(if *flag { "on" } else { "off" }),
            Value::Word(word) => f.pad(word),
        }
    }
}

/// An empty word, which no axis takes.
impl Default for Value {
    fn default() -> Value {
        Value::Word(String::new())
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::parse(text)
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        self.rank() == other.rank()
    }
}

impl Eq for Value {}

impl PartialEq<str> for Value {
    fn eq(&self, text: &str) -> bool {
        match self {
            Value::Word(word) => word == text,
            value => format!("{value}") == text,
        }
    }
}

impl PartialEq<&str> for Value {
    fn eq(&self, text: &&str) -> bool {
        self == *text
    }
}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Value) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Value {
    fn cmp(&self, other: &Value) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.rank().hash(state);
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
        String::deserialize(deserializer).map(|text| Value::parse(&text))
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Value {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        String::schema_name()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        String::json_schema(generator)
    }

    fn inline_schema() -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::axis::AXES;

    #[test]
    fn a_value_is_read_back_as_it_was_printed() {
        let values = [
            Value::Bytes(65_536),
            Value::Bytes(256),
            Value::Bytes(1 << 30),
            Value::Count(1500),
            Value::Duration(Duration::from_micros(1500)),
            Value::Duration(Duration::from_secs(60)),
            Value::Flag(false),
            Value::Word("sendmsg".to_owned()),
            Value::Word("0,2:1".to_owned()),
            Value::Word("0303".to_owned()),
            Value::Word("+7".to_owned()),
            Value::Word("100us-and-more".to_owned()),
            Value::Word(String::new()),
        ];
        for value in values {
            let text = value.to_string();
            assert_eq!(Value::parse(&text), value, "{text}");
            assert_eq!(value, *text);
            let json = serde_json::to_string(&value).unwrap();
            assert_eq!(json, format!("\"{text}\""));
            assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), value);
        }
        for row in AXES {
            assert_eq!(Value::parse(row.default).to_string(), row.default);
        }
    }

    #[test]
    fn values_have_an_order_in_which_numbers_go_by_size() {
        let texts = ["send", "64KiB", "off", "256", "1MiB", "10ms", "on", "8"];
        let mut values = texts.map(Value::from);
        values.sort();
        let sorted = values.map(|value| value.to_string());
        assert_eq!(
            sorted,
            ["8", "256", "64KiB", "1MiB", "10ms", "off", "on", "send"]
        );
        assert_eq!(Value::Bytes(8), Value::Count(8));
    }
}
