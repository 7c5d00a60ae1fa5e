//! What a trial brought together before it is told.

use bytecost_spec::sample::Truth;
use bytecost_spec::{Held, PacketSocket, Readings};

use crate::protocol::Done;

/// Both sides, the machine and what ran beside them.
pub(crate) struct Parts {
    pub(crate) sender: Done,
    /// The receiver, or who stands in its place.
    pub(crate) receiver: Option<Done>,
    pub(crate) machine: Readings,
    pub(crate) truth: Option<Truth>,
    /// Where the threads of the background load were held.
    pub(crate) neighbour: Vec<Held>,
    /// Who else took the packets.
    pub(crate) packet_sockets: Vec<PacketSocket>,
}

impl Parts {
    /// Whether a flow moved nothing within its window, which was too short then. What clients of
    /// a server ask for is theirs together.
    pub(crate) fn has_idle_flow(&self) -> bool {
        let idle = |done: &Done| {
            let mut flows = done.side.flows.iter();
            flows.len() == 0 || flows.any(|f| f.bytes == 0 && f.messages == 0)
        };
        idle(&self.sender) || self.receiver.as_ref().is_some_and(idle)
    }
}
