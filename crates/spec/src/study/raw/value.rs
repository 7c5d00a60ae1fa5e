//! Values as they stand in the file: text, numbers, booleans, and lists of them.

use serde::Deserialize;
use serde::de::{self, Deserializer, SeqAccess, Visitor};
use toml::Spanned;

/// A value as text, whether it was written as a string, a whole number or a boolean.
pub(crate) struct RawText(pub(crate) String);

/// One value or a list of them.
pub(crate) struct RawValues(pub(super) Vec<Spanned<RawText>>);

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
