//! A crossover in one sentence.

use bytecost_spec::{Axis, Unit};

use crate::phrases::{self, percent};
use crate::result::{Crossing, CrossingPoint, Crossover};

/// What becomes of the two along the axis.
pub(super) fn of(c: &Crossover, smallest_effect: f64, unit: Unit) -> String {
    let lower = c.axis.subject(&c.value);
    let other = phrases::capital(&lower);
    let base = c.axis.subject(&c.baseline);
    let noun = phrases::metric(c.metric, unit);
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
            "Whether {lower} is better than {base} in {noun} at any {step} {range} is not decided{place}."
        ),
        Crossing::At(points) => {
            let spans = spans(c.along, points);
            let beyond = beyond(c, points);
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

/// The stretches in which the other is better: `from between 4 KiB and 16 KiB on`.
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
    let name = |value: &String| along.subject(value);
    match (&point.low, &point.high) {
        (Some(low), Some(high)) => format!("between {} and {}", name(low), name(high)),
        (Some(one), None) | (None, Some(one)) => name(one),
        (None, None) => String::new(),
    }
}

/// What lies on the other side: one thing, or values that are not decided.
fn beyond(c: &Crossover, points: &[CrossingPoint]) -> String {
    if !c.open.is_empty() {
        let values: Vec<String> = c.open.iter().map(|x| c.along.subject(x)).collect();
        format!("; not decided at {}", phrases::list(&values))
    } else if points.iter().all(|p| p.fades) {
        "; elsewhere there is no difference that matters".to_owned()
    } else if points.iter().all(|p| !p.fades) {
        "; elsewhere it is worse".to_owned()
    } else {
        String::new()
    }
}
