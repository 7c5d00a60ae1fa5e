//! The networks that a lab makes: each for the first cell that needs it, and kept for the next.

use std::collections::btree_map::{BTreeMap, Entry};
use std::io;
use std::path::Path;

use bytecost_meter::{NetworkMeter, PacketSockets};
use bytecost_spec::{Cell, PacketSocket, Transport};
use bytecost_sys::network::Network;

use crate::role::Role;
use crate::transports::link::LinkChoice;
use crate::transports::veth::VethPair;
use crate::transports::wire::{FAR_NAME, Wire};
use crate::trial_processes::TrialProcesses;

#[derive(Debug, Default)]
pub(crate) struct Networks {
    pairs: BTreeMap<LinkChoice, VethPair>,
    wires: BTreeMap<LinkChoice, Wire>,
}

/// The network between the two ends of a cell.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NetworkPath<'n> {
    /// Both are where this process is.
    Nothing,
    /// Each is in a network of its own.
    Pair(&'n VethPair),
    /// The sender is in a network with a device that delivers nothing.
    Wire(&'n Wire),
}

impl Networks {
    pub(crate) fn between(&mut self, cell: &Cell) -> io::Result<NetworkPath<'_>> {
        let link = LinkChoice::new(cell);
        Ok(match cell.transport {
            Transport::Loopback | Transport::Unix | Transport::Peer => NetworkPath::Nothing,
            Transport::Veth => NetworkPath::Pair(made(&mut self.pairs, link, VethPair::new)?),
            Transport::Wire => NetworkPath::Wire(made(&mut self.wires, link, Wire::new)?),
        })
    }
}

fn made<T>(
    all: &mut BTreeMap<LinkChoice, T>,
    link: LinkChoice,
    make: impl FnOnce(LinkChoice) -> io::Result<T>,
) -> io::Result<&T> {
    Ok(match all.entry(link) {
        Entry::Occupied(there) => there.into_mut(),
        Entry::Vacant(place) => place.insert(make(link)?),
    })
}

impl<'n> NetworkPath<'n> {
    /// The network of one side; none for this process's own.
    pub(crate) fn network(self, role: Role) -> Option<&'n Network> {
        match self {
            NetworkPath::Nothing => None,
            NetworkPath::Pair(pair) => Some(pair.network(role)),
            NetworkPath::Wire(wire) => Some(&wire.network),
        }
    }

    pub(crate) fn within<T: Send>(
        self,
        role: Role,
        work: impl FnOnce() -> T + Send,
    ) -> io::Result<T> {
        match self.network(role) {
            Some(network) => network.within(work),
            None => Ok(work()),
        }
    }

    /// The device of [`Transport::Wire`]; none of any other transport.
    pub(crate) fn wire(self) -> Option<&'n Wire> {
        match self {
            NetworkPath::Wire(wire) => Some(wire),
            NetworkPath::Nothing | NetworkPath::Pair(_) => None,
        }
    }
}

/// TCP counters of the networks of a trial: loopback's is the host's, wire has one of its own, veth
/// two.
pub(crate) fn meter(cell: &Cell, processes: &TrialProcesses) -> NetworkMeter {
    NetworkMeter::open(&processes.directories(networks_of(cell, processes)))
}

/// The number of networks that the packets of a trial go through.
fn networks_of(cell: &Cell, processes: &TrialProcesses) -> usize {
    match cell.transport {
        Transport::Unix => 0,
        Transport::Peer => 1,
        // A side without another one has no connection.
        _ if processes.sides.len() < 2 => 0,
        Transport::Loopback | Transport::Wire => 1,
        Transport::Veth => 2,
    }
}

/// Packet sockets of other programs, packet(7), in the networks that a cell's packets go through.
pub(crate) struct PacketTaps {
    networks: Vec<PacketSockets>,
    transport: Transport,
    /// The sockets that were there before the trial.
    early: Vec<PacketSocket>,
}

impl PacketTaps {
    /// Opens them, and lists the sockets that are there before the trial.
    pub(crate) fn open(cell: &Cell, processes: &TrialProcesses) -> PacketTaps {
        let directories = processes.directories(networks_of(cell, processes));
        let networks = (directories.iter().flatten()).filter_map(|p| PacketSockets::open(p).ok());
        let mut found = PacketTaps {
            networks: networks.collect(),
            transport: cell.transport,
            early: Vec::new(),
        };
        found.early = found.now();
        found
    }

    /// The sockets that were there at first, and those that have come since.
    pub(crate) fn all(&self) -> Vec<PacketSocket> {
        let mut all = self.early.clone();
        all.extend(
            self.now()
                .into_iter()
                .filter(|socket| !self.early.contains(socket)),
        );
        all
    }

    /// The sockets that get the packets of the cell's device now.
    fn now(&self) -> Vec<PacketSocket> {
        let is_meant = |device: &str| carries_payload(self.transport, device);
        let found = |n: &PacketSockets| n.find(Path::new("/proc"), is_meant).unwrap_or_default();
        self.networks.iter().flat_map(found).collect()
    }
}

/// Returns true if a transport's payload goes by this device of its networks. The far end of a wire's
/// pair has only the packets that open connections and the responder's.
fn carries_payload(transport: Transport, device: &str) -> bool {
    let is_far_of_wire = device == FAR_NAME && transport.is_wire();
    (device == "lo") == (transport == Transport::Loopback) && !is_far_of_wire
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_takes_the_packets_of_another_device_takes_none_of_the_payload() {
        let check = |transport, expected: [bool; 3]| {
            let found = ["lo", "bytecost0", "bytecost1"].map(|d| carries_payload(transport, d));
            assert_eq!(found, expected, "{transport:?}");
        };
        check(Transport::Loopback, [true, false, false]);
        check(Transport::Veth, [false, true, true]);
        check(Transport::Wire, [false, true, false]);
    }
}
