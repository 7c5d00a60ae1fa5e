//! The sides of a trial that run on one host.

/// Descriptors of a process in addition to those of its flows: the standard ones, the control socket,
/// counters, the listener, and room for libraries.
pub(crate) const DESCRIPTORS_BESIDES: u64 = 64;

/// The sides of a trial that run on one host: both, or one of them if the other runs on a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostSides {
    /// Both sides.
    Both,
    /// The sender, or the clients of a server.
    Sender,
    /// The receiver, or the server.
    Receiver,
}

impl HostSides {
    pub(crate) fn sends(self) -> bool {
        self != HostSides::Receiver
    }

    pub(crate) fn receives(self) -> bool {
        self != HostSides::Sender
    }
}
