//! Cells by themselves: a metric in its own unit, and whether a caveat affects them.

use bytecost_spec::claim::{Expected, Test};
use bytecost_spec::{Measure, Metric, units};
use bytecost_stats::{poisson_interval, trimmed_mean};
use itertools::Itertools as _;

use super::claim_test::{CaseResult, ClaimTest, Item, tested, with_interval};
use super::context::ClaimContext;
use crate::caveats;
use crate::confidence::FEWEST;
use crate::phrases;
use crate::result::CellResult;
use crate::trials::CellTrials;

/// The level of the interval of two sides whose upper end holds at 95 %.
const ONE_SIDED: f64 = 0.9;

pub(super) fn level(
    context: &ClaimContext<'_>,
    test: &Test,
    metric: Metric,
    expect: Expected,
) -> Result<ClaimTest, String> {
    let knows =
        |r: &CellResult| r.estimates.contains_key(&metric) || r.absent.contains_key(&metric);
    let is_copies = metric.measure == Measure::CopiesPerByte;
    let mut found = context.cells(&test.place).collect_vec();
    let any = !found.is_empty();
    // Cells beyond a tenth of the budget are not counted, which takes nothing from the others.
    found.retain(|c| {
        context.result(&c.id).is_some_and(knows) || (c.by_block.is_empty() && !is_copies)
    });
    if found.is_empty() {
        return Err(match is_copies && any {
            true => "bytes copied for each byte of payload were not counted: `--evidence copies` counts them, as root".to_owned(),
            false => context.no_cells(&test.place, None),
        });
    }
    let item = |c: &CellTrials<'_>| match is_copies {
        true => copies(context, c, metric, expect),
        false => item(context, c, metric, expect),
    };
    Ok(ClaimTest {
        subject: context.words(metric),
        expected: expected(metric, expect),
        noun: "cell",
        cells: test.cells,
        items: with_places(context, &found, item),
        note: None,
    })
}

/// An item of each cell, with its place.
fn with_places(
    context: &ClaimContext<'_>,
    found: &[&CellTrials<'_>],
    item: impl Fn(&CellTrials<'_>) -> Item,
) -> Vec<Item> {
    let cells = found.iter().map(|c| c.cell).collect_vec();
    let places = context.places(&cells, &[]).into_iter();
    let items = found.iter().zip(places);
    items.map(|(c, place)| Item { place, ..item(c) }).collect()
}

fn item(
    context: &ClaimContext<'_>,
    cell: &CellTrials<'_>,
    metric: Metric,
    expect: Expected,
) -> Item {
    let known = cell
        .trials()
        .filter_map(|t| t.value(metric).known())
        .collect_vec();
    // On a log scale as estimates are, unless there is a zero, which has no logarithm.
    let on_logs = known.iter().all(|v| *v > 0.0);
    let scale = |v: f64| if on_logs { v.ln() } else { v };
    let scaled = known.iter().map(|v| scale(*v)).collect_vec();
    let location = trimmed_mean(&scaled).filter(|_| known.len() >= FEWEST);
    let estimate = context.result(&cell.id);
    let estimate = estimate.and_then(|r| r.estimates.get(&metric));
    let of = |v: f64| value(metric, v);
    let mut measured = estimate.map(|e| match (e.low, e.high) {
        (Some(low), Some(high)) => with_interval(of(e.value), &of(low), &of(high)),
        _ => of(e.value),
    });
    let withheld = context.withheld_all(cell, metric);
    let state = match &location {
        None => CaseResult::Absent(context.absent(&[cell], metric)),
        Some(_) if withheld.is_some() => CaseResult::Open(withheld.unwrap_or_default()),
        // That nothing was seen is a count, and so is that something was.
        Some(_) if expect == Expected::Within(0.0, 0.0) => {
            let is_zero = known.iter().all(|v| *v == 0.0);
            if is_zero {
                measured = Some(zero(context, metric, known.len()));
            }
            CaseResult::of(is_zero)
        }
        Some(location) => tested(location, expect, scale, context.family),
    };
    let published = context.published(cell.cell, metric);
    Item {
        value: location.map_or(0.0, |l| l.value),
        published: published.map(of),
        measured,
        ..Item::of(state)
    }
}

/// A zero with what it rules out: of a rate, by the rule of three on the sum of all trials.
fn zero(context: &ClaimContext<'_>, metric: Metric, trials: usize) -> String {
    let trials_in_words = phrases::count(trials, "trial");
    let seconds = trials as f64 * context.analysis.study.window_ms as f64 / 1e3;
    let (_, most) = poisson_interval(0, ONE_SIDED);
    match metric.measure.row().unit {
        "1/s" if seconds > 0.0 => format!(
            "0 in {trials_in_words}, at most {} (95 %)",
            value(metric, most / seconds)
        ),
        _ => format!("0 in {trials_in_words}"),
    }
}

/// How often bytes are copied, as it was counted: a count has no chance in it but for what TCP
/// sends again.
fn copies(
    context: &ClaimContext<'_>,
    cell: &CellTrials<'_>,
    metric: Metric,
    expect: Expected,
) -> Item {
    let estimate = context.result(&cell.id);
    let Some(estimate) = estimate.and_then(|r| r.estimates.get(&metric)) else {
        return Item::of(CaseResult::Absent(context.absent(&[cell], metric)));
    };
    let state = CaseResult::of(expect.is_met(estimate.value) == Some(true));
    let means = context.analysis.copies.iter().find(|c| c.cell == cell.id);
    let means = means.and_then(|c| c.legs.iter().find_map(|l| l.means));
    let by = means.map_or_else(String::new, |m| format!(", counted by {}", m.title()));
    Item {
        value: estimate.value,
        measured: Some(format!("{:.2}{by}", estimate.value)),
        ..Item::of(state)
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

/// Whether a kind of caveat affects cells.
pub(super) fn caveat(
    context: &ClaimContext<'_>,
    test: &Test,
    kind: &str,
    present: bool,
) -> Result<ClaimTest, String> {
    if !caveats::is_looked_for(kind) {
        return Err(format!("this version does not look for `{kind}`"));
    }
    let measured = context
        .cells(&test.place)
        .filter(|c| !c.by_block.is_empty());
    let measured = measured.collect_vec();
    if measured.is_empty() {
        return Err(context.no_cells(&test.place, None));
    }
    let item = |c: &CellTrials<'_>| {
        let found = context.affected(kind, &c.id);
        Item {
            measured: Some(if found { "found" } else { "not found" }.to_owned()),
            ..Item::of(CaseResult::of(found == present))
        }
    };
    Ok(ClaimTest {
        subject: format!("`{kind}`"),
        expected: if present { "found" } else { "absent" }.to_owned(),
        noun: "cell",
        cells: test.cells,
        items: with_places(context, &measured, item),
        note: None,
    })
}
