//! Places along the range of a situation.

use bytecost_analysis::{DecidedPoint, DecidedRange, Situation};
use bytecost_spec::Value;
use itertools::Itertools as _;

use crate::phrases;

/// Some values along the range of a situation: `at 4 KiB and 64 KiB`, `from 4 KiB to 1 MiB`.
pub(super) fn span(s: &Situation, at: &[Value]) -> String {
    let Some(axis) = s.along else {
        return String::new();
    };
    let position = |value: &Value| s.measured.iter().position(|v| v == value);
    let follows = |(a, b)| position(a).is_some_and(|place| position(b) == Some(place + 1));
    match at {
        [] => String::new(),
        [first, .., last] if at.len() > 2 && at.iter().tuple_windows().all(follows) => {
            format!("from {} to {}", axis.subject(first), axis.subject(last))
        }
        [first, others @ ..] => {
            let subjects = others.iter().map(|value| axis.subject(value));
            phrases::list([axis.circumstance(first)].into_iter().chain(subjects))
        }
    }
}

pub(super) fn places(range: &DecidedRange) -> Vec<Value> {
    let at = range.points.iter().filter_map(|p| p.at.clone());
    at.unique().collect()
}

/// The 95 % intervals of some findings together: `22–48 % less`, `3.9–4.6×`; the direction alone where
/// an amount is withheld.
pub(super) fn amount<'p>(points: impl IntoIterator<Item = &'p DecidedPoint>) -> String {
    let points = points.into_iter().collect_vec();
    let less = are_less(points.iter().copied());
    if points.iter().any(|p| p.has_no_amount) {
        return if less { "less" } else { "more" }.to_owned();
    }
    let low = points.iter().map(|p| p.low).fold(f64::INFINITY, f64::min);
    let high = points.iter().map(|p| p.high).fold(0.0, f64::max);
    phrases::between(low, high) + if less { " less" } else { "" }
}

pub(super) fn are_less<'p>(points: impl IntoIterator<Item = &'p DecidedPoint>) -> bool {
    points.into_iter().all(|p| p.high < 1.0)
}
