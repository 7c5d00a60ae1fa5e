//! Caveats about the machine: what else ran on it, its CPUs, its caches.

use bytecost_spec::{
    Cache, Counter, Measure, Metric, Nearness, Pattern, Placement, Transport, units,
};
use itertools::Itertools as _;

use super::{UnnamedCaveat, caveat, ids, of_run, seen, span};
use crate::grouping::by_key;
use crate::phrases::{self, from_to, percent};
use crate::trials::CellTrials;
use crate::view::View;

/// The most processes of others that are named.
const MOST_NAMED: usize = 3;
/// Share of the machine's time that a hypervisor may take unremarked.
const STEAL: f64 = 0.01;
/// Median latency in µs from which one wake-up a message is most of it.
const WAKE_UP_US: f64 = 15.0;
/// Time in µs that a wake-up takes at most; what takes longer waits for something else.
const WAKE_UP_MOST_US: f64 = 200.0;

/// Of the blocks that stand: those that were measured again are no part of the result.
pub(super) fn other_processes(view: &View<'_>) -> Option<UnnamedCaveat> {
    let bound = view.input.manifest.study.foreign_cpus;
    let blocks = view.input.blocks.iter();
    let stand = blocks
        .filter(|b| b.repeated_because.is_none())
        .collect_vec();
    let crowded = stand
        .iter()
        .filter(|b| b.other_cpus() > bound)
        .collect_vec();
    if crowded.is_empty() {
        return None;
    }
    let cpus = crowded.iter().map(|b| b.other_cpus()).collect_vec();
    let others = crowded.iter().flat_map(|b| &b.others);
    let by_name = by_key(others.map(|other| (other.name.as_str(), other.cpu_ns))).into_iter();
    let times = by_name.map(|(name, ns)| (name, ns.iter().sum::<u64>()));
    let most = times.sorted_by_key(|(name, ns)| (std::cmp::Reverse(*ns), *name));
    of_run(
        format!(
            "Other processes used the CPUs in {} of {}, also where these were measured again. Rankings may be wrong.",
            crowded.len(),
            phrases::count(stand.len(), "block")
        ),
        format!(
            "{} CPUs in use by processes that are not ours, more than {}; most by {}",
            span(&cpus, |c| format!("{c:.2}")),
            units::number(bound),
            phrases::list(most.take(MOST_NAMED).map(|(name, _)| name))
        ),
        "stop these programs and run again",
    )
}

/// In steps of 10 ms, which is a large part of a window, so that it is told of the run as a whole.
pub(super) fn steal(view: &View<'_>) -> Option<UnnamedCaveat> {
    let read = view
        .measured()
        .flat_map(CellTrials::trials)
        .filter_map(|t| {
            let capacity = t.of_all(Counter::MachineElapsedNs)? * t.of_all(Counter::MachineCpus)?;
            Some((t.of_all(Counter::MachineStealNs)?, capacity))
        });
    let (steal, capacity) = read.fold((0.0, 0.0), |sum, t| (sum.0 + t.0, sum.1 + t.1));
    if steal <= STEAL * capacity {
        return None;
    }
    of_run(
        "The hypervisor took CPU time away during this run: times are too long and rates too low by what it took.",
        format!(
            "{} of the CPUs' time in all windows",
            percent(steal / capacity)
        ),
        "run on a machine of one's own, or at a quieter hour; compare CPU time rather than rates",
    )
}

/// One for each amount of payload memory that fits into the last level cache.
pub(super) fn hot_payload(view: &View<'_>) -> Option<UnnamedCaveat> {
    let caches = &view.input.manifest.host.caches;
    let data = caches.iter().filter(|c| c.kind != "Instruction");
    let last = data.max_by_key(|c| (c.level, c.size_bytes))?;
    let of_disk = |c: &CellTrials<'_>| matches!(c.cell.cache, Cache::Cold | Cache::Direct);
    let hot = view
        .moved()
        .filter(|c| !c.route.is_of_cpus() && !of_disk(c));
    let hot = hot.collect_vec();
    let files = hot.iter().all(|c| c.route.is_of_files());
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
    let enough = last
        .size_bytes
        .saturating_mul(4)
        .checked_next_power_of_two();
    caveat(
        format!(
            "The {} fits into the last level cache and stays hot there: ways that copy look better than they would from memory that is in no cache.",
            if files { "file" } else { "payload" }
        ),
        format!(
            "payload memory of all flows {rings}, level {} cache {}",
            last.level,
            units::bytes_in_words(last.size_bytes)
        ),
        format!(
            "--ring {} shows the movers from memory that is not in the cache",
            units::bytes(enough.unwrap_or(last.size_bytes))
        ),
        ids(hot.flat_map(|(_, cells)| cells.iter().copied())),
    )
}

pub(super) fn threads(view: &View<'_>) -> Option<UnnamedCaveat> {
    let cpus = view.cpus();
    // Work is where it was put: on one CPU, if that is the question.
    let crowded =
        |c: &&CellTrials<'_>| !c.route.is_of_cpus() && c.threads_of_both_sides() > cpus.max(2);
    let cells = view.moved().filter(crowded).collect_vec();
    let most = cells.iter().map(|c| c.threads_of_both_sides()).max()?;
    if cpus == 0 {
        return None;
    }
    let all = |of: fn(&CellTrials<'_>) -> bool| cells.iter().all(|c| of(c));
    let each = if all(is_apart) {
        "one side of each flow"
    } else if all(|c| c.cell.transport.has_receiver()) {
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

/// Whether the two ends are on two machines.
fn is_apart(cell: &CellTrials<'_>) -> bool {
    cell.cell.transport == Transport::Peer
}

pub(super) fn one_cpu(view: &View<'_>) -> Option<UnnamedCaveat> {
    let single = view.cpus() == 1;
    let shared = |c: &&CellTrials<'_>| match &c.cell.placement {
        Placement::Free | Placement::Pairs => single,
        Placement::Near(nearness) => single || *nearness == Nearness::SameCpu,
        Placement::Within { cpus } => single || cpus.len() == 1,
        Placement::Cpus { sender, receiver } => {
            single || sender.iter().any(|cpu| receiver.contains(cpu))
        }
    };
    let ends = view
        .measured()
        .filter(|c| !c.route.is_of_cpus() && !is_apart(c));
    let cells = ends.filter(shared).collect_vec();
    let first = cells.first()?;
    let evidence = if single {
        "one CPU may be used".to_owned()
    } else {
        format!("placement {}", first.cell.placement)
    };
    caveat(
        "Both ends take turns on one CPU: rates are bounded by the sum of both, and no wake-up crosses CPUs.",
        evidence,
        "--placement with different CPUs for the two ends, where there are several",
        ids(cells),
    )
}

pub(super) fn wake_ups(view: &View<'_>) -> Option<UnnamedCaveat> {
    // What waits for a timer is woken late for another reason.
    let asks = |c: &&CellTrials<'_>| {
        c.cell.pattern == Pattern::Ask && !is_apart(c) && view.stalls.waits(&c.id).is_none()
    };
    let shows = |cell: &CellTrials<'_>| {
        let waits = Counter::ContextSwitchesVoluntary;
        let slept = cell.typical(|t| t.sent_over(waits, Counter::Messages))?;
        let time = cell.usual(Metric::both(Measure::LatencyUsP50))?;
        // A long message waits often, and for its bytes.
        let most = slept > 0.7 && time > WAKE_UP_US && time < slept * WAKE_UP_MOST_US;
        most.then(|| [slept, time].map(Some))
    };
    let (cells, [waits, latencies]) = seen(view.moved().filter(asks), shows)?;
    caveat(
        "Each message waits for a thread to be woken on another CPU; that takes most of the latency and drowns the differences between movers.",
        format!(
            "{} voluntary context switches a message, median latency {} µs",
            span(&waits, |w| format!("{w:.1}")),
            span(&latencies, units::number)
        ),
        "--placement with both ends on one CPU shows the calls themselves",
        ids(cells),
    )
}
