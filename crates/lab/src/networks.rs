//! The networks that a lab makes: each for the first cell that needs it, and kept for the next.

use std::collections::btree_map::{BTreeMap, Entry};
use std::io;

use bytecost_spec::{Cell, Transport};
use bytecost_sys::network::Network;

use crate::role::Role;
use crate::transports::link::LinkChoice;
use crate::transports::veth::VethPair;
use crate::transports::wire::Wire;

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
