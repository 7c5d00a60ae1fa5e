//! Where something turns: the search by halves.

/// The part of a range that is left after so many halvings: something holds at its low end, if
/// anywhere, and no longer at its high one.
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

/// The least whole number from `first` to `last` from which on something holds; `None` where it
/// does not hold for the last.
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
