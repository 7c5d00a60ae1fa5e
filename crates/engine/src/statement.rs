//! The statement of a row of the table of movers about itself: the calls by which it moves bytes, the
//! places where they are copied, its requirements. It is written independently of the code that does the
//! work: tests compare the two by the kernel's counts.

use std::ops::RangeInclusive;

use bytecost_spec::evidence::CopyPlace;
use rustix::io::ReadWriteFlags;
use rustix::mm::MapFlags;
use rustix::net::SendFlags;
use rustix::pipe::SpliceFlags;

/// The claims of a mover about itself.
#[derive(Clone, Copy, Debug)]
pub struct Statement {
    /// The calls that move its bytes, and those that go with them; no other could.
    pub calls: &'static [Call],
    /// The places where the kernel copies each byte once: over TCP on one machine, a file from the page cache.
    pub copies: &'static [CopyPlace],
    /// The requirements: it works where all of them are met, and nowhere else.
    pub needs: &'static [Requirement],
}

/// A system call of a kind, or a request of io_uring.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Its name in the kernel: `sendto`, `IORING_OP_SEND`. Tests count a system call if it is in `CALLS`
    /// of `crates/sys/src/call_listener.rs`, and a request if it is in `NAMES` of
    /// `crates/lab/tests/calls/requests.rs`: others count as 0.
    pub name: &'static str,
    /// All of its flags: of setsockopt(2) the option, of requests none, which the kernel keeps.
    pub flags: u32,
    /// Number of calls for each of these units.
    pub times: u64,
    /// The unit that the calls are made for.
    pub each: Each,
}

/// The unit that a call is made for.
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
    /// A pass through the file, at its beginning or end: the first or the last may be missing.
    Pass,
    /// A turn there and back: one for each direction, and a few more that may be the end.
    Turn,
    /// Messages in flight together, all or fewer; at least one call is for more than one of them.
    Several,
    /// Whatever has to be waited for: nothing, or a few for each message.
    Wait,
}

/// A requirement of a mover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// A socket of TCP.
    Tcp,
    /// A receiver that is there, since a program of its own cannot be led to another place.
    Receiver,
    /// A file system that answers at once where it would have to wait (RWF_NOWAIT).
    Nowait,
    /// The page cache, which must not be passed by.
    PageCache,
    /// io_uring, which may be forbidden.
    Uring,
    /// A Linux of at least this version.
    Linux(u32, u32),
    /// A Java development kit.
    Java,
}

/// The amount that was moved.
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
    /// The least and the greatest number of these units in an amount.
    pub fn count(self, moved: &Moved) -> RangeInclusive<u64> {
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
            Each::Several => messages.div_ceil(moved.in_flight)..=messages.saturating_sub(1),
            Each::Wait => 0..=MOST_WAITS * messages,
        }
    }
}

impl Call {
    /// The least and the greatest number of these calls for an amount.
    pub fn count(&self, moved: &Moved) -> RangeInclusive<u64> {
        let units = self.each.count(moved);
        self.times * units.start()..=self.times * units.end()
    }

    /// Returns true for a request of io_uring, which is no call by itself.
    pub fn is_request(&self) -> bool {
        self.name.starts_with("IORING_OP_")
    }

    pub(crate) const fn with(self, flags: u32) -> Call {
        let flags = self.flags | flags;
        Call { flags, ..self }
    }

    pub(crate) const fn each(self, each: Each) -> Call {
        Call { each, ..self }
    }

    /// As often for each.
    pub const fn times(self, times: u64) -> Call {
        Call { times, ..self }
    }
}

impl Statement {
    /// The least and the greatest number of system calls for an amount.
    pub fn count(&self, moved: &Moved) -> RangeInclusive<u64> {
        let (mut least, mut most) = (0, 0);
        for call in self.calls.iter().filter(|call| !call.is_request()) {
            let count = call.count(moved);
            least += count.start();
            most += count.end();
        }
        least..=most
    }

    pub(crate) const fn by(self, calls: &'static [Call]) -> Statement {
        Statement { calls, ..self }
    }

    pub(crate) const fn needing(self, needs: &'static [Requirement]) -> Statement {
        Statement { needs, ..self }
    }
}

/// One call a message, without flags.
pub const fn call(name: &'static str) -> Call {
    Call {
        name,
        flags: 0,
        times: 1,
        each: Each::Message,
    }
}

pub(crate) const URING: &[Requirement] = &[Requirement::Uring];

const fn copied(copies: &'static [CopyPlace]) -> Statement {
    Statement { copies, ..NOTHING }
}

/// Moves nothing, or copies nothing.
pub(crate) const NOTHING: Statement = Statement {
    calls: &[],
    copies: &[],
    needs: &[],
};
/// Copied into the socket, and out of it.
pub(crate) const SENT: Statement = copied(&[CopyPlace::IntoKernel, CopyPlace::ToReader]);
/// Sent from where it lies, which who receives on the same machine cannot hold.
pub(crate) const PINNED: Statement = copied(&[CopyPlace::Delivery, CopyPlace::ToReader]);
/// Pages that the socket refers to.
pub(crate) const TAKEN: Statement = copied(&[CopyPlace::ToReader]);
pub(crate) const READ_AND_SENT: Statement = copied(&[
    CopyPlace::FromFile,
    CopyPlace::IntoKernel,
    CopyPlace::ToReader,
]);
pub(crate) const FROM_FILE: Statement = copied(&[CopyPlace::FromFile]);
pub(crate) const INTO_FILE: Statement = copied(&[CopyPlace::IntoFile]);
pub(crate) const FILE_TO_FILE: Statement = copied(&[CopyPlace::FromFile, CopyPlace::IntoFile]);

pub(crate) const NOSIGNAL: u32 = SendFlags::NOSIGNAL.bits();
pub(crate) const MORE: u32 = SendFlags::MORE.bits();
pub(crate) const ZEROCOPY: u32 = 0x0400_0000;
const ERRQUEUE: u32 = 0x2000;
const DONTWAIT: u32 = 0x40;
/// tcp(7).
const TCP_CORK: u32 = 3;
pub(crate) const NOWAIT: u32 = ReadWriteFlags::NOWAIT.bits();
const GETEVENTS: u32 = 1;
pub(crate) const SQ_WAKEUP: u32 = 2;
const EXT_ARG: u32 = 8;

/// send(2), as the kernel has it.
pub(crate) const SENDTO: Call = call("sendto").with(NOSIGNAL);
/// Asks the error queue which buffers are back.
pub(crate) const COMPLETIONS: Call = call("recvmsg").with(ERRQUEUE | DONTWAIT).each(Each::Wait);
pub(crate) const CORKS: Call = call("setsockopt").with(TCP_CORK).times(2);
pub(crate) const SPLICES: Call = call("splice").with(SpliceFlags::MOVE.bits());
/// Hands requests over and waits for them, for a while.
pub(crate) const ENTER: Call = call("io_uring_enter").with(GETEVENTS | EXT_ARG);
pub(crate) const WAITS: Call = ENTER.each(Each::Wait);
/// Hands requests over and does not wait.
pub(crate) const HANDS_OVER: Call = call("io_uring_enter").each(Each::Several);
/// The call that wakes a kernel thread that polls and has gone to sleep.
pub(crate) const WAKES: Call = call("io_uring_enter").with(SQ_WAKEUP).each(Each::Wait);
/// At the ends of a pass through the file.
pub(crate) const SEEKS: Call = call("lseek").each(Each::Pass);
pub(crate) const SYNCS: Call = call("fdatasync").each(Each::Pass);
pub(crate) const MAPS: Call = call("mmap").with(MapFlags::SHARED.bits()).each(Each::Pass);
pub(crate) const UNMAPS: Call = call("munmap").each(Each::Pass);
