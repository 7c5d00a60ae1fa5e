//! Caveats about the machine: what else ran on it, its CPUs and their speed, its caches.

use bytecost_spec::sample::Block;
use bytecost_spec::{
    Cache, CircumstanceKind, Counter, Measure, Metric, Nearness, Pattern, Placement, SideReadings,
    Transport, units,
};
use bytecost_stats::quantile;
use itertools::Itertools as _;

use super::{Caveat, caveat, ids, of_circumstance, span, spans};
use crate::grouping::by_key;
use crate::phrases::{self, from_to, percent};
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

    fn caveat(&self, run: &Measured<'_>, kind: CircumstanceKind, means: &str) -> Option<Caveat> {
        let cpus = self.crowded.iter().map(|b| b.other_cpus()).collect_vec();
        let others = self.crowded.iter().flat_map(|b| &b.others);
        let by_name = by_key(others.map(|other| (other.name.as_str(), other.cpu_ns))).into_iter();
        let times = by_name.map(|(name, ns)| (name, ns.iter().sum::<u64>()));
        let most = times.sorted_by_key(|(name, ns)| (std::cmp::Reverse(*ns), *name));
        let names = most.take(MOST_NAMED).map(|(name, _)| name).collect_vec();
        let (n, all) = (self.crowded.len(), phrases::count(self.stand, "block"));
        let (cpus, bound) = (
            span(&cpus, |c| format!("{c:.2}")),
            units::number(self.bound),
        );
        let who = match names.first() {
            Some(name) => format!("other processes, most of all {name},"),
            None => "other processes".to_owned(),
        };
        let machine = phrases::count(run.input.manifest.host.cpus.len(), "CPU");
        of_circumstance(
            kind,
            format!("{who} used {cpus} of {machine} in {n} of {all}"),
            format!(
                "Other processes used the CPUs in {n} of {all}, also where these were measured again. {means}"
            ),
            format!(
                "{cpus} CPUs in use by processes that are not ours, more than {bound}; most by {}",
                phrases::list(names)
            ),
            Vec::new(),
        )
    }
}

pub(super) fn other_processes(run: &Measured<'_>) -> Option<Caveat> {
    let load = ForeignLoad::new(run);
    let is_there = !load.crowded.is_empty() && !load.is_most_of_the_run();
    let means = "Rankings may be wrong.";
    is_there.then(|| load.caveat(run, CircumstanceKind::OtherProcesses, means))?
}

pub(super) fn busy_machine(run: &Measured<'_>) -> Option<Caveat> {
    let load = ForeignLoad::new(run);
    let means = "No amount is said, and no two ways are called equal; which of two is better stands only where the first attempts at the blocks say the same.";
    let is_busy = load.is_most_of_the_run();
    is_busy.then(|| load.caveat(run, CircumstanceKind::BusyMachine, means))?
}

/// Also of blocks that were measured again: a reader who knows of the stop looks for it.
pub(super) fn suspended(run: &Measured<'_>) -> Option<Caveat> {
    let blocks = run.input.blocks.iter();
    let stopped = blocks.filter(|b| b.stopped_ns > 0).collect_vec();
    let stand = stopped
        .iter()
        .filter(|b| b.repeated_because.is_none())
        .count();
    let s = stopped
        .iter()
        .map(|b| b.stopped_ns as f64 / 1e9)
        .sum::<f64>();
    let blocks = stopped.iter().map(|b| b.block).unique().count();
    let became = match (stand, blocks) {
        (_, 0) => return None,
        (0, 1) => "measured again".to_owned(),
        (0, _) => "all measured again".to_owned(),
        (1, 1) => "which is part of the result".to_owned(),
        _ => format!("{stand} of them part of the result"),
    };
    let n = phrases::count(blocks, "block");
    let means = match stand {
        0 => "These blocks are no part of the result.",
        _ => "Rates, latencies and CPU time of these blocks may be wrong.",
    };
    of_circumstance(
        CircumstanceKind::Suspended,
        format!("the run was stopped for {s:.1} s in {n}, {became}"),
        format!(
            "bytecost was stopped, or the machine suspended, for {s:.1} s in {n}, {became}. {means}"
        ),
        format!("{s:.1} s in which bytecost neither ran nor waited for a CPU"),
        Vec::new(),
    )
}

/// In steps of 10 ms, which is a large part of a window, so that it is told of the run as a whole.
pub(super) fn steal(run: &Measured<'_>) -> Option<Caveat> {
    let trials = run.measured().flat_map(CellTrials::trials);
    let read = trials.filter_map(|t| {
        let capacity = t.of_all(Counter::MachineElapsedNs)? * t.of_all(Counter::MachineCpus)?;
        Some((t.of_all(Counter::MachineStealNs)?, capacity))
    });
    let (steal, capacity) = read.fold((0.0, 0.0), |sum, t| (sum.0 + t.0, sum.1 + t.1));
    if steal <= STEAL * capacity {
        return None;
    }
    let share = percent(steal / capacity);
    of_circumstance(
        CircumstanceKind::Steal,
        format!("the hypervisor took {share} of the CPUs' time"),
        "The hypervisor took CPU time away during this run: times are too long and rates too low by what it took.",
        format!("{share} of the CPUs' time in all windows"),
        Vec::new(),
    )
}

/// One for each amount of payload memory that fits into the last level cache.
pub(super) fn hot_payload(run: &Measured<'_>) -> Option<Caveat> {
    let caches = &run.input.manifest.host.caches;
    let data = caches.iter().filter(|c| c.kind != "Instruction");
    let last = data.max_by_key(|c| (c.level, c.size_bytes))?;
    let of_disk = |c: &CellTrials<'_>| matches!(c.cell.cache, Cache::Cold | Cache::Direct);
    let in_memory = |c: &&CellTrials<'_>| !c.route.is_of_cpus() && !of_disk(c);
    let hot = run.moved().filter(in_memory).collect_vec();
    let what = match hot.iter().all(|c| c.route.is_of_files()) {
        true => "file",
        false => "payload",
    };
    let bytes = |c: &CellTrials<'_>| {
        let slots = match c.route.is_of_files() {
            true => c.cell.file_slots(),
            false => c.cell.ring_slots(),
        };
        let bytes = slots.saturating_mul(c.cell.size_bytes);
        bytes.saturating_mul(u64::from(c.cell.threads))
    };
    let by_bytes = by_key(hot.into_iter().map(|c| (bytes(c), c)));
    let hot = by_bytes.range(..=last.size_bytes);
    let (least, most) = (hot.clone().next()?, hot.clone().next_back()?);
    let rings = from_to([least, most].map(|(bytes, _)| units::bytes_in_words(*bytes)));
    let (level, size) = (last.level, units::bytes_in_words(last.size_bytes));
    let enough = last.size_bytes.saturating_mul(4);
    let enough = enough.checked_next_power_of_two();
    let enough = units::bytes(enough.unwrap_or(last.size_bytes));
    caveat(
        format!(
            "The {what} fits into the last level cache and stays hot there: ways that copy look better than they would from memory that is in no cache."
        ),
        format!("payload memory of all flows {rings}, level {level} cache {size}"),
        format!("--ring {enough} shows the movers from memory that is not in the cache"),
        ids(hot.flat_map(|(_, cells)| cells.iter().copied())),
    )
}

pub(super) fn threads(run: &Measured<'_>) -> Option<Caveat> {
    let cpus = run.cpus();
    // Work is where it was put: on one CPU, if that is the question.
    let crowded = |c: &&CellTrials<'_>| {
        cpus > 0 && !c.route.is_of_cpus() && c.threads_of_both_sides() > cpus.max(2)
    };
    let cells = run.moved().filter(crowded).collect_vec();
    let most = cells.iter().map(|c| c.threads_of_both_sides()).max()?;
    let each = if cells.iter().all(|c| is_apart(c)) {
        "one side of each flow"
    } else if cells.iter().all(|c| c.cell.transport.has_receiver()) {
        "two for each flow"
    } else {
        "both ends together"
    };
    caveat(
        "More threads than CPUs: they wait for each other, and rates show the scheduler as well as the mover.",
        format!(
            "up to {most} threads, {each}, on {}",
            phrases::count(cpus, "CPU")
        ),
        format!(
            "--threads {} or fewer, or a larger machine",
            (cpus / 2).max(1)
        ),
        ids(cells),
    )
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
    let cells = run.measured().filter(takes_turns).collect_vec();
    let placement = &cells.first()?.cell.placement;
    // A placement that the study asks for is what it asks about.
    let (brief, evidence) = match single {
        true => ("one CPU may be used", "one CPU may be used".to_owned()),
        false => ("", format!("placement {placement}")),
    };
    let kind = CircumstanceKind::OneCpu;
    let text = phrases::sentence(&phrases::capital(kind.row().means));
    of_circumstance(kind, brief, text, evidence, ids(cells))
}

pub(super) fn wake_ups(run: &Measured<'_>) -> Option<Caveat> {
    // What waits for a timer is woken late for another reason.
    let asks = |c: &&CellTrials<'_>| {
        c.cell.pattern == Pattern::Ask && !is_apart(c) && run.stalls.waits(&c.id).is_none()
    };
    let shows = |cell: &CellTrials<'_>| {
        let waits = Counter::ContextSwitchesVoluntary;
        let slept = cell.typical(|t| t.sent_over(waits, Counter::Messages))?;
        let time = cell.usual(Metric::both(Measure::LatencyUsP50))?;
        // A long message waits often, and for its bytes.
        let most = slept > 0.7 && time > WAKE_UP_US && time < slept * WAKE_UP_MOST_US;
        most.then(|| [slept, time].map(Some))
    };
    let write: [fn(f64) -> String; 2] = [|w| format!("{w:.1}"), units::number];
    let (cells, [waits, latency]) = spans(run.moved().filter(asks), shows, write)?;
    caveat(
        "Each message waits for a thread to be woken on another CPU; that takes most of the latency and drowns the differences between movers.",
        format!("{waits} voluntary context switches a message, median latency {latency} µs"),
        "--placement with both ends on one CPU shows the calls themselves",
        cells,
    )
}

/// How far the frequencies may be apart, the 90 % quantile over the 10 % quantile.
const STEADY: f64 = 1.1;

pub(super) fn frequency(run: &Measured<'_>) -> Option<Caveat> {
    let cells: Vec<&CellTrials<'_>> = run.measured().collect();
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
    let [low, high] = [low, high].map(|khz| khz / 1e6);
    of_circumstance(
        CircumstanceKind::Frequency,
        format!("the CPUs' frequency changed ({low:.2} to {high:.2} GHz)"),
        "The CPUs' frequency changed during the run: numbers of single cells depend on when they were taken, and so do their ratios where trials of a block differ.",
        format!(
            "scaling_cur_freq of the fastest CPU at the end of each window: {low:.2} GHz (10 % quantile) to {high:.2} GHz (90 %)"
        ),
        ids(told),
    )
}

pub(super) fn throttled(run: &Measured<'_>) -> Option<Caveat> {
    let throttles = |t: &Trial<'_>| t.of_all(Counter::ThermalThrottles).filter(|n| *n > 0.0);
    let is_slowed = |c: &&CellTrials<'_>| c.trials().any(|t| throttles(t).is_some());
    let cells = run.measured().filter(is_slowed).collect_vec();
    cells.first()?;
    let counts = cells.iter().flat_map(|c| c.trials()).filter_map(throttles);
    let counts = counts.collect_vec();
    of_circumstance(
        CircumstanceKind::Throttled,
        "heat made CPUs slower",
        "Heat made CPUs slower during these trials.",
        format!(
            "thermal_throttle: slowed down {:.0} times in {}",
            counts.iter().sum::<f64>(),
            phrases::count(counts.len(), "trial")
        ),
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

/// Share of its time that work was not on a CPU; none where it sleeps from beat to beat.
fn away(trial: &Trial<'_>, threads: u32) -> Option<f64> {
    let side = &trial.sample.sender;
    let sleeps = side.readings.contains_key(&Counter::BeatsMissed);
    let busy = share_of(side, Counter::CpuNs, threads).filter(|_| !sleeps)?;
    Some(1.0 - busy)
}

/// Where threads must share a CPU, or a neighbour was asked for, waiting is the question.
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
    let cells = run.moved().filter(|c| should_run(run, c));
    let (cells, [share]) = spans(cells, shows, [percent])?;
    of_circumstance(
        CircumstanceKind::OffCpu,
        format!("threads waited for a CPU for {share} of the window"),
        "Threads were ready and got no CPU: something else ran in their place, or nothing kept the two ends on CPUs of their own. Rates and latencies include this wait. CPU time is that of threads that share CPUs, and may rank them otherwise than CPUs of their own.",
        format!(
            "waited for a CPU for {share} of the window, median over trials (/proc/thread-self/schedstat; of work, CPU time against elapsed time)"
        ),
        cells,
    )
}
