//! Places along the range of a situation.

use bytecost_analysis::{DecidedRange, Situation, phrases};
use itertools::Itertools as _;

/// Some values along the range of a situation: `at 4 KiB and 64 KiB`, `from 4 KiB to 1 MiB`.
pub(super) fn span(s: &Situation, at: &[String]) -> String {
    let Some(axis) = s.along else {
        return String::new();
    };
    let position = |value: &String| s.measured.iter().position(|v| v == value);
    let follows = |(a, b)| {
        position(a)
            .zip(position(b))
            .is_some_and(|(a, b)| a + 1 == b)
    };
    match at {
        [] => String::new(),
        [first, .., last] if at.len() > 2 && at.iter().tuple_windows().all(follows) => {
            format!("from {} to {}", axis.subject(first), axis.subject(last))
        }
        [first, others @ ..] => {
            let first = axis.circumstance(first);
            let others = others.iter().map(|value| axis.subject(value));
            phrases::list(std::iter::once(first).chain(others))
        }
    }
}

pub(super) fn places(range: &DecidedRange) -> Vec<String> {
    let at = range.points.iter().filter_map(|p| p.at.clone());
    at.unique().collect()
}

pub(super) fn is_less(range: &DecidedRange) -> bool {
    range.points.iter().all(|p| p.high < 1.0)
}
