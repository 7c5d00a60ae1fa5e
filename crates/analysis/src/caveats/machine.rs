//! Caveats about the machine: what else ran on it, its CPUs and their speed, its caches.

use bytecost_spec::sample::Block;
use bytecost_spec::{
    Cache, Counter, Measure, Metric, Nearness, Pattern, Placement, SideReadings, Transport,
};
use bytecost_stats::quantile;
use itertools::Itertools as _;

use super::constructors::{OfSpan, both, cells_caveat, ids, run_caveat, span, spans};
use crate::grouping::by_key;
use crate::result::CaveatFact::{
    Count, Metric as OfMetric, Others, Part, Payload, Reading, Seconds, Share,
};
use crate::result::{Caveat, OthersLoad};
use crate::stages::Measured;
use crate::trials::CellTrials;
use crate::value::{Trial, read};

const MOST_NAMED: usize = 3;
/// Share of the machine's time that a hypervisor may take unremarked.
const STEAL: f64 = 0.01;
/// Median latency in µs from which one wake-up a message is most of it.
const WAKE_UP_US: f64 = 15.0;
/// Time in µs that a wake-up takes at most; what takes longer waits for something else.
const WAKE_UP_MOST_US: f64 = 200.0;

/// Share of the blocks that stand in which others may use the CPUs before results are theirs.
const MOST_CROWDED: f64 = 0.1;

/// Blocks that stand, and those of them in which others used more CPUs than the study allows.
/// Blocks that were measured again are no part of the result.
struct ForeignLoad<'v> {
    stand: usize,
    crowded: Vec<&'v Block>,
    bound: f64,
}

impl<'v> ForeignLoad<'v> {
    fn new(run: &Measured<'v>) -> ForeignLoad<'v> {
        let bound = run.input.manifest.study.foreign_cpus;
        let blocks = run.input.blocks.iter();
        let stand = blocks.filter(|b| b.repeated_because.is_none());
        let crowded = stand.clone().filter(|b| b.other_cpus() > bound);
        ForeignLoad {
            stand: stand.clone().count(),
            crowded: crowded.collect(),
            bound,
        }
    }

    fn is_most_of_the_run(&self) -> bool {
        self.crowded.len() as f64 > MOST_CROWDED * self.stand as f64
    }

    fn caveat(&self) -> Option<Caveat> {
        let others = self.crowded.iter().flat_map(|b| &b.others);
        let names = by_key(others.map(|other| (other.name.as_str(), other.cpu_ns)))
            .into_iter()
            .map(|(name, ns)| (name, ns.iter().sum::<u64>()))
            .sorted_by_key(|(name, ns)| (std::cmp::Reverse(*ns), *name))
            .take(MOST_NAMED)
            .map(|(name, _)| name.to_owned());
        let load = OthersLoad {
            cpus: span(self.crowded.iter().map(|b| b.other_cpus()))?,
            bound: self.bound,
            names: names.collect(),
        };
        let blocks = Part {
            some: self.crowded.len(),
            all: self.stand,
        };
        Some(run_caveat([Others(load), blocks]).disturbing())
    }
}

pub(super) fn other_processes(run: &Measured<'_>) -> Option<Caveat> {
    let load = ForeignLoad::new(run);
    load.caveat().filter(|_| !load.is_most_of_the_run())
}

pub(super) fn busy_machine(run: &Measured<'_>) -> Option<Caveat> {
    let load = ForeignLoad::new(run);
    load.caveat().filter(|_| load.is_most_of_the_run())
}

/// Also of blocks that were measured again: a reader who knows of the stop looks for it.
pub(super) fn suspended(run: &Measured<'_>) -> Option<Caveat> {
    let blocks = run.input.blocks.iter();
    let stopped = blocks.filter(|b| b.stopped_ns > 0).collect_vec();
    let stand = stopped.iter().filter(|b| b.repeated_because.is_none());
    let s = stopped.iter().map(|b| b.stopped_ns as f64 / 1e9).sum();
    let part = Part {
        some: stand.count(),
        all: stopped.iter().map(|b| b.block).unique().count(),
    };
    (!stopped.is_empty()).then(|| run_caveat([Seconds(s), part]).disturbing())
}

/// In steps of 10 ms, which is a large part of a window, so that the caveat is one of the whole run.
pub(super) fn steal(run: &Measured<'_>) -> Option<Caveat> {
    let trials = run.trials.measured().flat_map(CellTrials::trials);
    let read = trials.filter_map(|t| {
        let capacity = t.of_all(Counter::MachineElapsedNs)? * t.of_all(Counter::MachineCpus)?;
        Some((t.of_all(Counter::MachineStealNs)?, capacity))
    });
    let (steal, capacity) = read.fold((0.0, 0.0), |sum, t| (sum.0 + t.0, sum.1 + t.1));
    let share = Share(both(steal / capacity));
    (steal > STEAL * capacity).then(|| run_caveat([share]).disturbing())
}

/// One for each amount of payload memory that fits into the last level cache.
pub(super) fn hot_payload(run: &Measured<'_>) -> Option<Caveat> {
    let last = run.input.manifest.host.last_data_cache()?;
    let of_disk = |c: &CellTrials<'_>| matches!(c.cell.cache, Cache::Cold | Cache::Direct);
    let in_memory = |c: &&CellTrials<'_>| !c.route.is_of_cpus() && !of_disk(c);
    let cells = run.trials.moved().filter(in_memory).collect_vec();
    let of_files = cells.iter().all(|c| c.route.is_of_files());
    let bytes = |c: &CellTrials<'_>| {
        let slots = if c.route.is_of_files() {
            c.cell.file_slots()
        } else {
            c.cell.ring_slots()
        };
        slots
            .saturating_mul(c.cell.size_bytes)
            .saturating_mul(u64::from(c.cell.threads))
    };
    let by_bytes = by_key(cells.into_iter().map(|c| (bytes(c), c)));
    let hot = by_bytes.range(..=last.size_bytes);
    let (least, most) = (hot.clone().next()?.0, hot.clone().next_back()?.0);
    let payload = Payload {
        of_files,
        bytes: [*least, *most],
    };
    cells_caveat(
        ids(hot.flat_map(|(_, same_size)| same_size.iter().copied())),
        [payload],
    )
}

pub(super) fn threads(run: &Measured<'_>) -> Option<Caveat> {
    let cpus = run.cpus();
    // Work is where it was put: on one CPU, if that is the question.
    let crowded = |c: &&CellTrials<'_>| {
        cpus > 0 && !c.route.is_of_cpus() && c.threads_of_both_sides() > cpus.max(2)
    };
    let cells = run.trials.moved().filter(crowded).collect_vec();
    let most = cells.iter().map(|c| c.threads_of_both_sides()).max()?;
    cells_caveat(ids(cells), [Count(most)])
}

fn is_apart(cell: &CellTrials<'_>) -> bool {
    cell.cell.transport == Transport::Peer
}

pub(super) fn one_cpu(run: &Measured<'_>) -> Option<Caveat> {
    let single = run.cpus() == 1;
    let shared = |placement: &Placement| match placement {
        Placement::Free | Placement::Pinned | Placement::Pairs => false,
        Placement::Near(nearness) => *nearness == Nearness::SameCpu,
        Placement::Within { cpus } => cpus.len() == 1,
        Placement::Cpus { sender, receiver } => sender.iter().any(|cpu| receiver.contains(cpu)),
    };
    let takes_turns = |c: &&CellTrials<'_>| {
        !c.route.is_of_cpus() && !is_apart(c) && (single || shared(&c.cell.placement))
    };
    let caveat = cells_caveat(ids(run.trials.measured().filter(takes_turns)), [])?;
    // A placement that the study asks for is what it asks about.
    Some(if single { caveat.disturbing() } else { caveat })
}

pub(super) fn wake_ups(run: &Measured<'_>) -> Option<Caveat> {
    // A cell that waits for a timer wakes late for another reason.
    let asks = |c: &&CellTrials<'_>| {
        c.cell.pattern == Pattern::RequestResponse
            && !is_apart(c)
            && run.stalls.waits(&c.id).is_none()
    };
    let shows = |cell: &CellTrials<'_>| {
        let waits = Counter::ContextSwitchesVoluntary;
        let slept = cell.typical(|t| t.sent_over(waits, Counter::Messages))?;
        let time = cell.usual(Metric::both(Measure::LatencyUsP50))?;
        // A long message waits often, and for its bytes.
        let most = slept > 0.7 && time > WAKE_UP_US && time < slept * WAKE_UP_MOST_US;
        most.then(|| [slept, time].map(Some))
    };
    let facts: [OfSpan; 2] = [
        |waits| Reading(Counter::ContextSwitchesVoluntary, waits),
        |latency| OfMetric(Metric::both(Measure::LatencyUsP50), latency),
    ];
    spans(run.trials.moved().filter(asks), facts, shows)
}

/// The largest ratio of the 90 % quantile of frequencies to the 10 % quantile that is steady.
const STEADY: f64 = 1.1;

pub(super) fn frequency(run: &Measured<'_>) -> Option<Caveat> {
    let cells: Vec<&CellTrials<'_>> = run.trials.measured().collect();
    let known = |c: &&CellTrials<'_>| -> Vec<f64> {
        let khz = c.trials().filter_map(|t| t.of_all(Counter::FrequencyKhz));
        khz.filter(|k| *k > 0.0).collect()
    };
    let all: Vec<f64> = cells.iter().flat_map(known).collect();
    let (low, high) = (quantile(&all, 0.1)?, quantile(&all, 0.9)?);
    if high <= STEADY * low {
        return None;
    }
    let read = cells.into_iter().filter(|c| !known(c).is_empty());
    let frequency = Reading(Counter::FrequencyKhz, [low, high]);
    Some(cells_caveat(ids(read), [frequency])?.disturbing())
}

pub(super) fn throttled(run: &Measured<'_>) -> Option<Caveat> {
    let throttles = |t: &Trial<'_>| t.of_all(Counter::ThermalThrottles).filter(|n| *n > 0.0);
    let is_slowed = |c: &&CellTrials<'_>| c.trials().any(|t| throttles(t).is_some());
    let cells = run.trials.measured().filter(is_slowed).collect_vec();
    let counts = cells
        .iter()
        .flat_map(|c| c.trials())
        .filter_map(throttles)
        .collect_vec();
    let times = Reading(Counter::ThermalThrottles, both(counts.iter().sum()));
    Some(cells_caveat(ids(cells), [times, Count(counts.len())])?.disturbing())
}

/// Share of the window that threads may wait for a CPU unremarked.
const WAITED: f64 = 0.05;

/// A time of a side's threads over their time of the window.
fn share_of(side: &SideReadings, counter: Counter, threads: u32) -> Option<f64> {
    let time = read(side, counter).ok()?;
    let elapsed = read(side, Counter::ElapsedNs).ok()?;
    (elapsed > 0.0).then(|| time / elapsed / f64::from(threads.max(1)))
}

/// Share of its time that work was not on a CPU; none where it sleeps from beat to beat.
fn away(trial: &Trial<'_>, threads: u32) -> Option<f64> {
    let side = &trial.sample.sender;
    let sleeps = side.readings.contains_key(&Counter::BeatsMissed);
    let busy = share_of(side, Counter::CpuNs, threads).filter(|_| !sleeps)?;
    Some(1.0 - busy)
}

/// Returns true if threads of the cell should not have to wait for a CPU: they have one each, and the
/// study asks for no background load.
fn should_run(run: &Measured<'_>, cell: &CellTrials<'_>) -> bool {
    let of_cell = cell.cell;
    let ends = if cell.route.is_work() { 1 } else { 2 };
    let fits = (ends * of_cell.threads) as usize <= run.cpus();
    let apart = match &of_cell.placement {
        Placement::Free | Placement::Pinned | Placement::Pairs => true,
        Placement::Near(nearness) => *nearness != Nearness::SameCpu,
        Placement::Within { cpus } => cpus.len() >= (ends * of_cell.threads) as usize,
        Placement::Cpus { sender, receiver } => {
            !sender.iter().any(|cpu| receiver.contains(cpu))
                && sender.len() >= of_cell.threads as usize
        }
    };
    of_cell.neighbour.takes_no_time() && fits && apart
}

pub(super) fn off_cpu(run: &Measured<'_>) -> Option<Caveat> {
    let shows = |cell: &CellTrials<'_>| {
        let threads = cell.cell.threads;
        let share = cell.typical(|t| {
            let waited = |side| share_of(side, Counter::RunQueueNs, threads);
            let queued = waited(&t.sample.sender);
            let other = t.sample.receiver.as_ref().and_then(waited);
            let away = away(t, threads).filter(|_| cell.route.is_work());
            [queued, other, away].into_iter().flatten().reduce(f64::max)
        });
        Some([Some(share.filter(|s| *s > WAITED)?)])
    };
    let cells = run.trials.moved().filter(|c| should_run(run, c));
    Some(spans(cells, [Share], shows)?.disturbing())
}
