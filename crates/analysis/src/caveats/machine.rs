//! Caveats about the machine: what else ran on it, its CPUs, its caches.

use std::collections::BTreeMap;

use bytecost_spec::sample::Block;
use bytecost_spec::{
    Cache, Counter, Measure, Metric, Nearness, Pattern, Placement, Transport, units,
};

use super::{UnnamedCaveat, ids, of_cells};
use crate::phrases::{self, percent};
use crate::trials::CellTrials;
use crate::value::machine;
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
pub(super) fn other_processes(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let bound = view.input.manifest.study.foreign_cpus;
    let blocks = view.input.blocks.iter();
    let stand: Vec<&Block> = blocks.filter(|b| b.repeated_because.is_none()).collect();
    let crowded: Vec<&Block> = stand
        .iter()
        .copied()
        .filter(|b| b.other_cpus() > bound)
        .collect();
    if crowded.is_empty() {
        return Vec::new();
    }
    let cpus: Vec<f64> = crowded.iter().map(|b| b.other_cpus()).collect();
    let mut names: BTreeMap<&str, u64> = BTreeMap::new();
    for other in crowded.iter().flat_map(|b| &b.others) {
        *names.entry(&other.name).or_default() += other.cpu_ns;
    }
    let mut names: Vec<(&str, u64)> = names.into_iter().collect();
    names.sort_by_key(|(name, ns)| (std::cmp::Reverse(*ns), *name));
    let most: Vec<String> = names
        .iter()
        .take(MOST_NAMED)
        .map(|(n, _)| (*n).to_owned())
        .collect();
    vec![UnnamedCaveat {
        text: format!(
            "Other processes used the CPUs in {} of {}, also where these were measured again. Rankings may be wrong.",
            crowded.len(),
            phrases::count(stand.len(), "block")
        ),
        evidence: format!(
            "{} CPUs in use by processes that are not ours, more than {}; most by {}",
            super::span(&cpus, |c| format!("{c:.2}")),
            units::number(bound),
            phrases::list(&most)
        ),
        remedy: "stop these programs and run again".to_owned(),
        cells: Vec::new(),
    }]
}

/// In steps of 10 ms, which is a large part of a window, so that it is told of the run as a whole.
pub(super) fn steal(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let (mut steal, mut capacity) = (0.0, 0.0);
    for trial in view.measured().flat_map(CellTrials::trials) {
        let of = |counter| machine(trial.sample, counter);
        if let (Ok(ns), Ok(elapsed), Ok(cpus)) = (
            of(Counter::MachineStealNs),
            of(Counter::MachineElapsedNs),
            of(Counter::MachineCpus),
        ) {
            steal += ns;
            capacity += elapsed * cpus;
        }
    }
    if steal <= STEAL * capacity {
        return Vec::new();
    }
    vec![UnnamedCaveat {
        text: "The hypervisor took CPU time away during this run: times are too long and rates too low by what it took.".to_owned(),
        evidence: format!("{} of the CPUs' time in all windows", percent(steal / capacity)),
        remedy: "run on a machine of one's own, or at a quieter hour; compare CPU time rather than rates".to_owned(),
        cells: Vec::new(),
    }]
}

/// One for each amount of payload memory that fits into the last level cache.
pub(super) fn hot_payload(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let caches = &view.input.manifest.host.caches;
    let data = caches.iter().filter(|c| c.kind != "Instruction");
    let Some(last) = data.max_by_key(|c| (c.level, c.size_bytes)) else {
        return Vec::new();
    };
    let mut hot: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    let mut files = true;
    for cell in view.moved().filter(|c| !c.route.is_of_cpus()) {
        let of_files = cell.route.is_of_files();
        if matches!(cell.cell.cache, Cache::Cold | Cache::Direct) {
            continue; // it comes from the disk
        }
        files &= of_files;
        let slots = if of_files {
            cell.cell.file_slots()
        } else {
            cell.cell.ring_slots()
        };
        let flows = u64::from(cell.cell.threads);
        let bytes = slots
            .saturating_mul(cell.cell.size_bytes)
            .saturating_mul(flows);
        if bytes <= last.size_bytes {
            hot.entry(bytes).or_default().push(cell.id.clone());
        }
    }
    let (Some(least), Some(most)) = (hot.keys().next(), hot.keys().last()) else {
        return Vec::new();
    };
    let [least, most] = [*least, *most].map(units::bytes_in_words);
    let rings = if least == most {
        least
    } else {
        format!("{least} to {most}")
    };
    let enough = last
        .size_bytes
        .saturating_mul(4)
        .checked_next_power_of_two();
    vec![UnnamedCaveat {
        text: format!(
            "The {} fits into the last level cache and stays hot there: ways that copy look better than they would from memory that is in no cache.",
            if files { "file" } else { "payload" }
        ),
        evidence: format!(
            "payload memory of all flows {rings}, level {} cache {}",
            last.level,
            units::bytes_in_words(last.size_bytes)
        ),
        remedy: format!(
            "--ring {} shows the movers from memory that is not in the cache",
            units::bytes(enough.unwrap_or(last.size_bytes))
        ),
        cells: hot.into_values().flatten().collect(),
    }]
}

pub(super) fn threads(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let cpus = view.cpus();
    // Work is where it was put: on one CPU, if that is the question.
    let crowded =
        |c: &&CellTrials<'_>| !c.route.is_of_cpus() && c.threads_of_both_sides() > cpus.max(2);
    let cells: Vec<&CellTrials<'_>> = view.moved().filter(crowded).collect();
    let Some(most) = cells.iter().map(|c| c.threads_of_both_sides()).max() else {
        return Vec::new();
    };
    if cpus == 0 {
        return Vec::new();
    }
    let all = |of: fn(&CellTrials<'_>) -> bool| cells.iter().all(|c| of(c));
    let each = if all(is_apart) {
        "one side of each flow"
    } else if all(|c| c.cell.transport.has_receiver()) {
        "two for each flow"
    } else {
        "both ends together"
    };
    vec![UnnamedCaveat {
        text: "More threads than CPUs: they wait for each other, and rates show the scheduler as well as the mover.".to_owned(),
        evidence: format!(
            "up to {most} threads, {each}, on {}",
            phrases::count(cpus, "CPU")
        ),
        remedy: format!("--threads {} or fewer, or a larger machine", (cpus / 2).max(1)),
        cells: ids(cells),
    }]
}

/// Whether the two ends are on two machines.
fn is_apart(cell: &CellTrials<'_>) -> bool {
    cell.cell.transport == Transport::Peer
}

pub(super) fn one_cpu(view: &View<'_>) -> Vec<UnnamedCaveat> {
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
    let cells: Vec<&CellTrials<'_>> = ends.filter(shared).collect();
    let Some(first) = cells.first() else {
        return Vec::new();
    };
    let evidence = if single {
        "one CPU may be used".to_owned()
    } else {
        format!("placement {}", first.cell.placement)
    };
    vec![UnnamedCaveat {
        text: "Both ends take turns on one CPU: rates are bounded by the sum of both, and no wake-up crosses CPUs.".to_owned(),
        evidence,
        remedy: "--placement with different CPUs for the two ends, where there are several".to_owned(),
        cells: ids(cells),
    }]
}

pub(super) fn wake_ups(view: &View<'_>) -> Vec<UnnamedCaveat> {
    // What waits for a timer is woken late for another reason.
    let asks = |c: &&CellTrials<'_>| {
        c.cell.pattern == Pattern::Ask && !is_apart(c) && view.stalls.waits(&c.id).is_none()
    };
    let p50 = Metric::both(Measure::LatencyUsP50);
    let shows = |cell: &CellTrials<'_>| {
        let waits = Counter::ContextSwitchesVoluntary;
        let slept = cell.typical(|t| t.sent_over(waits, Counter::Messages))?;
        let time = cell.typical(|t| t.value(p50).known())?;
        // A long message waits often, and for its bytes.
        let most = slept > 0.7 && time > WAKE_UP_US && time < slept * WAKE_UP_MOST_US;
        most.then(|| [slept, time].map(Some))
    };
    of_cells(view.moved().filter(asks), shows, |_, [waits, latencies]| {
        (
            "Each message waits for a thread to be woken on another CPU; that takes most of the latency and drowns the differences between movers.".to_owned(),
            format!(
                "{} voluntary context switches a message, median latency {} µs",
                super::span(&waits, |w| format!("{w:.1}")),
                super::span(&latencies, units::number)
            ),
            "--placement with both ends on one CPU shows the calls themselves",
        )
    })
}
