//! Expectations of claims: bounds of a number, or its equality with others.

use std::fmt;
use std::str::FromStr;

use crate::units;

/// The expected range of a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Expected {
    /// Greater than the bound.
    Above(f64),
    /// Less than the bound.
    Below(f64),
    /// From the first bound to the second, both included.
    Within(f64, f64),
    /// A ratio that differs from 1 by less than the study's smallest effect.
    Alike,
    /// Between the least and the greatest of the numbers that it is compared with.
    Among,
}

impl Expected {
    /// Returns true if the number is as expected; none if the number alone cannot decide it.
    pub fn is_met(self, value: f64) -> Option<bool> {
        match self {
            Expected::Above(bound) => Some(value > bound),
            Expected::Below(bound) => Some(value < bound),
            Expected::Within(low, high) => Some(low <= value && value <= high),
            Expected::Alike | Expected::Among => None,
        }
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expected::Above(bound) => write!(f, "above {}", in_words(*bound)),
            Expected::Below(bound) => write!(f, "below {}", in_words(*bound)),
            Expected::Within(low, high) if low == high => f.write_str(&in_words(*low)),
            Expected::Within(low, high) => {
                write!(f, "from {} to {}", in_words(*low), in_words(*high))
            }
            Expected::Alike => f.write_str("about 1"),
            Expected::Among => f.write_str("among its own data"),
        }
    }
}

/// A bound as it was written, with thousands separators from 10,000 on.
fn in_words(bound: f64) -> String {
    if bound >= 1e4 {
        units::number(bound)
    } else {
        bound.to_string()
    }
}

impl FromStr for Expected {
    type Err = String;

    fn from_str(text: &str) -> Result<Expected, String> {
        let wrong = || {
            format!(
                "`{text}` is no expectation: write `above 1`, `below 1`, `within 4.8..6`, `is 0`, `alike` or `among`"
            )
        };
        let number = |bound: &str| -> Result<f64, String> {
            match bound.trim().parse::<f64>() {
                Ok(n) if n.is_finite() && n >= 0.0 => Ok(n),
                _ => Err(wrong()),
            }
        };
        let (word, rest) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        Ok(match (word, rest) {
            ("above", bound) => Expected::Above(number(bound)?),
            ("below", bound) => Expected::Below(number(bound)?),
            ("is", value) => Expected::Within(number(value)?, number(value)?),
            ("within", bounds) => {
                let (low, high) = bounds.split_once("..").ok_or_else(wrong)?;
                match (number(low)?, number(high)?) {
                    (low, high) if low <= high => Expected::Within(low, high),
                    _ => return Err(wrong()),
                }
            }
            ("alike", "") => Expected::Alike,
            ("among", "") => Expected::Among,
            _ => return Err(wrong()),
        })
    }
}
