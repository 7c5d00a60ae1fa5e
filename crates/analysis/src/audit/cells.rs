//! Cells by themselves: a metric in its own unit, and whether a caveat affects them.

use std::fmt::Display;

use bytecost_spec::claim::{Expected, Place};
use bytecost_spec::{Measure, Metric, units};
use bytecost_stats::{BetweenRounds, poisson_interval, trimmed_mean};
use itertools::Itertools as _;

use super::claim_test::{CaseResult, ClaimTest, Item, Wanted, tested, with_interval};
use super::context::{ClaimContext, counts_calls};
use crate::caveats;
use crate::confidence::FEWEST;
use crate::phrases;
use crate::result::CellResult;
use crate::round_noise::round_error;
use crate::trials::CellTrials;

/// The level of the interval of two sides whose upper end holds at 95 %.
const ONE_SIDED: f64 = 0.9;

pub(super) fn level(
    context: &ClaimContext<'_>,
    place: &Place,
    (metric, expect): Wanted,
) -> Result<ClaimTest, String> {
    let knows =
        |r: &CellResult| r.estimates.contains_key(&metric) || r.absent.contains_key(&metric);
    let is_copies = metric.measure == Measure::CopiesPerByte;
    let mut found = context.cells(place).collect_vec();
    let any = !found.is_empty();
    // Cells beyond a tenth of the budget are not counted, which takes nothing from the others.
    found.retain(|c| {
        context.run.result(&c.id).is_some_and(knows) || (c.by_block.is_empty() && !is_copies)
    });
    if found.is_empty() {
        return Err(match is_copies && any {
            true => "bytes copied for each byte of payload were not counted: `--evidence copies` counts them, as root".to_owned(),
            false => context.no_cells(place, None),
        });
    }
    let of = if is_copies { copies } else { item };
    let items = with_places(context, &found, |c| of(context, c, (metric, expect)));
    let expected = expected(metric, expect);
    Ok(ClaimTest::of(
        context.words(metric),
        expected,
        "cell",
        items,
    ))
}

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

fn item(context: &ClaimContext<'_>, cell: &CellTrials<'_>, (metric, expect): Wanted) -> Item {
    let known = cell.trials().filter_map(|t| t.value(metric)).collect_vec();
    // On a log scale as estimates are, unless there is a zero, which has no logarithm.
    let on_logs = known.iter().all(|v| *v > 0.0);
    let scale = |v: f64| if on_logs { v.ln() } else { v };
    let scaled = known.iter().map(|v| scale(*v)).collect_vec();
    let within = trimmed_mean(&scaled).filter(|_| known.len() >= FEWEST);
    let (trials, rounds) = (context.run.trials, context.run.trials.rounds());
    // Of times and rates it is known what rounds differ by. A share has an upper bound, and a mover
    // makes the same calls in any minute.
    let between = if is_share(metric) || counts_calls(metric) {
        BetweenRounds::NONE
    } else {
        trials.between_rounds_of_cell(metric)
    };
    let location = within.map(|l| {
        let unit = if on_logs { 1.0 } else { l.value };
        let variance = between.variance * unit.powi(2);
        l.with_rounds(
            BetweenRounds {
                variance,
                ..between
            },
            rounds,
        )
    });
    let estimate = context.run.result(&cell.id);
    let estimate = estimate.and_then(|r| r.estimates.get(&metric));
    let estimate = estimate.map(|e| e.widened(round_error(between, rounds)));
    let of = |v: f64| value(metric, v);
    let mut measured = estimate.map(|e| match (e.low, e.high) {
        (Some(low), Some(high)) => with_interval(of(e.value), &of(low), &of(high)),
        _ => of(e.value),
    });
    let state = match (&location, context.withheld_all(cell, metric)) {
        (None, _) => CaseResult::Absent(context.absent(&[cell], metric)),
        (_, Some(why)) => CaseResult::Open(why),
        // That nothing was seen is a count, and so is that something was.
        _ if expect == Expected::Within(0.0, 0.0) => {
            let is_zero = known.iter().all(|v| *v == 0.0);
            if is_zero {
                measured = Some(zero(context, metric, known.len()));
            }
            CaseResult::of(is_zero)
        }
        (Some(location), None) => tested(location, expect, scale, context.family),
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
    let seconds = trials as f64 * context.run.study.window_ms as f64 / 1e3;
    let trials = phrases::count(trials, "trial");
    if metric.measure.row().unit != "1/s" || seconds <= 0.0 {
        return format!("0 in {trials}");
    }
    let most = value(metric, poisson_interval(0, ONE_SIDED).1 / seconds);
    format!("0 in {trials}, at most {most} (95 %)")
}

/// As it was counted: a count has no chance in it but for what TCP sends again.
fn copies(context: &ClaimContext<'_>, cell: &CellTrials<'_>, (metric, expect): Wanted) -> Item {
    let estimate = context.run.result(&cell.id);
    let Some(estimate) = estimate.and_then(|r| r.estimates.get(&metric)) else {
        return Item::of(CaseResult::Absent(context.absent(&[cell], metric)));
    };
    let state = CaseResult::of(expect.is_met(estimate.value) == Some(true));
    let means = context
        .run
        .evidence
        .copies
        .iter()
        .find(|c| c.cell == cell.id);
    let means = means.and_then(|c| c.legs.iter().find_map(|l| l.means));
    let by = means.map_or_else(String::new, |m| format!(", counted by {}", m.title()));
    Item {
        value: estimate.value,
        measured: Some(format!("{:.2}{by}", estimate.value)),
        ..Item::of(state)
    }
}

fn expected(metric: Metric, expect: Expected) -> String {
    let of = |v: f64| value(metric, v);
    match expect {
        Expected::Above(bound) if is_share(metric) => format!("above {}", of(bound)),
        Expected::Below(bound) if is_share(metric) => format!("below {}", of(bound)),
        Expected::Within(low, high) if is_share(metric) => {
            format!("from {} to {}", of(low), of(high))
        }
        other => with_unit(&other, metric),
    }
}

fn with_unit(number: &impl Display, metric: Metric) -> String {
    let text = format!("{number} {}", metric.measure.row().unit);
    text.trim_end().to_owned()
}

fn is_share(metric: Metric) -> bool {
    matches!(
        metric.measure,
        Measure::CopiedShare | Measure::SystemShare | Measure::NeighbourShare | Measure::StealShare
    )
}

fn value(metric: Metric, value: f64) -> String {
    match is_share(metric) {
        true => phrases::percent(value),
        false => with_unit(&units::number(value), metric),
    }
}

pub(super) fn caveat(
    context: &ClaimContext<'_>,
    place: &Place,
    kind: &str,
    present: bool,
) -> Result<ClaimTest, String> {
    if !caveats::caveat_kinds().any(|known| known == kind) {
        return Err(format!("this version does not look for `{kind}`"));
    }
    let measured = context.cells(place).filter(|c| !c.by_block.is_empty());
    let measured = measured.collect_vec();
    if measured.is_empty() {
        return Err(context.no_cells(place, None));
    }
    let item = |c: &CellTrials<'_>| {
        let found = context.affected(kind, &c.id);
        Item {
            measured: Some(if found { "found" } else { "not found" }.to_owned()),
            ..Item::of(CaseResult::of(found == present))
        }
    };
    let expected = if present { "found" } else { "absent" }.to_owned();
    let items = with_places(context, &measured, item);
    Ok(ClaimTest::of(format!("`{kind}`"), expected, "cell", items))
}
