//! Cells to estimates.

use std::collections::BTreeMap;

use bytecost_spec::survey::CounterTrial;
use bytecost_spec::{Counter, Measure, Metric, Survey};
use bytecost_stats::{Location, student_mean, tail_quantile, trimmed_mean, trimmed_mean_value};
use itertools::Itertools as _;

use crate::confidence::{FEWEST, LEVEL};
use crate::logs::exp;
use crate::measures::{QUANTILES, is_extreme, tail_share};
use crate::outside_time::{holds_interrupts, log_of_one_more};
use crate::result::{CountersCost, Estimate, NoValue};
use crate::trials::{CellTrials, Trials, block_value};
use crate::value::{LatencyQuantiles, latencies, read};

/// The estimates of a cell by its timed trials, and its metrics without one.
pub(crate) struct CellEstimates<'t> {
    pub(crate) cell: &'t CellTrials<'t>,
    pub(crate) estimates: BTreeMap<Metric, Estimate>,
    pub(crate) absent: BTreeMap<Metric, NoValue>,
}

/// The estimates of each cell, in the order of the plan.
pub(crate) fn estimates<'t>(trials: &'t Trials<'t>) -> Vec<CellEstimates<'t>> {
    trials.cells.iter().map(CellEstimates::new).collect()
}

impl<'t> CellEstimates<'t> {
    fn new(cell: &'t CellTrials<'t>) -> CellEstimates<'t> {
        let survey = &cell.manifest.survey;
        let (mut estimates, mut absent) = (BTreeMap::new(), BTreeMap::new());
        let latency = merged_latency(cell);
        for metric in Metric::all() {
            if let Some(found) = metric_estimate(cell, metric, latency.as_ref()) {
                estimates.insert(metric, found);
            } else if let Some(why) = cell.trials().find_map(|t| t.absent(metric)) {
                let refused = refused_here(survey, metric.measure);
                let recorded = refused.map(|reason| NoValue::Recorded(reason.to_owned()));
                absent.insert(metric, recorded.unwrap_or_else(|| why.clone()));
            }
        }
        CellEstimates {
            cell,
            estimates,
            absent,
        }
    }

    pub(crate) fn value(&self, metric: Metric) -> Option<f64> {
        Some(self.estimates.get(&metric)?.value)
    }
}

/// The reason for which this machine has no such hardware counter, which no option changes.
pub(crate) fn refused_here(survey: &Survey, measure: Measure) -> Option<&str> {
    let counter = match measure {
        Measure::CyclesPerByte | Measure::CyclesPerMessage => Counter::Cycles,
        Measure::InstructionsPerByte | Measure::InstructionsPerMessage => Counter::Instructions,
        Measure::L1dLoadMissesPerKib => Counter::L1dLoadMisses,
        Measure::LlcLoadMissesPerKib | Measure::CacheMissesPerMessage => Counter::LlcLoadMisses,
        Measure::BranchMissesPerMessage => Counter::BranchMisses,
        _ => return None,
    };
    survey.counter_refused(counter)
}

/// The percentile of all messages stands in place of the mean of the trials' percentiles. The
/// interval, which is from the trials, is widened to hold it where it does not.
fn metric_estimate(
    cell: &CellTrials<'_>,
    metric: Metric,
    latency: Option<&LatencyQuantiles>,
) -> Option<Estimate> {
    let measure = metric.measure;
    let value_in = |block: &u32| block_value(&cell.known(*block, metric));
    let known: Vec<f64> = cell.by_block.keys().filter_map(value_in).collect();
    let share = tail_share(measure).filter(|_| !known.is_empty());
    if let Some(of_tail) = share.and_then(|share| tail(cell, share)) {
        return Some(of_tail);
    }
    if is_extreme(measure) {
        return estimate_by(&known, student_mean);
    }
    let mut found = estimate(&known)?;
    let charged = cell.outside.charged().filter(|_| holds_interrupts(metric));
    let error = charged.map(log_of_one_more).and_then(|l| l.interval(LEVEL));
    if let Some(error) = error {
        found = found.widened(error.half_width());
    }
    let place = QUANTILES.iter().position(|(m, _)| *m == measure);
    if let Some(value) = latency.zip(place).map(|(merged, place)| merged[place]) {
        found.value = value;
        found.low = found.low.map(|low| low.min(value));
        found.high = found.high.map(|high| high.max(value));
    }
    Some(found)
}

impl Estimate {
    /// The same with an error of its logarithm in addition to that of the trials, by half of its interval: on
    /// a log scale the distances to each end add up as squares (Zou and Donner, Construction of
    /// confidence limits about effect measures, 2008).
    pub(crate) fn widened(self, half_width: f64) -> Estimate {
        let value = self.value;
        if value <= 0.0 {
            return self;
        }
        let distance = |end: f64| (end / value).ln().hypot(half_width);
        Estimate {
            low: self.low.map(|low| value * exp(-distance(low))),
            high: self.high.map(|high| value * exp(distance(high))),
            ..self
        }
    }
}

/// The estimate of a value that was read once in each of several trials: the 20 % trimmed mean
/// on a log scale, or of the values themselves where one is zero. None for no values.
pub fn typical(values: &[f64]) -> Option<f64> {
    estimate(values).map(|e| e.value)
}

/// The same with its interval; no value is negative.
pub(crate) fn estimate(values: &[f64]) -> Option<Estimate> {
    estimate_by(values, trimmed_mean)
}

fn estimate_by(values: &[f64], locate: fn(&[f64]) -> Option<Location>) -> Option<Estimate> {
    let on_logs = values.iter().all(|v| *v > 0.0);
    let scale = |v: &f64| if on_logs { v.ln() } else { *v };
    let scaled: Vec<f64> = values.iter().map(scale).collect();
    let back = |v: f64| if on_logs { exp(v) } else { v.max(0.0) };
    let location = locate(&scaled);
    let interval = location
        .filter(|_| values.len() >= FEWEST)
        .and_then(|l| l.interval(LEVEL));
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
    let spreads = cell.by_block.keys().map(|block| cell.spread(*block));
    let blocks: Vec<_> = spreads.filter(|b| !b.is_empty()).collect();
    let (location, interval) = tail_quantile(&blocks, share, LEVEL)?;
    Some(Estimate {
        value: exp(location.value),
        low: Some(exp(interval.low)),
        high: Some(exp(interval.high)),
        trials: blocks.len(),
    })
}

fn merged_latency(cell: &CellTrials<'_>) -> Option<LatencyQuantiles> {
    let trials = cell.trials().chain(cell.twin.values());
    let mut histograms = trials.filter_map(|trial| trial.histogram());
    let mut merged = histograms.next()?;
    for one in histograms {
        merged.add(&one)?;
    }
    Some(latencies(&merged))
}

/// The time of the measuring loop itself: that of the sender per message of movers that move nothing.
pub(crate) fn loop_floor(trials: &Trials<'_>) -> Option<Estimate> {
    let idle = trials.cells.iter().filter(|c| c.idle);
    let each = idle.flat_map(CellTrials::trials).filter_map(|t| {
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
    });
    estimate(&each.collect::<Vec<f64>>())
}

/// The cost of reading hardware counters, for each mover that was tried with them and without.
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
