//! Where threads really ran: what the kernel said of them, by placement and neighbour.

use std::collections::BTreeSet;

use bytecost_spec::{Counter, Held, Placement, Sample};
use itertools::Itertools as _;

use crate::phrases::percent;
use crate::trials::{CellTrials, Trials};

/// A sentence for each placement, memory node and neighbour of the run that was measured, in the
/// order of the cells. What the scheduler decided has none.
pub(crate) fn sentences(trials: &Trials<'_>) -> Vec<String> {
    let mut told: Vec<String> = Vec::new();
    let cells = || trials.moving();
    for cell in cells() {
        let free = cell.cell.placement == Placement::Free && cell.cell.mem_node.is_none();
        if free || is_told(&told, &head(cell)) {
            continue;
        }
        let alike = || {
            let own = cells().filter(|c| head(c) == head(cell));
            own.flat_map(|c| c.trials())
        };
        let own = if cell.route.has_peer() {
            "sender"
        } else {
            "threads"
        };
        let senders = alike().map(|t| t.sample.sender.held.as_slice());
        let receivers = alike().filter_map(|t| t.sample.receiver.as_ref());
        let receivers = receivers.map(|side| side.held.as_slice());
        let sides = [(own, sets(senders)), ("receiver", sets(receivers))];
        let sides = sides.into_iter().filter(|(_, sets)| !sets.is_empty());
        let sides = sides
            .map(|(side, sets)| format!("{side} on {}", join(&sets)))
            .join(", ");
        if !sides.is_empty() {
            told.push(format!("{}: {sides}", head(cell)));
        }
    }
    for cell in cells() {
        let neighbour = &cell.cell.neighbour;
        let head = format!("background load {neighbour}");
        if neighbour.is_idle() || is_told(&told, &head) {
            continue;
        }
        let alike = || {
            let own = cells().filter(|c| c.cell.neighbour == *neighbour);
            own.flat_map(|c| c.trials()).map(|t| t.sample)
        };
        let sets = sets(alike().map(|s| s.neighbour.as_slice()));
        if sets.is_empty() {
            continue;
        }
        let shares: Vec<f64> = alike().filter_map(share).collect();
        let used = bytecost_stats::median(&shares).map_or_else(
            || "its CPU time is not known".to_owned(),
            |share| format!("busy for {} of the window", percent(share)),
        );
        told.push(format!("{head}: on {}, {used}", join(&sets)));
    }
    told
}

fn head(cell: &CellTrials<'_>) -> String {
    let placement = format!("placement {}", cell.cell.placement);
    match cell.cell.mem_node {
        None => placement,
        Some(node) => format!("{placement}, memory of node {node}"),
    }
}

fn is_told(told: &[String], head: &str) -> bool {
    let start = format!("{head}: ");
    told.iter().any(|line| line.starts_with(&start))
}

fn sets<'h>(held: impl Iterator<Item = &'h [Held]>) -> BTreeSet<Vec<u32>> {
    held.flatten().map(|h| h.cpus.clone()).collect()
}

/// `CPU 0`, `CPUs 0 and 2`, `CPUs 0,1`: sets of several are what a thread may choose from.
fn join(sets: &BTreeSet<Vec<u32>>) -> String {
    const MOST: usize = 8;
    let list = |set: &Vec<u32>| set.iter().join(",");
    let more = sets.len().saturating_sub(MOST);
    let more = (more > 0).then(|| format!("{more} more"));
    let names = sets.iter().take(MOST).map(list).chain(more);
    let several = sets.iter().map(Vec::len).sum::<usize>() > 1;
    let s = if several { "s" } else { "" };
    format!("CPU{s} {}", names.format(" and "))
}

/// CPU time of the neighbour over the window of all its threads.
fn share(sample: &Sample) -> Option<f64> {
    let used = sample.machine.get(&Counter::NeighbourNs)?.measured()?;
    let elapsed = sample.machine.get(&Counter::MachineElapsedNs)?.measured()?;
    let threads = sample.neighbour.len().max(1) as f64;
    (elapsed > 0).then(|| used as f64 / (elapsed as f64 * threads))
}
