//! CPUs that changed their speed, and threads that got none.

use bytecost_spec::{Counter, Nearness, Placement, SideReadings};
use bytecost_stats::quantile;

use super::{UnnamedCaveat, caveat, ids, seen, span};
use crate::phrases::{self, percent};
use crate::trials::CellTrials;
use crate::value::{Trial, read};
use crate::view::View;

/// How far the frequencies may be apart, the 90 % quantile over the 10 % quantile.
const STEADY: f64 = 1.1;

/// Trials of very different frequencies.
pub(super) fn frequency(view: &View<'_>) -> Option<UnnamedCaveat> {
    let cells: Vec<&CellTrials<'_>> = view.measured().collect();
    let known = |c: &&CellTrials<'_>| -> Vec<f64> {
        let khz = c.trials().filter_map(|t| t.of_all(Counter::FrequencyKhz));
        khz.filter(|k| *k > 0.0).collect()
    };
    let all: Vec<f64> = cells.iter().flat_map(known).collect();
    let (low, high) = (quantile(&all, 0.1)?, quantile(&all, 0.9)?);
    if high <= STEADY * low {
        return None;
    }
    let told = cells.into_iter().filter(|c| !known(c).is_empty());
    caveat(
        "The CPUs' frequency changed during the run: numbers of single cells depend on when they were taken, and so do their ratios where trials of a block differ.",
        format!(
            "scaling_cur_freq of the fastest CPU at the end of each window: {:.2} GHz (10 % quantile) to {:.2} GHz (90 %)",
            low / 1e6,
            high / 1e6
        ),
        "a fixed frequency: `cpupower frequency-set -g performance`, turbo off; cycles per byte where there are counters",
        ids(told),
    )
}

/// Windows in which heat made a core or a package slower.
pub(super) fn throttled(view: &View<'_>) -> Option<UnnamedCaveat> {
    let shows = |cell: &CellTrials<'_>| {
        let counts = (cell.trials()).filter_map(|t| t.of_all(Counter::ThermalThrottles));
        let counts: Vec<f64> = counts.filter(|n| *n > 0.0).collect();
        let sums = [counts.iter().sum::<f64>(), counts.len() as f64];
        (!counts.is_empty()).then(|| sums.map(Some))
    };
    let (cells, [times, trials]) = seen(view.measured(), shows)?;
    caveat(
        "Heat made CPUs slower during these trials.",
        format!(
            "thermal_throttle: slowed down {:.0} times in {}",
            times.iter().sum::<f64>(),
            phrases::count(trials.iter().sum::<f64>() as usize, "trial")
        ),
        "cool the machine, or hold its frequency below what it can keep up",
        ids(cells),
    )
}

/// Share of the window that threads may wait for a CPU unremarked.
const WAITED: f64 = 0.05;

/// A time of a side's threads over their time of the window.
fn share_of(side: &SideReadings, counter: Counter, threads: u32) -> Option<f64> {
    let time = read(side, counter).ok()?;
    let elapsed = read(side, Counter::ElapsedNs).ok()?;
    (elapsed > 0.0).then(|| time / elapsed / f64::from(threads.max(1)))
}

/// Share of the time of work, which never waits by itself, that it was not on a CPU; none where it
/// sleeps from beat to beat.
fn away(trial: &Trial<'_>, threads: u32) -> Option<f64> {
    let side = &trial.sample.sender;
    let sleeps = side.readings.contains_key(&Counter::BeatsMissed);
    let busy = share_of(side, Counter::CpuNs, threads).filter(|_| !sleeps)?;
    Some(1.0 - busy)
}

/// Where threads must share a CPU, or a neighbour was asked for, waiting is the question.
fn should_run(view: &View<'_>, cell: &CellTrials<'_>) -> bool {
    let of_cell = cell.cell;
    let ends = if cell.route.is_work() { 1 } else { 2 };
    let fits = (ends * of_cell.threads) as usize <= view.cpus();
    let apart = match &of_cell.placement {
        Placement::Free | Placement::Pairs => true,
        Placement::Near(nearness) => *nearness != Nearness::SameCpu,
        Placement::Within { cpus } => cpus.len() >= (ends * of_cell.threads) as usize,
        Placement::Cpus { sender, receiver } => {
            !sender.iter().any(|cpu| receiver.contains(cpu))
                && sender.len() >= of_cell.threads as usize
        }
    };
    of_cell.neighbour.takes_no_time() && fits && apart
}

pub(super) fn off_cpu(view: &View<'_>) -> Option<UnnamedCaveat> {
    let shows = |cell: &CellTrials<'_>| {
        let threads = cell.cell.threads;
        let share = cell.typical(|t| {
            // Ready, and waiting for a CPU.
            let waited = |side| share_of(side, Counter::RunQueueNs, threads);
            let queued = waited(&t.sample.sender);
            let other = t.sample.receiver.as_ref().and_then(waited);
            let away = away(t, threads).filter(|_| cell.route.is_work());
            [queued, other, away].into_iter().flatten().reduce(f64::max)
        });
        Some([Some(share.filter(|s| *s > WAITED)?)])
    };
    let (cells, [shares]) = seen(view.moved().filter(|c| should_run(view, c)), shows)?;
    caveat(
        "Threads were ready and got no CPU: something else ran in their place, or nothing kept the two ends on CPUs of their own. Rates and latencies hold this wait; CPU time does not.",
        format!(
            "waited for a CPU for {} of the window, median over trials (/proc/thread-self/schedstat; of work, CPU time against elapsed time)",
            span(&shares, percent)
        ),
        "stop what else runs; --placement with a CPU for each end; compare CPU time rather than rates",
        ids(cells),
    )
}
