//! Caveats about the course of the run and its numbers: failures, precision, drift.

use bytecost_spec::{Counter, Failure, Measure, Metric, Side};
use bytecost_stats::{mann_kendall, quantile};
use itertools::Itertools as _;

use super::constructors::{both, cells_caveat, ids, run_caveat, span, spans};
use crate::comparison::Comparison;
use crate::confidence::ERROR_RATE;
use crate::corrections::{TestFamily, corrected};
use crate::grouping::by_key;
use crate::logs::exp;
use crate::result::Caveat;
use crate::result::CaveatFact::{
    self, Blocks, Bound, Change, Count, Leg, LongerRun, Part, Reading, Reason, Share,
};
use crate::stages::Measured;
use crate::trials::CellTrials;
use crate::value::{Trial, wrong_responses};

/// Fewest blocks over which a trend is looked for.
const FEWEST_FOR_TREND: usize = 8;
/// The largest spread of the sender's share of the CPU time, from the 10 % to the 90 % quantile.
const SHIFT: f64 = 0.1;

/// Share of a cell's trials up to which failures are left out and its verdicts stand.
const MANY_FAILED: f64 = 0.05;

/// The largest factor by which a longer run is proposed.
const MOST_TIMES_LONGER: f64 = 30.0;

pub(super) fn changed_plan(run: &Measured<'_>) -> Vec<Caveat> {
    run.input
        .notes
        .iter()
        .map(|note| run_caveat([Reason(note.clone())]))
        .collect()
}

/// Blocks are measured again for what others did, which no mover can bring about. That this does
/// not choose among outcomes is shown by the first attempts: both must say the same.
pub(super) fn repeats_matter(run: &Measured<'_>) -> Option<Caveat> {
    let smallest_effect = run.input.manifest.study.smallest_effect.ln_1p();
    let main = run.comparisons.of_study.iter().filter(|c| c.is_first());
    let shifts = main.filter_map(|kept| {
        let contrast = kept.by_first_attempts?;
        let shift = (kept.contrast.location.value - contrast.location.value).abs();
        let matters = shift > smallest_effect;
        matters.then(|| (kept.pairing().other.id.clone(), exp(shift) - 1.0))
    });
    let (cells, shifts): (Vec<_>, Vec<_>) = shifts.unzip();
    cells_caveat(cells, span(shifts).map(Share))
}

pub(super) fn ended_early(run: &Measured<'_>) -> Option<Caveat> {
    run.input.ended_early?;
    Some(run_caveat([Count(run.input.samples.len())]))
}

pub(super) fn missing_trials(run: &Measured<'_>) -> Option<Caveat> {
    Some(run_caveat([Reason(run.input.damage?.to_owned())]))
}

/// A mover whose bytes were wrong once is not known to do what it is measured for.
pub(super) fn wrong_bytes(run: &Measured<'_>) -> Vec<Caveat> {
    let is_wrong = |c: &CellTrials<'_>| {
        let failed = c.failures.iter().any(|f| f.wrong_bytes);
        failed || c.trials().any(|t| wrong_responses(t.sample) > 0.0)
    };
    let way = |c: &CellTrials<'_>| (c.cell.mover.clone(), c.cell.serving.server.clone());
    let all = || run.trials.moving();
    let ways = all().filter(|c| is_wrong(c)).map(way).unique();
    let caveats = ways.filter_map(|wrong| {
        let own = all().filter(|c| way(c) == wrong).collect_vec();
        let failures = own.iter().flat_map(|c| c.failures.iter().copied());
        let of_bytes = failures.filter(|f| f.wrong_bytes).collect_vec();
        let answers = own
            .iter()
            .flat_map(|c| c.trials())
            .map(|t| wrong_responses(t.sample));
        let facts = match first_of(&of_bytes) {
            Some(first) => vec![Count(of_bytes.len()), first],
            None => vec![Reading(Counter::ErrorsWrong, both(answers.sum()))],
        };
        let name = wrong.1.as_ref().unwrap_or(&wrong.0);
        Some(cells_caveat(ids(own), facts)?.about(name))
    });
    caveats.collect()
}

fn first_of(failures: &[&Failure]) -> Option<CaveatFact> {
    Some(Reason(failures.first()?.reason.clone()))
}

/// The share of the trials of a cell and of its twin that failed, with those that stood still or not;
/// with them, at least their share of the time.
fn failed_share(cell: &CellTrials<'_>, still: bool) -> f64 {
    let timed = cell.failures.iter().filter(|f| !f.for_evidence);
    let begun = timed.clone().count() + cell.by_block.len() + cell.twin.len();
    let failed = timed.filter(|f| still || !f.stood_still());
    let share = failed.count() as f64 / begun.max(1) as f64;
    let of_time = cell.stood_still().filter(|_| still).map(|s| s.share);
    of_time.map_or(share, |of_time| of_time.max(share))
}

/// Returns true if the failures of this kind have a caveat of their own.
fn many_failed(cell: &CellTrials<'_>, still: bool) -> bool {
    let is_own = |f: &&Failure| f.stood_still() == still;
    cell.failures.iter().any(is_own) && failed_share(cell, still) > MANY_FAILED
}

/// Cells of which many trials failed, those that stood still or the others, with the first reason.
fn many(run: &Measured<'_>, still: bool) -> Option<Caveat> {
    let are_many = |c: &&CellTrials<'_>| many_failed(c, still);
    let cells = run.trials.measured().filter(are_many).collect_vec();
    let shares = span(cells.iter().map(|c| failed_share(c, still)))?;
    let mut failures = cells.iter().flat_map(|c| c.failures.iter().copied());
    let first = first_of(&[failures.find(|f| f.stood_still() == still)?])?;
    cells_caveat(ids(cells), [Bound(MANY_FAILED), Share(shares), first])
}

pub(super) fn many_failed_trials(run: &Measured<'_>) -> Option<Caveat> {
    many(run, false)
}

/// CPU time per byte is that of all windows, since these have neither bytes nor CPU time.
pub(super) fn stood_still(run: &Measured<'_>) -> Option<Caveat> {
    many(run, true)
}

/// The failures that stood still, or the others, of which no caveat of many speaks, with their cells.
fn few<'v>(run: &'v Measured<'v>, still: bool) -> (Vec<&'v CellTrials<'v>>, Vec<&'v Failure>) {
    let rest = run.trials.cells.iter().flat_map(|c| {
        let are_many = !c.by_block.is_empty() && many_failed(c, still);
        let own = c
            .failures
            .iter()
            .copied()
            .filter(move |f| f.stood_still() == still && !are_many);
        own.map(move |f| (c, f))
    });
    let (cells, failures): (Vec<_>, Vec<_>) = rest.unzip();
    (cells.into_iter().unique_by(|c| &c.id).collect(), failures)
}

/// A stall is what the flow does on this path, and no fault of the trial.
pub(super) fn stalled_trials(run: &Measured<'_>) -> Option<Caveat> {
    let (cells, failures) = few(run, true);
    let lower = span(cells.iter().filter_map(|c| Some(c.stood_still()?.share)));
    let facts = [Count(failures.len()), first_of(&failures)?];
    cells_caveat(ids(cells), facts.into_iter().chain(lower.map(Share)))
}

pub(super) fn failed_trials(run: &Measured<'_>) -> Option<Caveat> {
    let (failed, failures) = few(run, false);
    cells_caveat(ids(failed), [Count(failures.len()), first_of(&failures)?])
}

pub(super) fn few_blocks(run: &Measured<'_>) -> Option<Caveat> {
    let study = &run.input.manifest.study;
    let least = study.blocks_least as usize;
    let few = run
        .comparisons
        .of_study
        .iter()
        .filter(|c| c.is_judged() && c.blocks() < least)
        .collect_vec();
    let (fewest, most) = few.iter().map(|c| c.blocks()).minmax().into_option()?;
    let blocks = Blocks {
        measured: [fewest, most],
        asked: least,
    };
    let longer_s = study.budget_ms.div_ceil(1000).saturating_mul(3);
    let facts = [Count(few.len()), blocks, LongerRun(Some(longer_s))];
    cells_caveat(cells_of(&few), facts)
}

pub(super) fn imprecise(run: &Measured<'_>) -> Option<Caveat> {
    let asked = run.input.manifest.study.precision;
    let first = || run.comparisons.of_study.iter().filter(|c| c.is_first());
    let wide = first().filter(|c| c.half_width() > asked).collect_vec();
    let widths = span(wide.iter().map(|c| c.half_width()))?;
    // Time goes with the square of the width.
    let square = (widths[1] / asked).powi(2);
    let seconds = run.input.manifest.study.budget_ms as f64 / 1e3 * square;
    let longer_s = (seconds / 10.0).ceil() as u64 * 10;
    let comparisons = Part {
        some: wide.len(),
        all: first().count(),
    };
    let longer = LongerRun((square <= MOST_TIMES_LONGER).then_some(longer_s));
    cells_caveat(cells_of(&wide), [comparisons, Share(widths), longer])
}

fn cells_of(comparisons: &[&Comparison<'_>]) -> Vec<String> {
    let others = comparisons.iter().map(|c| c.pairing().other.id.clone());
    others.unique().collect()
}

/// Trends over blocks within cells and legs, corrected over all, and larger than what matters.
pub(super) fn drift(run: &Measured<'_>) -> Option<Caveat> {
    let metric = run.main_metric();
    let stretches = run.trials.measured().flat_map(|cell| {
        let by_block = cell.by_block.iter();
        let by_leg = by_key(by_block.map(|(block, t)| (run.input.manifest.leg_of(*block), t)));
        by_leg.into_values().map(move |trials| (cell, trials))
    });
    let trends = stretches
        .filter_map(|(cell, trials)| {
            let known = trials.iter().filter_map(|t| t.value(metric));
            let logs = known.filter(|v| *v > 0.0).map(f64::ln).collect_vec();
            let trend = (logs.len() >= FEWEST_FOR_TREND).then(|| mann_kendall(&logs))??;
            let change = exp((trend.slope * (logs.len() - 1) as f64).abs()) - 1.0;
            Some((cell, trend.p, change))
        })
        .collect_vec();
    let p_values = trends.iter().map(|(_, p, _)| *p).collect_vec();
    let corrected = corrected(TestFamily::Drift, &p_values);
    let matters = run.input.manifest.study.smallest_effect;
    let shown = trends
        .into_iter()
        .zip(corrected)
        .filter(|((.., change), p)| *p < ERROR_RATE && *change > matters);
    let (cells, changes): (Vec<_>, Vec<_>) = shown.map(|((c, _, change), _)| (c, change)).unzip();
    let cells = ids(cells.into_iter().dedup_by(|a, b| a.id == b.id));
    cells_caveat(cells, span(changes).map(|changes| Change(metric, changes)))
}

pub(super) fn who_pays(run: &Measured<'_>) -> Option<Caveat> {
    let of = |side| Metric::new(Measure::CpuSPerGb, side);
    let share = |t: &Trial<'_>| {
        let sender = t.value(of(Side::Sender))?;
        let both = t.value(of(Side::Both))?;
        (both > 0.0 && t.sample.receiver.is_some()).then(|| sender / both)
    };
    let shows = |cell: &CellTrials<'_>| {
        let shares = cell.trials().filter_map(share).collect_vec();
        let spread = quantile(&shares, 0.9)? - quantile(&shares, 0.1)?;
        (shares.len() >= FEWEST_FOR_TREND && spread > SHIFT).then_some([Some(spread)])
    };
    spans(run.trials.measured(), [Share], shows)
}

pub(super) fn several_legs(run: &Measured<'_>) -> Option<Caveat> {
    let manifest = run.input.manifest;
    let later = |c: &&CellTrials<'_>| c.by_block.keys().any(|block| manifest.leg_of(*block) > 0);
    let cells = run.trials.cells.iter().filter(later);
    let legs = manifest.legs.iter().map(|leg| Leg {
        first_block: leg.first_block,
        differences: leg.differences.clone(),
    });
    cells_caveat(ids(cells), legs)
}

/// A run in twenty has one different twin of one; fewer than one in a hundred has as many as
/// these, if its intervals hold.
const CHANCE_LEAST: f64 = 0.01;

pub(super) fn twins_differ(run: &Measured<'_>) -> Option<Caveat> {
    let floor = run.noise_floor.as_ref();
    floor.filter(|f| f.chance < CHANCE_LEAST)?;
    let different = run.twins.iter().filter(|t| t.different);
    cells_caveat(different.map(|t| t.cell.clone()).collect(), [])
}
