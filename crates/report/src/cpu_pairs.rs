//! Words about the round-trip times of pairs of CPUs.

use bytecost_analysis::{Estimate, MatrixData, PairPoint, SharedHardware, grouped};
use bytecost_spec::Nearness;
use bytecost_spec::units::{bytes_in_words, number};
use itertools::Itertools as _;

use crate::phrases;

type MeasuredPair<'m> = (&'m PairPoint, Estimate);

/// A summary of a matrix: the quickest and the slowest pair, and each kind of distance.
pub(crate) fn summary(matrix: &MatrixData) -> Vec<String> {
    let measured = || {
        matrix
            .pairs
            .iter()
            .filter_map(|p| Some((p, *p.point.measured()?)))
    };
    let by_time = measured()
        .sorted_by(|a, b| a.1.value.total_cmp(&b.1.value))
        .collect_vec();
    let (least, most) = match &by_time[..] {
        [] => return Vec::new(),
        [(pair, estimate)] => {
            return vec![format!(
                "{} takes {}.",
                place(pair),
                with_interval(estimate)
            )];
        }
        [least, .., most] => (least, most),
    };
    let factor = match (least.1.high, most.1.low) {
        (Some(high), Some(low)) if high < low => {
            format!("{:.1}× as long", most.1.value / least.1.value)
        }
        _ => "which the intervals do not tell apart".to_owned(),
    };
    let mut sentences = vec![format!(
        "Quickest is {} with {}, slowest {} with {}, {factor}.",
        place(least.0),
        with_interval(&least.1),
        place(most.0),
        with_interval(&most.1)
    )];
    let by_class = grouped(measured().map(|pair| (pair.0.class, pair)));
    if by_class.len() > 1 {
        let classes = by_class.iter().map(|(_, pairs)| class(pairs));
        sentences.push(format!("From near to far: {}.", classes.format("; ")));
    }
    sentences
}

/// `same L3 of 32 MiB 9.03 µs`, of several pairs `… 8.90 to 9.20 µs over 3 pairs`.
fn class(pairs: &[MeasuredPair<'_>]) -> String {
    let values = pairs.iter().map(|(_, e)| e.value).collect_vec();
    let first = pairs.first().map(|(pair, _)| *pair);
    let name = match first {
        Some(pair) if pairs.iter().all(|(p, _)| p.shared == pair.shared) => shared(pair),
        Some(pair) if pair.nearness == Some(Nearness::CrossNode) => "other nodes".to_owned(),
        // Caches of several sizes.
        Some(PairPoint {
            shared: SharedHardware::Cache { level, .. },
            ..
        }) => format!("same L{level}"),
        other => other.map(shared).unwrap_or_default(),
    };
    let over = match pairs.len() {
        1 => String::new(),
        several => format!(" over {several} pairs"),
    };
    format!("{name} {}{over}", phrases::span(&values, time))
}

fn place(pair: &PairPoint) -> String {
    if pair.from == pair.to {
        format!("CPU {} with itself", pair.from)
    } else {
        format!("{}:{} ({})", pair.from, pair.to, shared(pair))
    }
}

/// The hardware that a pair shares, as a place: `same CPU`, `same L3 of 32 MiB`, `nodes 0 and 1`.
pub(crate) fn shared(pair: &PairPoint) -> String {
    match pair.shared {
        SharedHardware::Cpu => "same CPU".to_owned(),
        SharedHardware::Core => "same core".to_owned(),
        SharedHardware::Cache { level, size_bytes } => {
            format!("same L{level} of {}", bytes_in_words(size_bytes))
        }
        SharedHardware::Nodes(a, b) => format!("nodes {a} and {b}"),
        SharedHardware::NoCache => "no cache in common".to_owned(),
        SharedHardware::Unknown => "what they share is not told".to_owned(),
    }
}

fn with_interval(estimate: &Estimate) -> String {
    let value = time(estimate.value);
    match (estimate.low, estimate.high) {
        (Some(low), Some(high)) => {
            format!("{value} (95 % interval {} to {})", time(low), time(high))
        }
        _ => value,
    }
}

/// Nanoseconds; microseconds from one on.
fn time(ns: f64) -> String {
    if ns < 1000.0 {
        format!("{} ns", number(ns))
    } else {
        format!("{} µs", number(ns / 1000.0))
    }
}
