//! The CPUs of a cell's threads and of its background load on a host, and its memory node.

use bytecost_host::placement;
use bytecost_spec::{Cell, CompetingLoad, Host, LoadPosition, Placement};
use itertools::Itertools as _;

/// The CPUs of a cell. Flow `i` of a side has set `i`, modulo the number of sets; without sets the
/// scheduler chooses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pins {
    /// Sets of the sender's flows.
    pub sender: Vec<Vec<u32>>,
    /// Sets of the receiver's flows.
    pub receiver: Vec<Vec<u32>>,
    /// CPUs of the background load, one for each thread; empty leaves its one thread to the scheduler.
    pub neighbour: Vec<u32>,
}

impl Pins {
    /// The pins of a cell. The error is the reason why the host has none, with the remedy. Flows without
    /// a peer take from both sides' CPUs in turn, and each flow of a ping-pong takes two sets.
    pub fn new(cell: &Cell, has_peer: bool, host: &Host) -> Result<Pins, String> {
        if let Some(node) = cell.mem_node {
            memory(node, host)?;
        }
        let (sender, receiver) = match &cell.placement {
            Placement::Free => Default::default(),
            Placement::Within { cpus } => {
                usable(cpus, host)?;
                (vec![cpus.clone()], vec![cpus.clone()])
            }
            Placement::Cpus { sender, receiver } => {
                usable(sender, host)?;
                usable(receiver, host)?;
                (each(sender), each(receiver))
            }
            Placement::Pairs => {
                return Err(
                    "pairs stands for several placements: run it as a study, or name CPUs as in 0:1"
                        .to_owned(),
                );
            }
            Placement::Near(_) | Placement::Pinned => {
                let pairs = match &cell.placement {
                    Placement::Near(nearness) => placement::pairs(*nearness, host),
                    _ => placement::pinned(host),
                }?;
                let (a, b): (Vec<u32>, Vec<u32>) = pairs.cpus.into_iter().unzip();
                (each(&a), each(&b))
            }
        };
        let neighbour = background_cpus(&cell.neighbour, &sender, &receiver, host)?;
        let (sender, receiver) = match (has_peer, &cell.placement) {
            (true, _) | (_, Placement::Free | Placement::Within { .. }) => (sender, receiver),
            (false, _) => (interleaved(sender, receiver), Vec::new()),
        };
        Ok(Pins {
            sender,
            receiver,
            neighbour,
        })
    }

    /// All CPUs that the two ends may use on this host, in order.
    pub fn of_both_ends(&self, host: &Host) -> Vec<u32> {
        let cpus_of = |sets: &[Vec<u32>]| match sets {
            [] => host.cpus_allowed.clone(),
            sets => sets.concat(),
        };
        (cpus_of(&self.sender).into_iter())
            .chain(cpus_of(&self.receiver))
            .sorted()
            .dedup()
            .collect()
    }
}

/// A placement by nearness as CPUs of this host, or the reason why it has none; any other placement as it is.
pub fn exact(placement: &Placement, host: &Host) -> Result<Placement, String> {
    let cell = Cell {
        placement: placement.clone(),
        ..Cell::default()
    };
    let pins = Pins::new(&cell, true, host)?;
    Ok(match placement {
        Placement::Near(_) | Placement::Pinned => Placement::Cpus {
            sender: pins.sender.concat(),
            receiver: pins.receiver.concat(),
        },
        other => other.clone(),
    })
}

/// One set for each CPU.
fn each(cpus: &[u32]) -> Vec<Vec<u32>> {
    cpus.iter().map(|cpu| vec![*cpu]).collect()
}

/// The sets of two sides in turn, the shorter list repeated.
fn interleaved(a: Vec<Vec<u32>>, b: Vec<Vec<u32>>) -> Vec<Vec<u32>> {
    let rounds = a.len().max(b.len());
    (a.iter().cycle().zip(b.iter().cycle()))
        .take(rounds)
        .flat_map(|(a, b)| [a.clone(), b.clone()])
        .collect()
}

/// Fails for the first CPU that this process may not use.
fn usable(cpus: &[u32], host: &Host) -> Result<(), String> {
    let why = cpus
        .iter()
        .find_map(|cpu| placement::unusable_reason(*cpu, host));
    why.map_or(Ok(()), Err)
}

/// Fails for a NUMA node without memory for this process.
fn memory(node: u32, host: &Host) -> Result<(), String> {
    match host.memory_nodes.as_slice() {
        [] => Err("the kernel reports no memory nodes: choose --mem-node auto".to_owned()),
        [one] if *one != node => Err(format!(
            "node {one} is the only one with memory for this process: choose --mem-node auto"
        )),
        nodes if !nodes.contains(&node) => Err(format!(
            "this process may take memory from nodes {} alone: choose --mem-node among them",
            bytecost_spec::cpulist::write(nodes)
        )),
        _ => Ok(()),
    }
}

/// The CPUs of a background load, one for each thread; empty for one thread that the scheduler places.
fn background_cpus(
    neighbour: &CompetingLoad,
    sender: &[Vec<u32>],
    receiver: &[Vec<u32>],
    host: &Host,
) -> Result<Vec<u32>, String> {
    if neighbour.is_idle() {
        return Ok(Vec::new());
    }
    match &neighbour.spot {
        LoadPosition::Free => Ok(Vec::new()),
        LoadPosition::All if host.cpus_allowed.is_empty() => Err(
            "the kernel does not report the CPUs that this process may use, for a background load on all"
                .to_owned(),
        ),
        LoadPosition::All => Ok(host.cpus_allowed.clone()),
        LoadPosition::Cpus(cpus) => usable(cpus, host).map(|()| cpus.clone()),
        LoadPosition::Near(nearness) => {
            let Some([anchor]) = sender.first().map(Vec::as_slice) else {
                return Err(format!(
                    "the place of the background load is relative to the sender's CPU, and the sender is not pinned: choose a --placement that pins, such as same-cache, or name CPUs, as in {}@0",
                    neighbour.noise.name()
                ));
            };
            let taken: Vec<u32> = sender.iter().chain(receiver).flatten().copied().collect();
            placement::cpu_near(*nearness, *anchor, &taken, host).map(|cpu| vec![cpu])
        }
    }
}
