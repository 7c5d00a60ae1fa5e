//! The table of movers: each row a way to send a message, each in a file of its own.
//!
//! A new mover is one file under `movers/` and two lines here: its `mod` and its row.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use bytecost_spec::cell::Reaping;
use bytecost_spec::survey::{MoverFacts, Release};

use crate::pattern::Pattern;

mod null;
mod send;
mod send_fields;
mod send_more;
mod send_zerocopy;
mod sendfile;
mod sendmsg;
mod splice;
mod uring_send;
mod uring_send_zc;
mod vmsplice;
mod writev;

/// All movers, in the order of the documentation. The first says what the loop itself costs.
pub const MOVERS: &[Mover] = &[
    null::MOVER,
    send::MOVER,
    send_fields::MOVER,
    send_more::MOVER,
    writev::MOVER,
    sendmsg::MOVER,
    send_zerocopy::MOVER,
    sendfile::MOVER,
    splice::MOVER,
    vmsplice::MOVER,
    uring_send::MOVER,
    uring_send_zc::MOVER,
];

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Mover {
    /// The system call and its flags.
    pub name: &'static str,
    /// What it does, in one sentence.
    pub summary: &'static str,
    /// From where to where.
    pub route: Route,
    /// When a buffer may be written again.
    pub release: Release,
    /// Whether a message is sent from `Setup::fields` pieces of memory.
    pub uses_fields: bool,
    /// Payload memory that stays locked, as a multiple of the ring.
    pub locks_rings: u32,
    /// File descriptors of one flow.
    pub descriptors_per_flow: u32,
    /// Whether it can use a buffer again although its completion was not taken.
    pub leaves_completions: bool,
    /// A weakness that every report must tell.
    pub caution: Option<&'static str>,
    /// Makes it ready. To be called by the thread that will use it.
    pub open: fn(Setup) -> io::Result<Box<dyn Move>>,
}

/// The two ends of a mover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Nothing is moved.
    Nowhere,
    /// From memory to a socket.
    MemoryToSocket,
    /// From a file to a socket.
    FileToSocket,
}

/// What a mover is made from.
#[derive(Debug)]
pub struct Setup {
    /// A connected, blocking stream socket; none for [`Route::Nowhere`].
    pub socket: Option<OwnedFd>,
    /// Bytes of a message.
    pub size: usize,
    /// Pieces of a message, for movers that use fields.
    pub fields: usize,
    /// Messages in the payload ring.
    pub slots: usize,
    /// Number of the flow, which decides the content.
    pub flow: u32,
    /// Write each message anew before it is sent, where [`Release`] allows it.
    pub fresh: bool,
    /// Fill every field with one byte before each message is sent.
    pub refill: bool,
    /// What is done about completions, where there are any.
    pub reaping: Reaping,
    /// How long a call may go without progress before it fails.
    pub patience: Duration,
}

impl Setup {
    /// The content of the stream. A mover whose buffers never come back cannot write them anew.
    #[must_use]
    pub fn pattern(&self, fresh: bool) -> Pattern {
        if self.refill {
            return Pattern::constant(self.flow);
        }
        Pattern::new(
            self.flow,
            if fresh {
                0
            } else {
                self.size as u64 * self.slots as u64
            },
        )
    }

    /// For movers whose payload must not change while it is in flight: it is written once.
    ///
    /// # Errors
    /// `InvalidInput` where it should be filled anew before each message all the same.
    pub fn write_once(&mut self) -> io::Result<()> {
        self.fresh = false;
        if self.refill {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "this mover cannot fill its messages anew: nothing tells when they were read",
            ));
        }
        Ok(())
    }

    /// The socket, for movers that need one.
    ///
    /// # Errors
    /// `InvalidInput` where there is none.
    pub fn take_socket(&mut self) -> io::Result<OwnedFd> {
        self.socket
            .take()
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "this mover needs a socket"))
    }
}

/// What became of an offered message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// The kernel has it, and the buffer is free again.
    Moved,
    /// The kernel has it, but still reads the buffer.
    Held,
    /// It waits for [`Move::flush`] or [`Move::reap`].
    Queued,
    /// Not taken: [`Move::reap`] first.
    Full,
}

/// What a mover has done so far; every number only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Messages that the kernel has taken whole.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// System calls, those for completions included.
    pub calls: u64,
    /// Buffers that the kernel kept after it had taken the message; where completions are left
    /// lying, each send is one.
    pub held: u64,
    /// Of these, buffers that came back.
    pub released: u64,
    /// Of these, buffers that the kernel says it copied after all.
    pub copied: u64,
    /// Sends that the kernel had no room to note (ENOBUFS).
    pub enobufs: u64,
}

/// A mover at work. All calls come from one thread.
pub trait Move {
    /// Sends the next message, all of it.
    ///
    /// # Errors
    /// What the system call answers; `TimedOut` when nothing moved for as long as
    /// `Setup::patience`.
    fn offer(&mut self) -> io::Result<Offer>;

    /// Makes the kernel take all that is queued.
    ///
    /// # Errors
    /// As [`Move::offer`].
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Takes back what is done, and waits until at least `min` messages or buffers are; none
    /// may be outstanding, then it returns at once.
    ///
    /// # Errors
    /// As [`Move::offer`].
    fn reap(&mut self, min: u32) -> io::Result<()> {
        let _ = min;
        Ok(())
    }

    /// What was done so far.
    fn tally(&self) -> Tally;
}

impl Mover {
    /// The row of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Mover> {
        MOVERS.iter().find(|m| m.name == name)
    }

    /// Whether it has a peer.
    #[must_use]
    pub fn has_peer(&self) -> bool {
        self.route != Route::Nowhere
    }

    /// Whether each message can be written anew, so that a buffer used too early shows.
    #[must_use]
    pub fn can_be_fresh(&self) -> bool {
        self.has_peer() && self.release != Release::Never
    }

    /// Whether it sends from memory that can be filled before each message.
    #[must_use]
    pub fn can_refill(&self) -> bool {
        self.route == Route::MemoryToSocket && self.can_be_fresh()
    }

    /// The row as values.
    #[must_use]
    pub fn facts(&self) -> MoverFacts {
        MoverFacts {
            name: self.name.to_owned(),
            summary: self.summary.to_owned(),
            release: self.release,
            uses_fields: self.uses_fields,
            has_peer: self.has_peer(),
            locks_rings: self.locks_rings,
            descriptors_per_flow: self.descriptors_per_flow,
            can_refill: self.can_refill(),
            leaves_completions: self.leaves_completions,
            caution: self.caution.map(str::to_owned),
        }
    }
}

/// Calls until the whole message is moved: a call is not a message.
fn finish(
    size: usize,
    tally: &mut Tally,
    mut call: impl FnMut(usize) -> io::Result<usize>,
) -> io::Result<()> {
    let mut done = 0;
    while done < size {
        tally.calls += 1;
        match call(done) {
            Ok(0) => {
                return Err(io::Error::new(
                    io::ErrorKind::WriteZero,
                    "the socket takes no more bytes",
                ));
            }
            Ok(n) => done += n,
            Err(e) => retry(e)?,
        }
    }
    tally.messages += 1;
    tally.bytes += size as u64;
    Ok(())
}

/// An interrupted call is made again; one that ran into the socket's timeout says so.
fn retry(error: io::Error) -> io::Result<()> {
    match error.kind() {
        io::ErrorKind::Interrupted => Ok(()),
        io::ErrorKind::WouldBlock => Err(no_progress()),
        _ => Err(error),
    }
}

fn no_progress() -> io::Error {
    io::Error::new(
        io::ErrorKind::TimedOut,
        "no byte moved for as long as patience lasts: does the receiver still read?",
    )
}
