//! CPUs of pinned threads and of background loads, as the kernel reported them.

use std::collections::BTreeSet;

use bytecost_spec::{Counter, Held, Placement, Sample};
use bytecost_stats::median;

use crate::grouping::grouped;
use crate::result::PlaceFacts;
use crate::trials::{CellTrials, Trials};

/// Every measured placement with its memory node, then every background load, in the order of the
/// cells. Placements by the scheduler are left out.
pub(crate) fn places(trials: &Trials<'_>) -> Vec<PlaceFacts> {
    let placed = trials
        .moving()
        .filter(|c| c.cell.placement != Placement::Free || c.cell.mem_node.is_some())
        .map(|c| ((&c.cell.placement, c.cell.mem_node), c));
    let loaded = trials
        .moving()
        .filter(|c| !c.cell.neighbour.is_idle())
        .map(|c| (&c.cell.neighbour, c));
    let threads = grouped(placed)
        .into_iter()
        .filter_map(|((placement, mem_node), cells)| {
            let own = cpu_sets(samples(&cells).map(|s| s.sender.held.as_slice()));
            let receivers = samples(&cells).filter_map(|s| s.receiver.as_ref());
            let receiver = cpu_sets(receivers.map(|side| side.held.as_slice()));
            (!own.is_empty() || !receiver.is_empty()).then(|| PlaceFacts::Threads {
                placement: placement.clone(),
                mem_node,
                has_peer: cells[0].route.has_peer(),
                own,
                receiver,
            })
        });
    let background = grouped(loaded).into_iter().filter_map(|(load, cells)| {
        let cpus = cpu_sets(samples(&cells).map(|s| s.neighbour.as_slice()));
        let shares: Vec<f64> = samples(&cells).filter_map(background_share).collect();
        (!cpus.is_empty()).then(|| PlaceFacts::Background {
            load: load.clone(),
            cpus,
            busy_share: median(&shares),
        })
    });
    threads.chain(background).collect()
}

fn samples<'c>(cells: &'c [&'c CellTrials<'c>]) -> impl Iterator<Item = &'c Sample> {
    cells.iter().flat_map(|c| c.trials()).map(|t| t.sample)
}

fn cpu_sets<'h>(threads: impl Iterator<Item = &'h [Held]>) -> Vec<Vec<u32>> {
    let sets: BTreeSet<&Vec<u32>> = threads.flatten().map(|thread| &thread.cpus).collect();
    sets.into_iter().cloned().collect()
}

/// CPU time of the background load as a share of the window of all of its threads.
fn background_share(sample: &Sample) -> Option<f64> {
    let cpu_ns = sample.machine.get(&Counter::NeighbourNs)?.measured()?;
    let elapsed_ns = sample.machine.get(&Counter::MachineElapsedNs)?.measured()?;
    let threads = sample.neighbour.len().max(1) as f64;
    (elapsed_ns > 0).then(|| cpu_ns as f64 / (elapsed_ns as f64 * threads))
}
