//! A device that delivers packets to nobody, and a responder (a process or a thread) that acknowledges them.
//!
//! Loopback and veth hand packets to a local socket, for which the kernel copies the pages of every
//! zero-copy send. Here a BPF program on the egress of a `device` takes the packets off, notes how
//! far each flow has come, and has them freed (`shared_counters`); a `responder` on a CPU of its
//! own answers SYN and FIN and acknowledges. The responder takes no CPU time from the
//! sender, so that the cost of sending alone is measured: the best case for a network card.
//!
//! The device lies in a network without name or way out, and descriptors alone hold it all.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use bytecost_sys::network::Network;

use super::link::LinkChoice;
use super::veth::NetworkPart;

mod device;
pub mod packet;
mod program;
pub(crate) mod responder;
pub(crate) mod shared_counters;

pub(crate) use device::FAR_END;
use device::refused;

/// The device with its program, in a network of its own. Dropping it drops all of it.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) network: Network,
    /// The far end's packets.
    far: OwnedFd,
    /// The program's map of how far each flow has come.
    map: OwnedFd,
}

impl Wire {
    pub(crate) fn new(link: LinkChoice) -> io::Result<Wire> {
        let network = Network::new().map_err(|e| refused(NetworkPart::Namespaces, &e))?;
        let (far, map) = device::made(&network, link)?;
        Ok(Wire { network, far, map })
    }

    /// The descriptors that a responder needs: the far end's, for packets, and the program's map.
    pub(crate) fn descriptors(&self) -> [BorrowedFd<'_>; 2] {
        [self.far.as_fd(), self.map.as_fd()]
    }
}

#[cfg(test)]
mod tests;
