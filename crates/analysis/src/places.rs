//! Where threads really ran: what the kernel said of them, by placement and neighbour.

use std::collections::BTreeSet;

use bytecost_spec::{Counter, Held, Placement, Sample};
use itertools::Itertools as _;

use crate::grouping::grouped;
use crate::phrases::percent;
use crate::trials::{CellTrials, Trials};

/// A sentence for each placement, memory node and neighbour of the run that was measured, in the
/// order of the cells. What the scheduler decided has none.
pub(crate) fn sentences(trials: &Trials<'_>) -> Vec<String> {
    let is_held =
        |c: &&CellTrials<'_>| c.cell.placement != Placement::Free || c.cell.mem_node.is_some();
    let placed = trials.moving().filter(is_held).map(|c| (head(c), c));
    let placed = grouped(placed).into_iter().filter_map(|(head, cells)| {
        let own = match cells[0].route.has_peer() {
            true => "sender",
            false => "threads",
        };
        let samples = || cells.iter().flat_map(|c| c.trials()).map(|t| t.sample);
        let senders = samples().map(|s| s.sender.held.as_slice());
        let receivers = samples().filter_map(|s| s.receiver.as_ref());
        let receivers = receivers.map(|side| side.held.as_slice());
        let sides = [(own, sets(senders)), ("receiver", sets(receivers))];
        let held = sides.iter().filter(|(_, sets)| !sets.is_empty());
        let held = held
            .map(|(side, sets)| format!("{side} on {}", join(sets)))
            .join(", ");
        (!held.is_empty()).then(|| format!("{head}: {held}"))
    });
    let loaded = trials.moving().map(|c| (&c.cell.neighbour, c));
    let loaded = grouped(loaded.filter(|(neighbour, _)| !neighbour.is_idle())).into_iter();
    let loaded = loaded.filter_map(|(neighbour, cells)| {
        let samples = || cells.iter().flat_map(|c| c.trials()).map(|t| t.sample);
        let sets = sets(samples().map(|s| s.neighbour.as_slice()));
        let shares: Vec<f64> = samples().filter_map(share).collect();
        let used = bytecost_stats::median(&shares).map_or_else(
            || "its CPU time is not known".to_owned(),
            |share| format!("busy for {} of the window", percent(share)),
        );
        let told = || format!("background load {neighbour}: on {}, {used}", join(&sets));
        (!sets.is_empty()).then(told)
    });
    placed.chain(loaded).collect()
}

fn head(cell: &CellTrials<'_>) -> String {
    let placement = format!("placement {}", cell.cell.placement);
    match cell.cell.mem_node {
        None => placement,
        Some(node) => format!("{placement}, memory of node {node}"),
    }
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
