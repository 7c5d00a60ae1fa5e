//! Core-to-core latency that changes: a host moves its guest's CPUs, and what they hand to each other
//! costs more where they share no cache. The guest's own counters show nothing of it.

use std::collections::BTreeMap;

use bytecost_spec::{Counter, Metric};
use bytecost_stats::{Location, mean, quantile, student_mean};

use super::{UnnamedCaveat, ids};
use crate::cells::exp;
use crate::phrases::{self, percent};
use crate::trials::CellTrials;
use crate::value::Trial;
use crate::view::View;

/// How far the latencies may be apart, the 90 % quantile over the 10 % quantile.
const STEADY: f64 = 2.0;
/// Fewest blocks with trials of both for what a high latency costs.
const FEWEST: usize = 6;
const LEVEL: f64 = 0.95;

/// Latencies between the CPUs of the ends that differ from trial to trial.
pub(super) fn changes(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let is_read = |c: &&CellTrials<'_>| c.trials().any(|t| latencies(t).is_some());
    let told: Vec<&CellTrials<'_>> = view.measured().filter(is_read).collect();
    let trials = told.iter().flat_map(|c| c.trials());
    let all: Vec<[f64; 2]> = trials.filter_map(latencies).collect();
    let read = all.concat();
    let (Some(low), Some(high)) = (quantile(&read, 0.1), quantile(&read, 0.9)) else {
        return Vec::new();
    };
    if high <= STEADY * low {
        return Vec::new();
    }
    let between = (low * high).sqrt();
    let share = |of: &dyn Fn(&[f64; 2]) -> bool| {
        percent(all.iter().filter(|both| of(both)).count() as f64 / all.len() as f64)
    };
    let is_high = |both: &[f64; 2]| both.iter().all(|ns| *ns > between);
    let is_low = |both: &[f64; 2]| both.iter().all(|ns| *ns <= between);
    let evidence = format!(
        "core-to-core latency, read before the warm-up and after the window of each trial: {low:.0} ns (10 % quantile) to {high:.0} ns (90 %); it was low both times in {} of the trials, high both times in {}, and changed in {}",
        share(&is_low),
        share(&is_high),
        share(&|both| !is_high(both) && !is_low(both)),
    );
    let metric = view.main_metric();
    let cost = of_high(&told, metric, &is_low, &is_high);
    let cost = cost.and_then(|found| Some((found, found.interval(LEVEL)?)));
    let cost = cost.filter(|(_, interval)| !interval.holds(0.0));
    let cost = cost.map(|(found, interval)| {
        format!(
            "; {} was {:.2}× as much where it was high as where it was low ({:.2} to {:.2}, 95 %, from {} with both)",
            phrases::metric(metric, view.trials.unit),
            exp(found.value),
            exp(interval.low),
            exp(interval.high),
            phrases::count(found.count, "block"),
        )
    });
    let why = match view.input.manifest.host.virtualization {
        Some(_) => {
            "a host moves its virtual CPUs from core to core, and two that share no cache take longer to hand over data"
        }
        None => "their frequency changed, or a CPU slept",
    };
    vec![UnnamedCaveat {
        text: format!(
            "The latency between the CPUs of the two ends changed during the run: {why}. This adds to the noise of every comparison."
        ),
        evidence: evidence + &cost.unwrap_or_default(),
        remedy: "CPUs that stay on their cores (a dedicated machine, `virsh vcpupin`) at one frequency, or a longer --budget: the order of the trials is random, so that all cells meet both latencies. Or `--background awake` with a --placement that pins both ends: CPUs that never sleep are moved less, and costs then are those of a busy machine".to_owned(),
        cells: ids(told),
    }]
}

/// Both readings of a trial.
fn latencies(trial: &Trial<'_>) -> Option<[f64; 2]> {
    let of = |counter| trial.of_all(counter);
    Some([
        of(Counter::CoreToCoreBeforeNs)?,
        of(Counter::CoreToCoreAfterNs)?,
    ])
}

/// The log ratio of a metric where the latency was high to that where it was low. Trials are compared
/// within their block, each relative to the mean of its cell: blocks differ by other things too.
fn of_high(
    cells: &[&CellTrials<'_>],
    metric: Metric,
    is_low: &dyn Fn(&[f64; 2]) -> bool,
    is_high: &dyn Fn(&[f64; 2]) -> bool,
) -> Option<Location> {
    let mut blocks: BTreeMap<u32, [Vec<f64>; 2]> = BTreeMap::new();
    for cell in cells {
        let log = |trial: &Trial<'_>| trial.value(metric).known().map(f64::ln);
        let logs: Vec<f64> = cell.trials().filter_map(log).collect();
        let Some(usual) = mean(&logs) else { continue };
        for trial in cell.trials() {
            if let (Some(log), Some(both)) = (log(trial), latencies(trial)) {
                let block = blocks.entry(trial.sample.trial.block).or_default();
                let side = [is_low(&both), is_high(&both)];
                for (side, _) in block.iter_mut().zip(side).filter(|(_, is_it)| *is_it) {
                    side.push(log - usual);
                }
            }
        }
    }
    let ratio = |[low, high]: &[Vec<f64>; 2]| Some(mean(high)? - mean(low)?);
    let ratios: Vec<f64> = blocks.values().filter_map(ratio).collect();
    student_mean(&ratios).filter(|found| found.count >= FEWEST)
}
