//! A metric by itself, in its own unit.

use bytecost_spec::claim::{Expected, Place, Quantity};
use bytecost_spec::{Cell, Measure, Metric, units};
use bytecost_stats::trimmed_mean;

use super::claim_test::{CaseResult, ClaimTest, Family, Item, tested};
use super::context::ClaimContext;
use crate::confidence::FEWEST;
use crate::phrases;
use crate::trials::CellTrials;

pub(super) fn draft(
    context: &ClaimContext<'_>,
    metric: Metric,
    place: &Place,
    expect: Expected,
    cells: Quantity,
    family: &mut Family,
) -> ClaimTest {
    let applies = |c: &&CellTrials<'_>| {
        c.by_block.is_empty()
            || context.result(&c.id).is_some_and(|r| {
                r.estimates.contains_key(&metric) || r.absent.contains_key(&metric)
            })
    };
    let found: Vec<&CellTrials<'_>> = context.cells(place).filter(applies).collect();
    if found.is_empty() {
        return ClaimTest::missing(context.no_cells(place, None));
    }
    let cells_of: Vec<&Cell> = found.iter().map(|c| c.cell).collect();
    let places = context.places(&cells_of, &[]);
    let items = found.iter().zip(places);
    ClaimTest {
        subject: phrases::metric(metric),
        expected: expected(metric, expect),
        noun: "cell",
        cells,
        items: items
            .map(|(c, place)| Item {
                place,
                ..item(context, c, metric, expect, family)
            })
            .collect(),
        note: None,
        missing: None,
    }
}

fn item(
    context: &ClaimContext<'_>,
    cell: &CellTrials<'_>,
    metric: Metric,
    expect: Expected,
    family: &mut Family,
) -> Item {
    let known = cell.trials().filter_map(|t| t.value(metric).known());
    let known: Vec<f64> = known.collect();
    // On a log scale as estimates are, unless there is a zero, which has no logarithm.
    let on_logs = known.iter().all(|v| *v > 0.0);
    let scale = |v: f64| if on_logs { v.ln() } else { v };
    let scaled: Vec<f64> = known.iter().map(|v| scale(*v)).collect();
    let location = trimmed_mean(&scaled).filter(|_| known.len() >= FEWEST);
    let result = context.result(&cell.id);
    let state = match location {
        Some(location) => tested(&location, expect, scale, family),
        None => {
            let why = result.and_then(|r| r.absent.get(&metric));
            CaseResult::Open(why.cloned().unwrap_or_else(|| {
                format!(
                    "{} trials that count; an interval takes {FEWEST}",
                    known.len()
                )
            }))
        }
    };
    Item {
        value: location.map_or(0.0, |l| l.value),
        place: String::new(),
        state,
        published: context
            .published(cell.cell, metric)
            .map(|v| value(metric, v)),
        measured: result.and_then(|r| r.estimates.get(&metric)).map(|e| {
            let of = |v: f64| value(metric, v);
            match (e.low, e.high) {
                (Some(low), Some(high)) => {
                    format!("{} ({} to {})", of(e.value), of(low), of(high))
                }
                _ => of(e.value),
            }
        }),
        finding: None,
        stalled: false,
        twin: String::new(),
    }
}

/// What is expected, with the unit; of shares as percentages.
fn expected(metric: Metric, expect: Expected) -> String {
    let of = |v: f64| value(metric, v);
    match expect {
        Expected::Above(bound) if is_share(metric) => format!("above {}", of(bound)),
        Expected::Below(bound) if is_share(metric) => format!("below {}", of(bound)),
        Expected::Within(low, high) if is_share(metric) => {
            format!("from {} to {}", of(low), of(high))
        }
        other => format!("{other} {}", metric.measure.row().unit)
            .trim_end()
            .to_owned(),
    }
}

fn is_share(metric: Metric) -> bool {
    matches!(
        metric.measure,
        Measure::CopiedShare | Measure::SystemShare | Measure::NeighbourShare | Measure::StealShare
    )
}

/// A value with its unit; shares as percentages.
fn value(metric: Metric, value: f64) -> String {
    if is_share(metric) {
        return phrases::percent(value);
    }
    format!("{} {}", units::number(value), metric.measure.row().unit)
        .trim_end()
        .to_owned()
}
