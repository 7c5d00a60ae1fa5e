//! What a row of the table of movers states of itself: by which calls it moves bytes, where they
//! are copied, what it needs.
//!
//! A statement is written down by whoever adds a mover, and nothing of it is made from the code
//! that does the work: tests hold the two against each other, by what the kernel counts.

use std::ops::RangeInclusive;

use bytecost_spec::evidence::Leg;
use bytecost_sys::gather;
use rustix::io::ReadWriteFlags;
use rustix::net::SendFlags;
use rustix::pipe::SpliceFlags;

/// What a mover is for.
#[derive(Clone, Copy, Debug)]
pub struct Statement {
    /// The calls that move its bytes, and those that go with them. It makes no other that could.
    pub calls: &'static [Call],
    /// Where the kernel copies each of its bytes, once: over TCP on one machine, and with a file
    /// whose pages are in the page cache.
    pub copies: &'static [Leg],
    /// Where all of this is there it works, and elsewhere it does not.
    pub needs: &'static [Need],
}

/// A system call of a kind, or a request of io_uring.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Its name in the manual: `sendto`, `IORING_OP_SEND`.
    pub name: &'static str,
    /// All of its flags; of setsockopt(2) the option, and of requests none, as the kernel does not
    /// tell them.
    pub flags: u32,
    /// How often it is made for each of what follows.
    pub times: u64,
    /// What it is made for.
    pub each: Each,
}

/// What a call is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Each {
    /// A message, or a request to a file.
    Message,
    /// A field of a message.
    Field,
    /// A field of a message, but for its last.
    FieldButLast,
    /// A block of a message.
    Block,
    /// A pass through the file: at its beginning or at its end, of which the first or the last may
    /// be missing.
    Pass,
    /// A turn there and back: one for each direction, and a few more that may be the end.
    Turn,
    /// Several messages that are in flight together, as many as there are or fewer.
    Several,
    /// Whatever has to be waited for: nothing, or a few for each message.
    Wait,
}

/// What there must be for a mover to work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// A stream: of a message it makes more packets than one.
    Stream,
    /// A socket of TCP.
    Tcp,
    /// A socket of TCP or UDP.
    Inet,
    /// A receiver that is there, since a program of its own cannot be led to another place.
    Receiver,
    /// A file on a disk.
    Disk,
    /// The page cache, which must not be passed by.
    PageCache,
    /// io_uring, which may be forbidden.
    Uring,
    /// A Linux of at least this version.
    Linux(u32, u32),
    /// A Java development kit.
    Java,
}

/// What was moved.
#[derive(Clone, Copy, Debug)]
pub struct Moved {
    /// Messages.
    pub messages: u64,
    /// Fields of each.
    pub fields: u64,
    /// Blocks of each.
    pub blocks: u64,
    /// Messages of a pass through the file; all of them where there is none.
    pub pass: u64,
    /// The most messages in flight.
    pub in_flight: u64,
}

/// The most calls that it takes to wait for a message, and to end a game of turns.
const MOST_WAITS: u64 = 3;
const MOST_AT_END: u64 = 4;

impl Each {
    /// How many there are of it.
    #[must_use]
    pub fn of(self, moved: &Moved) -> RangeInclusive<u64> {
        let messages = moved.messages;
        let exactly = |n| n..=n;
        match self {
            Each::Message => exactly(messages),
            Each::Field => exactly(messages * moved.fields),
            Each::FieldButLast => exactly(messages * (moved.fields - 1)),
            Each::Block => exactly(messages * moved.blocks),
            Each::Pass => {
                let passes = messages.div_ceil(moved.pass);
                passes - 1..=passes
            }
            Each::Turn => 2 * messages..=2 * messages + MOST_AT_END,
            Each::Several => messages.div_ceil(moved.in_flight)..=messages / 2,
            Each::Wait => 0..=MOST_WAITS * messages,
        }
    }
}

impl Call {
    /// How often it is made for what was moved.
    #[must_use]
    pub fn count(&self, moved: &Moved) -> RangeInclusive<u64> {
        let of = self.each.of(moved);
        self.times * of.start()..=self.times * of.end()
    }

    /// The same, made so often.
    #[must_use]
    pub const fn times(self, times: u64) -> Call {
        Call { times, ..self }
    }
}

/// A call with these flags, once for each of what it is made for.
#[must_use]
pub const fn call(name: &'static str, flags: u32, each: Each) -> Call {
    Call {
        name,
        flags,
        times: 1,
        each,
    }
}

/// Flags of send(2).
pub const MSG_NOSIGNAL: u32 = SendFlags::NOSIGNAL.bits();
/// Flags of send(2).
pub const MSG_MORE: u32 = SendFlags::MORE.bits();
/// Flags of send(2).
pub const MSG_ZEROCOPY: u32 = gather::MSG_ZEROCOPY.bits();
/// Flags of splice(2).
pub const SPLICE_F_MOVE: u32 = SpliceFlags::MOVE.bits();
/// Flags of preadv2(2).
pub const RWF_NOWAIT: u32 = ReadWriteFlags::NOWAIT.bits();
