//! The part of a trial that a host has.

/// Besides its flows: three standard ones, control, counters, the listener, room for libraries.
pub(crate) const DESCRIPTORS_BESIDES: u64 = 64;

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
