//! Cells to estimates.

use std::collections::BTreeMap;

use bytecost_spec::survey::CounterTrial;
use bytecost_spec::{Counter, Measure, Metric, Survey};
use bytecost_stats::{Location, student_mean, tail_quantile, trimmed_mean, trimmed_mean_value};
use itertools::Itertools as _;

use crate::confidence::{FEWEST, LEVEL};
use crate::result::{CellResult, CountersCost, Estimate, Input};
use crate::trials::{CellTrials, Trials, of_block};
use crate::value::{LatencyQuantiles, QUANTILES, Value, is_extreme, latencies, read, tail_share};

/// Every cell of the plan with its estimates.
pub(crate) fn results(trials: &Trials<'_>, survey: &Survey) -> Vec<CellResult> {
    let mut results: Vec<CellResult> = trials.cells.iter().map(result).collect();
    for (metric, why) in results.iter_mut().flat_map(|r| &mut r.absent) {
        if let Some(refused) = refused_here(survey, metric.measure) {
            refused.clone_into(why);
        }
    }
    results
}

/// Why this machine has no such hardware counter. It is the reason whatever a trial says of itself:
/// where there is none, it is no help to ask for it.
fn refused_here(survey: &Survey, measure: Measure) -> Option<&str> {
    let counter = match measure {
        Measure::CyclesPerByte | Measure::CyclesPerMessage => Counter::Cycles,
        Measure::InstructionsPerByte | Measure::InstructionsPerMessage => Counter::Instructions,
        Measure::L1dLoadMissesPerKib => Counter::L1dLoadMisses,
        Measure::LlcLoadMissesPerKib | Measure::CacheMissesPerMessage => Counter::LlcLoadMisses,
        Measure::BranchMissesPerMessage => Counter::BranchMisses,
        _ => return None,
    };
    let mut refusals = survey.counters_refused.iter();
    let refusal = refusals.find(|r| r.what == counter.name())?;
    Some(&refusal.why)
}

fn result(cell: &CellTrials<'_>) -> CellResult {
    let mut estimates = BTreeMap::new();
    let mut absent = BTreeMap::new();
    let latency = merged_latency(cell);
    let of_trials = |measure: Measure, known: &[f64]| {
        if is_extreme(measure) {
            return estimate_by(known, student_mean);
        }
        let mut found = estimate(known)?;
        let place = QUANTILES.iter().position(|(m, _)| *m == measure);
        if let (Some(merged), Some(place)) = (&latency, place) {
            take_value(&mut found, merged[place]);
        }
        Some(found)
    };
    for metric in Metric::all() {
        let mut known = Vec::with_capacity(cell.by_block.len());
        let mut reason = None;
        for (block, trial) in &cell.by_block {
            if let Value::Absent(why) = trial.value(metric) {
                reason = reason.or(Some(why));
            }
            known.extend(of_block(&cell.known(*block, metric)));
        }
        let share = tail_share(metric.measure).filter(|_| !known.is_empty());
        let of_tail = share.and_then(|share| tail(cell, share));
        if let Some(found) = of_tail.or_else(|| of_trials(metric.measure, &known)) {
            estimates.insert(metric, found);
        } else if let Some(why) = reason {
            absent.insert(metric, why.clone());
        }
    }
    CellResult {
        id: cell.id.clone(),
        cell: cell.cell.clone(),
        trials: cell.by_block.len(),
        failed: cell.failures.len(),
        estimates,
        absent,
        checked: cell
            .trials()
            .last()
            .and_then(|t| Some(t.sample.truth.as_ref()?.checked.clone())),
        ceiling: None,
    }
}

/// Gives the cells of a run without any trial the numbers that were published of them, as
/// estimates of no trials: single numbers have no intervals.
pub(crate) fn take_published(cells: &mut [CellResult], input: &Input<'_>) {
    let Some(published) = input.published else {
        return;
    };
    if !input.samples.is_empty() || !input.failures.is_empty() {
        return;
    }
    for cell in cells {
        let Some(row) = published.cells.iter().find(|c| c.id == cell.id) else {
            continue;
        };
        let values = row.values.iter();
        let estimates = values.map(|(metric, value)| (*metric, Estimate::bare(*value, 0)));
        cell.estimates.extend(estimates);
    }
}

/// The estimate of a value that was read once in each of several trials: the 20 % trimmed mean
/// on a log scale, or of the values themselves where one is zero. None for no values.
pub fn typical(values: &[f64]) -> Option<f64> {
    estimate(values).map(|e| e.value)
}

/// An estimate from the values of trials, none of them negative.
///
/// On a log scale, as ratios are compared; where a trial read zero, which has no logarithm, on
/// the scale of the values.
pub(crate) fn estimate(values: &[f64]) -> Option<Estimate> {
    estimate_by(values, trimmed_mean)
}

fn estimate_by(values: &[f64], locate: fn(&[f64]) -> Option<Location>) -> Option<Estimate> {
    let on_logs = values.iter().all(|v| *v > 0.0);
    let scaled: Vec<f64> = values
        .iter()
        .map(|v| if on_logs { v.ln() } else { *v })
        .collect();
    let back = |v: f64| if on_logs { exp(v) } else { v.max(0.0) };
    let location = locate(&scaled);
    let interval = location.filter(|_| values.len() >= FEWEST);
    let interval = interval.and_then(|l| l.interval(LEVEL));
    Some(Estimate {
        value: back(location.map_or_else(|| trimmed_mean_value(&scaled), |l| Some(l.value))?),
        low: interval.map(|i| back(i.low)),
        high: interval.map(|i| back(i.high)),
        trials: values.len(),
    })
}

/// A quantile over all latencies of a cell, each trial of the same weight, with its interval over
/// blocks; none of fewer than three.
fn tail(cell: &CellTrials<'_>, share: f64) -> Option<Estimate> {
    let blocks = cell.by_block.keys().map(|block| cell.spread(*block));
    let blocks: Vec<_> = blocks.filter(|b| !b.is_empty()).collect();
    let (location, interval) = tail_quantile(&blocks, share, LEVEL)?;
    Some(Estimate {
        value: exp(location.value),
        low: Some(exp(interval.low)),
        high: Some(exp(interval.high)),
        trials: blocks.len(),
    })
}

/// Back from a log scale; held where the result is finite, since JSON has no infinity.
pub(crate) fn exp(log: f64) -> f64 {
    log.clamp(-690.0, 690.0).exp()
}

/// The quantiles over all latencies of a cell's trials together.
fn merged_latency(cell: &CellTrials<'_>) -> Option<LatencyQuantiles> {
    let trials = cell.trials().chain(cell.twin.values());
    let mut histograms = trials.filter_map(|trial| trial.histogram());
    let mut merged = histograms.next()?;
    for one in histograms {
        merged.add(&one)?;
    }
    Some(latencies(&merged))
}

/// Puts the percentile of all messages in place of the mean of the trials' percentiles. The
/// interval, which is from the trials, is widened to hold it where it does not.
fn take_value(estimate: &mut Estimate, value: f64) {
    estimate.value = value;
    estimate.low = estimate.low.map(|low| low.min(value));
    estimate.high = estimate.high.map(|high| high.max(value));
}

/// What the loop itself costs: the sender's time per message over all trials of movers that
/// move nothing.
pub(crate) fn loop_floor(trials: &Trials<'_>) -> Option<Estimate> {
    let values: Vec<f64> = trials
        .cells
        .iter()
        .filter(|c| c.idle)
        .flat_map(CellTrials::trials)
        .filter_map(|t| {
            let side = &t.sample.sender;
            let (elapsed, messages) = if side.flows.is_empty() {
                let elapsed = read(side, Counter::ElapsedNs).ok()?;
                (elapsed, read(side, Counter::Messages).ok()?)
            } else {
                side.flows.iter().fold((0.0, 0.0), |(ns, n), f| {
                    (ns + f.elapsed_ns as f64, n + f.messages as f64)
                })
            };
            (messages > 0.0 && elapsed > 0.0).then(|| elapsed / messages)
        })
        .collect();
    estimate(&values)
}
/// What reading hardware counters costs each mover that was tried with them and without.
pub(crate) fn counters_cost(trials: &[CounterTrial]) -> Vec<CountersCost> {
    let movers = trials.iter().map(|t| t.mover.as_str()).unique();
    let of = |mover: &str, with| {
        let same = |t: &&CounterTrial| t.mover == mover && t.with == with && t.messages > 0;
        let each = trials.iter().filter(same);
        let values: Vec<f64> = each.map(|t| t.cpu_ns as f64 / t.messages as f64).collect();
        estimate(&values)
    };
    let cost = |mover: &str| {
        Some(CountersCost {
            mover: mover.to_owned(),
            without_ns_per_message: of(mover, false)?,
            with_ns_per_message: of(mover, true)?,
        })
    };
    movers.filter_map(cost).collect()
}
