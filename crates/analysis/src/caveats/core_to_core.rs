//! Core-to-core latency that changes: a host moves its guest's CPUs, and what they hand to each other
//! costs more where they share no cache. The guest's own counters show nothing of it.

use bytecost_spec::{Counter, Metric};
use bytecost_stats::{Location, mean, quantile, student_mean};
use itertools::Itertools as _;

use super::{UnnamedCaveat, caveat, ids};
use crate::cells::exp;
use crate::grouping::by_key;
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
pub(super) fn changes(view: &View<'_>) -> Option<UnnamedCaveat> {
    let is_read = |c: &&CellTrials<'_>| c.trials().any(|t| latencies(t).is_some());
    let cells = view.measured().filter(is_read).collect_vec();
    let trials = cells.iter().flat_map(|c| c.trials());
    let all = trials.filter_map(latencies).collect_vec();
    let read = all.concat();
    let (low, high) = (quantile(&read, 0.1)?, quantile(&read, 0.9)?);
    if high <= STEADY * low {
        return None;
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
    let cost = of_high(&cells, metric, &is_low, &is_high);
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
    caveat(
        format!(
            "The latency between the CPUs of the two ends changed during the run: {why}. This adds to the noise of every comparison."
        ),
        evidence + &cost.unwrap_or_default(),
        "CPUs that stay on their cores (a dedicated machine, `virsh vcpupin`) at one frequency, or a longer --budget: the order of the trials is random, so that all cells meet both latencies. Or `--background awake` with a --placement that pins both ends: CPUs that never sleep are moved less, and costs then are those of a busy machine",
        ids(cells),
    )
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
    let log = |trial: &Trial<'_>| trial.value(metric).known().map(f64::ln);
    let of_cell = |cell: &CellTrials<'_>| {
        let logs = cell.trials().filter_map(log).collect_vec();
        let usual = mean(&logs)?;
        let own = cell.trials().filter_map(|trial| {
            let found = (latencies(trial)?, log(trial)? - usual);
            Some((trial.sample.trial.block, found))
        });
        Some(own.collect_vec())
    };
    let blocks = by_key(cells.iter().copied().filter_map(of_cell).flatten());
    let ratio = |trials: &Vec<([f64; 2], f64)>| {
        let of = |is: &dyn Fn(&[f64; 2]) -> bool| {
            let own = trials.iter().filter(|(both, _)| is(both));
            mean(&own.map(|(_, log)| *log).collect_vec())
        };
        Some(of(is_high)? - of(is_low)?)
    };
    let ratios = blocks.values().filter_map(ratio).collect_vec();
    student_mean(&ratios).filter(|found| found.count >= FEWEST)
}
