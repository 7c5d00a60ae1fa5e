//! The meters of the networks that a trial's packets go through, by the processes in them.

use std::path::Path;

use bytecost_meter::{NetworkMeter, PacketSockets};
use bytecost_spec::{Cell, PacketSocket, Transport};

use crate::transports::veth::NAMES;
use crate::trial_processes::TrialProcesses;

/// TCP counters of the networks of a trial: loopback's is the host's, wire has one of its own, veth
/// two.
pub(crate) fn network_meter(cell: &Cell, processes: &TrialProcesses) -> NetworkMeter {
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
    let is_far_of_wire = device == NAMES[1] && transport.is_wire();
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
