//! Cells by themselves: a metric in its own unit, and caveats that affect them.

use bytecost_spec::claim::Expected;
use bytecost_spec::{Measure, Metric};
use bytecost_stats::{BetweenRounds, poisson_interval, trimmed_mean};
use itertools::Itertools as _;

use super::context::{Cases, ClaimContext, Wanted, counts_calls};
use super::family::tested;
use crate::caveats;
use crate::confidence::FEWEST;
use crate::measures::is_bounded_share;
use crate::result::{
    Case, CaseState, CellResult, MeasuredNumber, NotTested, OpenReason, PublishedNumber,
};
use crate::round_noise::round_error;
use crate::trials::CellTrials;

/// The level of the interval of two sides whose upper end holds at 95 %.
const ONE_SIDED: f64 = 0.9;

pub(super) fn level(context: &ClaimContext<'_>, wanted: Wanted) -> Cases {
    let metric = wanted.metric;
    let knows = |r: &CellResult| r.estimates.contains_key(&metric) || r.gap(metric).is_some();
    let is_copies = metric.measure == Measure::CopiesPerByte;
    let mut found = context.cells().collect_vec();
    let any = !found.is_empty();
    // Cells beyond a tenth of the budget are not counted, which takes nothing from the others.
    found.retain(|c| {
        context.measured.result(&c.id).is_some_and(knows) || (c.by_block.is_empty() && !is_copies)
    });
    if found.is_empty() {
        return Err(if is_copies && any {
            NotTested::CopiesNotCounted
        } else {
            context.no_cells(None)
        });
    }
    let case = if is_copies { copies } else { case };
    Ok(with_places(context, &found, |c| case(context, c, wanted)).into())
}

fn with_places(
    context: &ClaimContext<'_>,
    found: &[&CellTrials<'_>],
    case: impl Fn(&CellTrials<'_>) -> Case,
) -> Vec<Case> {
    let cells = found.iter().map(|c| c.cell).collect_vec();
    let places = context.places(&cells, &[]);
    let of_cell = |(c, place): (&&CellTrials<'_>, _)| Case { place, ..case(c) };
    found.iter().zip(places).map(of_cell).collect()
}

fn case(context: &ClaimContext<'_>, cell: &CellTrials<'_>, wanted: Wanted) -> Case {
    let Wanted { metric, expect } = wanted;
    let known = cell.trials().filter_map(|t| t.value(metric)).collect_vec();
    // On a log scale as estimates are, unless there is a zero, which has no logarithm.
    let on_logs = known.iter().all(|v| *v > 0.0);
    let scale = |v: f64| if on_logs { v.ln() } else { v };
    let scaled = known.iter().map(|v| scale(*v)).collect_vec();
    let within = trimmed_mean(&scaled).filter(|_| known.len() >= FEWEST);
    let trials = context.measured.trials;
    let rounds = trials.rounds();
    // Of times and rates it is known what rounds differ by. A share has an upper bound, and a mover
    // makes the same calls in any minute.
    let between = if is_bounded_share(metric) || counts_calls(metric) {
        BetweenRounds::NONE
    } else {
        trials.between_rounds_of_any_cell(metric)
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
    let result = context.measured.result(&cell.id);
    let mut measured = result.and_then(|r| r.estimates.get(&metric)).map(|e| {
        let wide = e.widened(round_error(between, rounds));
        let ends = wide.low.zip(wide.high).map(<[f64; 2]>::from);
        MeasuredNumber::Level(metric, wide.value, ends)
    });
    let found = match (&location, context.cell_withheld_by(cell, metric)) {
        (None, _) => Case::new(CaseState::Absent(context.absent(&[cell], metric))),
        (_, Some(kind)) => Case::open(OpenReason::Withheld(kind)),
        // That nothing was seen is a count, and so is that something was.
        _ if expect == Expected::Within(0.0, 0.0) => {
            let is_zero = known.iter().all(|v| *v == 0.0);
            if is_zero {
                measured = Some(zero(context, metric, known.len()));
            }
            Case::new(CaseState::from_met(is_zero))
        }
        (Some(location), None) => tested(location, expect, scale),
    };
    let published = context.published(cell.cell, metric);
    Case {
        value: location.map_or(0.0, |l| l.value),
        published: published.map(|number| PublishedNumber::Level(metric, number)),
        measured,
        ..found
    }
}

/// A zero with what it rules out: of a rate, by the rule of three on the sum of all trials.
fn zero(context: &ClaimContext<'_>, metric: Metric, trials: usize) -> MeasuredNumber {
    let seconds = trials as f64 * context.measured.study.window_ms as f64 / 1e3;
    let is_rate = metric.measure.row().unit == "1/s" && seconds > 0.0;
    let most = is_rate.then(|| (metric, poisson_interval(0, ONE_SIDED).1 / seconds));
    MeasuredNumber::Zero { trials, most }
}

/// A count of copies, which has no chance in it but for what TCP sends again.
fn copies(context: &ClaimContext<'_>, cell: &CellTrials<'_>, wanted: Wanted) -> Case {
    let Wanted { metric, expect } = wanted;
    let result = context.measured.result(&cell.id);
    let Some(estimate) = result.and_then(|r| r.estimates.get(&metric)) else {
        return Case::new(CaseState::Absent(context.absent(&[cell], metric)));
    };
    let copies = &context.measured.copies;
    let counted = copies.iter().find(|c| c.cell == cell.id);
    let means = counted.and_then(|c| c.legs.iter().find_map(|l| l.means));
    let is_met = expect.is_met(estimate.value) == Some(true);
    Case {
        value: estimate.value,
        measured: Some(MeasuredNumber::Copies(estimate.value, means)),
        ..Case::new(CaseState::from_met(is_met))
    }
}

pub(super) fn caveat(context: &ClaimContext<'_>, kind: &str, present: bool) -> Cases {
    if !caveats::caveat_kinds().any(|known| known == kind) {
        return Err(NotTested::UnknownCaveat);
    }
    let measured = context
        .cells()
        .filter(|c| !c.by_block.is_empty())
        .collect_vec();
    if measured.is_empty() {
        return Err(context.no_cells(None));
    }
    let case = |c: &CellTrials<'_>| {
        let found = context.affected(kind, &c.id);
        Case {
            measured: Some(MeasuredNumber::Found(found)),
            ..Case::new(CaseState::from_met(found == present))
        }
    };
    Ok(with_places(context, &measured, case).into())
}
