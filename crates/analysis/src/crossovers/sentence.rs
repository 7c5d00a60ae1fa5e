//! A crossover in one sentence.

use bytecost_spec::Axis;

use crate::phrases::{self, percent};
use crate::result::{Crossing, CrossingPoint, Crossover};

/// What becomes of the two along the axis.
pub(super) fn of(c: &Crossover, smallest_effect: f64) -> String {
    let lower = c.axis.subject(&c.value);
    let other = phrases::capital(&lower);
    let base = c.axis.subject(&c.baseline);
    let noun = phrases::metric(c.metric);
    let [least, most] = [&c.range.0, &c.range.1].map(|v| c.along.subject(v));
    let range = format!("from {least} to {most}");
    let step = step(c.along);
    let place = phrases::joined_circumstances(&c.place);
    match &c.outcome {
        Crossing::AlwaysBetter => {
            format!("{other} is better than {base} in {noun} at every {step} {range}{place}.")
        }
        Crossing::NeverBetter => {
            let bound = percent(smallest_effect);
            format!(
                "{other} is at no {step} {range} better than {base} in {noun} by {bound} or more{place}."
            )
        }
        Crossing::Undecided => format!(
            "At which {step} {range} {lower} becomes better than {base} in {noun} is not decided{place}."
        ),
        Crossing::At(points) if is_open(&c.outcome) => {
            let told = estimate(c.along, &points[0]);
            format!(
                "Whether {lower} is better than {base} in {noun} anywhere {range} is not decided{place}: {told}."
            )
        }
        Crossing::At(points) => {
            let spans = spans(c.along, points);
            let beyond = beyond(points);
            format!("{other} is better than {base} in {noun} {spans}{place}{beyond}.")
        }
    }
}

/// What one goes through along an axis.
fn step(along: Axis) -> &'static str {
    match along {
        Axis::Size => "size",
        Axis::Threads => "number of threads",
        Axis::Fields => "number of fields",
        Axis::Connections => "number of connections",
        _ => "value",
    }
}

/// The stretches in which the other is better: `from about 20 KiB (95 % interval …)`.
fn spans(along: Axis, points: &[CrossingPoint]) -> String {
    let mut spans: Vec<String> = Vec::new();
    let mut open: Option<String> = None;
    for point in points {
        let told = told(along, point);
        match (point.better_above, open.take()) {
            (true, _) => open = Some(told),
            (false, Some(start)) => spans.push(format!("from {start} to {told}")),
            (false, None) => spans.push(format!("up to {told}")),
        }
    }
    spans.extend(open.map(|start| format!("from {start} on")));
    phrases::list(&spans)
}

fn told(along: Axis, point: &CrossingPoint) -> String {
    let place = |value: f64| place_in_words(along, value);
    let interval = match (point.low, point.high) {
        (Some(low), Some(high)) => format!("{} to {}", place(low), place(high)),
        (Some(low), None) => format!("from {}, without an end in the range", place(low)),
        (None, Some(high)) => format!("up to {}, without a beginning in the range", place(high)),
        (None, None) => "wider than the range".to_owned(),
    };
    format!("about {} (95 % interval {interval})", place(point.value))
}

/// Whether it is not shown that the other is better anywhere, nor that it is better nowhere.
pub(crate) fn is_open(outcome: &Crossing) -> bool {
    match outcome {
        Crossing::Undecided => true,
        Crossing::At(points) => matches!(points.as_slice(), [only] if unseen(only)),
        Crossing::AlwaysBetter | Crossing::NeverBetter => false,
    }
}

/// Whether the interval leaves open that the better side lies within the range.
fn unseen(point: &CrossingPoint) -> bool {
    match point.better_above {
        true => point.high.is_none(),
        false => point.low.is_none(),
    }
}

/// Where it is surely not better, and from where on it is by the estimate alone.
fn estimate(along: Axis, point: &CrossingPoint) -> String {
    let place = |value: Option<f64>| value.map_or_else(String::new, |v| place_in_words(along, v));
    let at = place_in_words(along, point.value);
    if point.better_above {
        let low = place(point.low);
        format!("up to {low} it is not, and by the estimate alone it is from about {at} on")
    } else {
        let high = place(point.high);
        format!("from {high} on it is not, and by the estimate alone it is up to about {at}")
    }
}

/// What lies on the other side, where all crossings are of one kind; or that the better side is
/// beyond what the intervals show.
fn beyond(points: &[CrossingPoint]) -> &'static str {
    if points.iter().any(unseen) {
        "; that it is better within the range is an estimate that the interval does not bear out"
    } else if points.iter().all(|p| p.fades) {
        "; elsewhere there is no difference that matters"
    } else if points.iter().all(|p| !p.fades) {
        "; elsewhere it is worse"
    } else {
        ""
    }
}

/// A place along an axis that need not be one of its values: `20 KiB`, `2.5 threads`.
fn place_in_words(along: Axis, value: f64) -> String {
    const UNITS: [(f64, &str); 3] = [
        ((1_u64 << 30) as f64, "GiB"),
        ((1_u64 << 20) as f64, "MiB"),
        (1024.0, "KiB"),
    ];
    let digits = |v: f64| {
        let written = if v < 9.95 {
            format!("{v:.1}")
        } else {
            format!("{v:.0}")
        };
        written.trim_end_matches(".0").to_owned()
    };
    match along {
        Axis::Threads => format!("{} threads", digits(value)),
        Axis::Fields => format!("{} fields", digits(value)),
        Axis::Depth => format!("depth {}", digits(value)),
        Axis::Connections => format!("{} connections", digits(value)),
        Axis::Idle => format!("{} idle connections", digits(value)),
        Axis::Rate => format!("{} requests/s", digits(value)),
        _ => UNITS.iter().find(|(unit, _)| value >= *unit).map_or_else(
            || format!("{value:.0} B"),
            |(unit, name)| format!("{} {name}", digits(value / unit)),
        ),
    }
}
