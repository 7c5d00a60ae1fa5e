//! The part of a trial that a host has.

/// Descriptors that an endpoint has open besides its flows: the standard three, its control
/// socket, counters, the listener, and room for what libraries open.
pub(crate) const DESCRIPTORS_BESIDES: u64 = 64;

/// What of a trial plays on a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seat {
    /// All of it.
    Both,
    /// What sends, or asks a server.
    Sender,
    /// What receives, or serves.
    Receiver,
}

impl Seat {
    pub(crate) fn sends(self) -> bool {
        self != Seat::Receiver
    }

    pub(crate) fn receives(self) -> bool {
        self != Seat::Sender
    }
}
