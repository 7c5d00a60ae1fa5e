//! Threads that were ready and got no CPU.

use bytecost_spec::{Counter, Nearness, Placement, SideReadings};

use super::{UnnamedCaveat, of_cells, span};
use crate::phrases::percent;
use crate::trials::CellTrials;
use crate::value::{Trial, read};
use crate::view::View;

/// Share of the window that threads may wait for a CPU unremarked.
const WAITED: f64 = 0.05;

/// Share of a side's time that its threads were ready and waited.
fn waited(side: &SideReadings, threads: u32) -> Option<f64> {
    let waited = read(side, Counter::RunQueueNs).ok()?;
    let elapsed = read(side, Counter::ElapsedNs).ok()?;
    (elapsed > 0.0).then(|| waited / elapsed / f64::from(threads.max(1)))
}

/// Share of the time of work, which never waits by itself, that it was not on a CPU; none where it
/// sleeps from beat to beat.
fn away(trial: &Trial<'_>, threads: u32) -> Option<f64> {
    let side = &trial.sample.sender;
    if side.readings.contains_key(&Counter::BeatsMissed) {
        return None;
    }
    let cpu = read(side, Counter::CpuNs).ok()?;
    let elapsed = read(side, Counter::ElapsedNs).ok()?;
    (elapsed > 0.0).then(|| 1.0 - cpu / elapsed / f64::from(threads.max(1)))
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

pub(super) fn detect(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let shows = |cell: &CellTrials<'_>| {
        let threads = cell.cell.threads;
        let share = cell.typical(|t| {
            let queued = waited(&t.sample.sender, threads);
            let other = (t.sample.receiver.as_ref()).and_then(|r| waited(r, threads));
            let away = away(t, threads).filter(|_| cell.route.is_work());
            [queued, other, away].into_iter().flatten().reduce(f64::max)
        });
        Some([Some(share.filter(|s| *s > WAITED)?)])
    };
    of_cells(
        view.moved().filter(|c| should_run(view, c)),
        shows,
        |_, [shares]| {
            (
            "Threads were ready and got no CPU: something else ran in their place, or nothing kept the two ends on CPUs of their own. Rates and latencies hold this wait; CPU time does not.".to_owned(),
            format!(
                "waited for a CPU for {} of the window, median over trials (/proc/thread-self/schedstat; of work, CPU time against elapsed time)",
                span(&shares, percent)
            ),
            "stop what else runs; --placement with a CPU for each end; compare CPU time rather than rates",
        )
        },
    )
}
