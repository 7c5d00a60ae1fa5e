//! The books of each cell: who used the CPUs in its windows, and what nobody accounts for.
//!
//! The edges are those of the two machine readings. What a side has measured by its own clocks over
//! its own window is scaled to theirs. What is left over is compared with these figures, which the
//! costs are made of: the processes' clocks would hide what a side does not measure of itself.
//!
//! All of it is the sum over blocks. Idle time comes in steps of 10 ms, which begin anywhere in a
//! window: the mean over windows is right, and a median is one of the steps.

use bytecost_spec::evidence::{CPU_USERS, CpuUser, TrialEvidence};
use bytecost_spec::{Counter, PeerSide, Readings, Sample, SideReadings, Transport};
use bytecost_stats::{mean, student_mean};
use itertools::Itertools as _;

use crate::confidence::{FEWEST, LEVEL};
use crate::result::{BookLine, CellBooks, Closed, Input};
use crate::trials::{CellTrials, Trials};
use crate::value::read;

/// The largest share of a cell's own CPU time that may be left over.
pub(crate) const MOST_LEFT_OVER: f64 = 0.03;
/// By how much the windows of a side and of the machine may differ to be taken in proportion:
/// where a window is a number of passes, the time between them is no part of it.
const SAME_WINDOW: f64 = 0.25;

struct Page {
    /// In ns; they add up to the time of all CPUs.
    lines: Vec<(CpuUser, f64)>,
    capacity: f64,
    own: f64,
    /// What the machine did that was not others'.
    of_cell: f64,
}

impl Page {
    fn of(&self, user: CpuUser) -> f64 {
        let line = self.lines.iter().find(|(of, _)| *of == user);
        line.map_or(0.0, |(_, ns)| *ns)
    }

    fn plus(self, other: Page) -> Page {
        let lines = self.lines.iter();
        Page {
            lines: lines
                .map(|(user, ns)| (*user, ns + other.of(*user)))
                .collect(),
            capacity: self.capacity + other.capacity,
            own: self.own + other.own,
            of_cell: self.of_cell + other.of_cell,
        }
    }
}

/// The books of every cell that moves something and has enough trials; none of runs of old. Where a
/// side plays on another host, they are those of both machines together.
pub(crate) fn all(trials: &Trials<'_>, input: &Input<'_>) -> Vec<CellBooks> {
    let there = input.manifest.peer.as_ref().map(|peer| peer.side);
    let of = |cell| of_cell(cell, input.evidence, there);
    trials.moving().filter_map(of).collect()
}

fn of_cell(
    cell: &CellTrials<'_>,
    evidence: &[TrialEvidence],
    there: Option<PeerSide>,
) -> Option<CellBooks> {
    let mut counted = evidence.iter().filter(|e| e.cell == cell.id);
    let there = there.filter(|_| cell.cell.transport == Transport::Peer);
    let pages = cell.trials().filter_map(|t| page(t.sample, there));
    let pages = pages.collect_vec();
    if pages.len() < FEWEST {
        return None;
    }
    let lines = CPU_USERS.iter().filter_map(|row| {
        let user = row.user;
        let shares: Vec<f64> = pages.iter().map(|p| p.of(user) / p.capacity).collect();
        let is_there = shares.iter().any(|s| *s != 0.0) || user == CpuUser::LeftOver;
        let share = student_mean(&shares).filter(|_| is_there)?;
        Some(BookLine {
            user,
            share: share.value,
            error: share.standard_error,
        })
    });
    // Each window counts for the CPU time of a typical one, so that those with little of it do not
    // weigh more for that.
    let own = mean(&pages.iter().map(|p| p.own).collect::<Vec<f64>>())?;
    if own <= 0.0 {
        return None;
    }
    let of_own = |of: fn(&Page) -> f64| -> Vec<f64> { pages.iter().map(|p| of(p) / own).collect() };
    let left = student_mean(&of_own(|p| p.of(CpuUser::LeftOver)))?;
    let interval = left.interval(LEVEL)?;
    let (left_over, error) = (left.value, left.standard_error);
    let closed = if interval.low > MOST_LEFT_OVER || interval.high < -MOST_LEFT_OVER {
        Closed::No
    } else if left_over.abs() > MOST_LEFT_OVER || error > MOST_LEFT_OVER {
        Closed::NotToThreePercent
    } else {
        Closed::Yes
    };
    Some(CellBooks {
        cell: cell.id.clone(),
        trials: pages.len(),
        lines: lines.collect(),
        left_over,
        low: interval.low,
        high: interval.high,
        machine_over_own: mean(&of_own(|p| p.of_cell))?,
        closed,
        counted: counted.find_map(|e| e.accounts.clone()),
    })
}

/// One trial's, of both machines where a side played on another host and that was read.
fn page(sample: &Sample, there: Option<PeerSide>) -> Option<Page> {
    let (sender, receiver) = (Some(&sample.sender), sample.receiver.as_ref());
    let (own, others) = match there {
        None => ((sender, receiver), (None, None)),
        Some(PeerSide::Receiver) => ((sender, None), (None, receiver)),
        Some(PeerSide::Sender) => ((None, receiver), (sender, None)),
    };
    let own = page_of(&sample.machine, own)?;
    let others = page_of(&sample.peer_machine, others).filter(|_| there.is_some());
    Some(match others {
        Some(others) => own.plus(others),
        None => own,
    })
}

fn page_of(
    machine: &Readings,
    (sender, receiver): (Option<&SideReadings>, Option<&SideReadings>),
) -> Option<Page> {
    let of = |counter| machine.get(&counter)?.measured().map(|n| n as f64);
    let or_none = |counter| of(counter).unwrap_or(0.0);
    let elapsed = of(Counter::MachineElapsedNs)?;
    let capacity = elapsed * of(Counter::MachineCpus)?;
    let idle = of(Counter::MachineIdleNs)?;
    let steal = or_none(Counter::MachineStealNs);
    let others = of(Counter::OtherProcessesNs)?;
    let side = |played: Option<&SideReadings>| match played {
        Some(played) => side(played, elapsed),
        None => Some([0.0; 3]),
    };
    let [sender, sender_workers, sender_edges] = side(sender)?;
    let [receiver, receiver_workers, receiver_edges] = side(receiver)?;
    let busy = capacity - idle - steal;
    // The two accounts of tasks are written by the same lines of the kernel, so that they fit to
    // the last ns; idle time comes in steps of 10 ms.
    let interrupts = of(Counter::MachineTasksNs).map_or(0.0, |tasks| busy - tasks);
    let kernel = or_none(Counter::KernelThreadsNs);
    let background = or_none(Counter::NeighbourNs);
    let instrument = or_none(Counter::InstrumentNs) + sender_edges + receiver_edges;
    let own = sender + sender_workers + receiver + receiver_workers;
    let known = own + kernel + interrupts + background + instrument + others;
    Some(Page {
        lines: vec![
            (CpuUser::SenderThreads, sender),
            (CpuUser::SenderWorkers, sender_workers),
            (CpuUser::ReceiverThreads, receiver),
            (CpuUser::ReceiverWorkers, receiver_workers),
            (CpuUser::KernelThreads, kernel),
            (CpuUser::Interrupts, interrupts),
            (CpuUser::Background, background),
            (CpuUser::Instrument, instrument),
            (CpuUser::OtherProcesses, others),
            (CpuUser::Idle, idle),
            (CpuUser::Steal, steal),
            (CpuUser::LeftOver, busy - known),
        ],
        capacity,
        own,
        of_cell: busy - interrupts - others - background - instrument,
    })
}

/// A side's own threads and what works for them, over a window of the machine's, and its edges.
fn side(side: &SideReadings, machine_ns: f64) -> Option<[f64; 3]> {
    let or_none = |counter| read(side, counter).unwrap_or(0.0);
    let (cpu, workers) = (
        read(side, Counter::CpuNs).ok()?,
        or_none(Counter::WorkersNs),
    );
    let times = machine_ns / read(side, Counter::ElapsedNs).ok()?;
    let times = match (times - 1.0).abs() < SAME_WINDOW {
        true => times,
        false => 1.0,
    };
    let own = (cpu - workers) * times + or_none(Counter::AsideNs);
    Some([own, workers * times, or_none(Counter::EdgesNs)])
}
