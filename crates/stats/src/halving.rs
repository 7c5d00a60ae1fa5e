//! Bisection: the search for the point at which a condition changes.

/// The part of a range that is left after so many halvings. The condition `holds` at its low end, if it
/// does anywhere, and not at its high end.
pub(crate) fn halved(
    (mut low, mut high): (f64, f64),
    times: usize,
    holds: impl Fn(f64) -> bool,
) -> (f64, f64) {
    for _ in 0..times {
        let middle = (low + high) / 2.0;
        if holds(middle) {
            low = middle
        } else {
            high = middle
        }
    }
    (low, high)
}

/// The least number from `first` to `last` from which on the condition `holds`; `None` if it does not hold
/// for `last`.
pub fn least(first: usize, last: usize, holds: impl Fn(usize) -> bool) -> Option<usize> {
    let (mut low, mut high) = (first, last);
    if high < low || !holds(high) {
        return None;
    }
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            high = middle
        } else {
            low = middle + 1
        }
    }
    Some(low)
}
