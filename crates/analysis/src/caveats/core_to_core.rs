//! Core-to-core latency that changes: a host moves its guest's CPUs, and what they hand to each other
//! costs more where they share no cache. The guest's own counters show nothing of it.

use bytecost_spec::{Counter, Metric};
use bytecost_stats::{Location, mean, quantile, student_mean};
use itertools::Itertools as _;

use super::constructors::{both, cells_caveat, ids};
use crate::grouping::by_key;
use crate::logs::exp;
use crate::result::CaveatFact::{Ratio, Reading, Share};
use crate::result::{Caveat, Uncertain};
use crate::stages::Measured;
use crate::trials::CellTrials;
use crate::value::Trial;

/// The largest ratio of the 90 % quantile of latencies to the 10 % quantile that is steady.
const STEADY: f64 = 2.0;
/// Fewest blocks with trials of both for what a high latency costs.
const FEWEST: usize = 6;
const LEVEL: f64 = 0.95;

/// The latency with the shares of the trials in which it was low both times, high both times, and
/// changed.
pub(super) fn changes(run: &Measured<'_>) -> Option<Caveat> {
    let is_read = |c: &&CellTrials<'_>| c.trials().any(|t| latencies(t).is_some());
    let cells = run.trials.measured().filter(is_read).collect_vec();
    let trials = cells.iter().flat_map(|c| c.trials());
    let all = trials.filter_map(latencies).collect_vec();
    let read = all.concat();
    let (low_ns, high_ns) = (quantile(&read, 0.1)?, quantile(&read, 0.9)?);
    if high_ns <= STEADY * low_ns {
        return None;
    }
    let between = (low_ns * high_ns).sqrt();
    // Whether it was high both times; none where it changed.
    let is_high = |both: &[f64; 2]| match both.map(|ns| ns > between) {
        [before, after] if before == after => Some(before),
        _ => None,
    };
    let share = |wanted: Option<bool>| {
        let own = all.iter().filter(|both| is_high(both) == wanted);
        Share(both(own.count() as f64 / all.len() as f64))
    };
    let [low_both, high_both, changed] = [Some(false), Some(true), None].map(share);
    let metric = run.main_metric();
    let cost = high_over_low(&cells, metric, is_high).and_then(|found| {
        let interval = found.interval(LEVEL).filter(|i| !i.holds(0.0))?;
        let [value, low, high] = [found.value, interval.low, interval.high].map(exp);
        Some(Ratio {
            metric,
            ratio: Uncertain { value, low, high },
            blocks: found.count,
        })
    });
    let latency = Reading(Counter::CoreToCoreBeforeNs, [low_ns, high_ns]);
    let facts = [latency, low_both, high_both, changed];
    cells_caveat(ids(cells.iter().copied()), facts.into_iter().chain(cost))
}

fn latencies(trial: &Trial<'_>) -> Option<[f64; 2]> {
    let before = trial.of_all(Counter::CoreToCoreBeforeNs)?;
    Some([before, trial.of_all(Counter::CoreToCoreAfterNs)?])
}

/// The log ratio of a metric where the latency was high to that where it was low. Trials are compared
/// within their block, each relative to the mean of its cell: blocks differ by other things too. It
/// says what happened in this run, so that it has no variance between rounds.
fn high_over_low(
    cells: &[&CellTrials<'_>],
    metric: Metric,
    is_high: impl Fn(&[f64; 2]) -> Option<bool>,
) -> Option<Location> {
    let log_value = |trial: &Trial<'_>| trial.value(metric).map(f64::ln);
    let of_cell = |cell: &CellTrials<'_>| {
        let logs = cell.trials().filter_map(log_value).collect_vec();
        let usual = mean(&logs)?;
        let found = |(block, t): (&u32, &_)| Some((*block, (latencies(t)?, log_value(t)? - usual)));
        Some(cell.by_block.iter().filter_map(found).collect_vec())
    };
    let blocks = by_key(cells.iter().copied().filter_map(of_cell).flatten());
    let ratio = |trials: &Vec<([f64; 2], f64)>| {
        let of = |wanted: bool| {
            let of =
                |(both, log): &([f64; 2], f64)| (is_high(both) == Some(wanted)).then_some(*log);
            mean(&trials.iter().filter_map(of).collect_vec())
        };
        Some(of(true)? - of(false)?)
    };
    let ratios = blocks.values().filter_map(ratio).collect_vec();
    student_mean(&ratios).filter(|found| found.count >= FEWEST)
}
