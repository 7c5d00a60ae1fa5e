//! A line of the ring, how its requests are told apart, and what it shares with others.

use std::io;
use std::os::fd::OwnedFd;

use crate::buffer_ring::Piece;

/// What a request was: the highest byte of its tag. Below it are three bytes of the line's
/// generation, and the line; of [`SEND`] only the slot.
pub(super) const CONNECT: u64 = 1 << 56;
pub(super) const RECEIVE: u64 = 2 << 56;
pub(super) const SEND: u64 = 3 << 56;
pub(super) const CANCEL: u64 = 4 << 56;
pub(super) const KINDS: u64 = 0xff << 56;
const GENERATIONS: u32 = 1 << 24;
/// Memory that all lines share for what comes in, in bytes.
const POOL_BYTES: usize = 1 << 20;
const LEAST_BUFFERS: usize = 64;
const MOST_BUFFERS: usize = 4096;
/// Bounds of one buffer, in bytes.
const LEAST_BYTES: usize = 128;
const MOST_BYTES: usize = 16 << 10;

/// What the ring tells of a line, by its number.
#[derive(Debug)]
pub enum ClientEvent {
    /// It is connected, or why it cannot be.
    Connected(u32, io::Result<()>),
    /// Something came: bytes, or none where the stream has ended.
    Received(u32, io::Result<Option<Piece>>),
    /// All that was to be sent is sent, or why it cannot be.
    Sent(u32, io::Result<()>),
}

/// One line, which has one connection after the other.
#[derive(Default)]
pub(super) struct Line {
    pub(super) socket: Option<OwnedFd>,
    /// How many connections it has had, so that what comes late of an earlier one is known.
    pub(super) generation: u32,
    pub(super) connects: bool,
    pub(super) receives: bool,
    /// Where that lies which is being sent.
    pub(super) slot: Option<u32>,
}

impl Line {
    /// The tag of a request of this connection.
    pub(super) fn tag(&self, kind: u64, line: u32) -> u64 {
        kind | u64::from(self.generation) << 32 | u64::from(line)
    }

    /// Has what comes late of this connection known as such.
    pub(super) fn next_generation(&mut self) {
        self.generation = (self.generation + 1) % GENERATIONS;
    }

    /// Whether the tag is of this connection.
    pub(super) fn has(&self, tag: u64) -> bool {
        self.generation == (tag >> 32) as u32 & (GENERATIONS - 1)
    }
}

/// How many buffers of how many bytes so many lines share, which get answers of that size.
pub(super) fn pool(lines: u32, answer_bytes: usize) -> (u16, usize) {
    let bytes_each = answer_bytes
        .next_power_of_two()
        .clamp(LEAST_BYTES, MOST_BYTES);
    let most = (POOL_BYTES / bytes_each).clamp(LEAST_BUFFERS, MOST_BUFFERS);
    let wanted = (lines as usize).next_power_of_two().max(LEAST_BUFFERS);
    (most.min(wanted) as u16, bytes_each)
}
