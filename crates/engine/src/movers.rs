//! The table of movers: each row a way to send a message, each in a file of its own.
//!
//! A new mover is one file under `movers/` and two lines here: its `mod` and its row.

use std::io;

use bytecost_spec::Held;
use bytecost_spec::survey::MoverFacts;
pub use bytecost_spec::survey::{InFlight, Release, Route};

pub use crate::setup::{FileWork, Setup};

mod copy_file_range;
mod copying;
mod java;
mod libaio;
mod memcpy;
mod mmap_send;
mod mmap_touch;
mod null;
mod ping;
#[cfg(feature = "planted")]
mod planted;
mod posix_aio;
mod pread;
mod preadv2;
mod preadv2_nowait;
mod pwrite;
mod queued;
mod read;
mod read_null;
mod read_write;
mod read_write_file;
mod reading;
mod relay;
mod send;
mod send_fields;
mod send_more;
mod send_zerocopy;
mod sendfile;
mod sendfile_cork;
mod sendfile_null;
mod sendmsg;
mod sent_file;
mod splice;
mod splice_file;
mod uring_read;
mod uring_read_fixed;
mod uring_read_send;
mod uring_send;
mod uring_send_zc;
mod uring_splice;
mod uring_sqpoll;
mod uring_write;
mod vmsplice;
mod waking;
mod work;
mod write;
mod writev;
mod writing;

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
    sendfile_cork::MOVER,
    splice::MOVER,
    vmsplice::MOVER,
    uring_send::MOVER,
    uring_send_zc::MOVER,
    read_write::MOVER,
    mmap_send::MOVER,
    uring_splice::MOVER,
    uring_read_send::MOVER,
    java::STREAM,
    java::TRANSFER_TO,
    read::MOVER,
    pread::MOVER,
    preadv2::MOVER,
    preadv2_nowait::MOVER,
    mmap_touch::MOVER,
    posix_aio::MOVER,
    libaio::MOVER,
    uring_read::MOVER,
    uring_read_fixed::MOVER,
    uring_sqpoll::MOVER,
    write::MOVER,
    write::WITH_FDATASYNC,
    pwrite::MOVER,
    pwrite::WITH_FDATASYNC,
    uring_write::MOVER,
    uring_write::WITH_FDATASYNC,
    work::INTEGER,
    work::FLOAT,
    work::CHASE,
    work::TRIAD,
    work::SEQUENTIAL,
    work::BACKWARD,
    work::STRIDED,
    work::RANDOM,
    ping::CACHE_LINE,
    ping::FUTEX,
    ping::PIPE,
    ping::UNIX,
    ping::TCP,
    waking::MOVER,
    waking::WITH_WORK,
    read_null::MOVER,
    sendfile_null::MOVER,
    read_write_file::MOVER,
    copy_file_range::MOVER,
    splice_file::MOVER,
    memcpy::MOVER,
    #[cfg(feature = "planted")]
    planted::SEND_1,
    #[cfg(feature = "planted")]
    planted::SEND_2,
    #[cfg(feature = "planted")]
    planted::SEND_3,
    #[cfg(feature = "planted")]
    planted::PREAD_PLUS_5,
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
    /// How many requests it can have in flight, and who carries them out.
    pub in_flight: InFlight,
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
    /// Requests that the page cache could not serve at once and that were made again (EAGAIN).
    pub misses: u64,
}

impl Tally {
    /// What was done since an earlier tally of the same mover.
    #[must_use]
    pub fn since(&self, earlier: &Tally) -> Tally {
        self.with(earlier, u64::wrapping_sub)
    }

    /// Two of them together.
    #[must_use]
    pub fn plus(&self, other: &Tally) -> Tally {
        self.with(other, u64::wrapping_add)
    }

    fn with(&self, other: &Tally, f: fn(u64, u64) -> u64) -> Tally {
        Tally {
            messages: f(self.messages, other.messages),
            bytes: f(self.bytes, other.bytes),
            calls: f(self.calls, other.calls),
            held: f(self.held, other.held),
            released: f(self.released, other.released),
            copied: f(self.copied, other.copied),
            enobufs: f(self.enobufs, other.enobufs),
            misses: f(self.misses, other.misses),
        }
    }
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

    /// Of a mover of files: the place of the request that was offered last, below the depth.
    fn place(&self) -> usize {
        0
    }

    /// Of a mover of files: the place of a queued request that is over, each told once.
    ///
    /// # Errors
    /// What became of a request that failed.
    fn finished(&mut self) -> io::Result<Option<usize>> {
        Ok(None)
    }

    /// Shows the request that was over last in a place, as long as the place is not used again:
    /// its offset in the file, and its first bytes, at most `most`.
    fn look(&self, place: usize, most: usize, see: &mut dyn FnMut(u64, &[u8])) {
        let _ = (place, most, see);
    }

    /// The process that does the work, where that is another one: its CPU time is the mover's.
    fn helper(&self) -> Option<u32> {
        None
    }

    /// Of a ping-pong that is over: where the other thread was held.
    fn partner(&self) -> Option<Held> {
        None
    }

    /// Of a mover that does something at each beat: the time from one beat to the next, in ns. The
    /// caller sleeps until a beat, and offers then.
    fn beat_ns(&self) -> Option<u64> {
        None
    }

    /// Lets go of pages of the file, so that they can be dropped from the page cache. Nothing is
    /// in flight.
    ///
    /// # Errors
    /// What the system call answers.
    fn let_go(&mut self) -> io::Result<()> {
        Ok(())
    }
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
        self.route.has_peer()
    }

    /// Whether it starts a program that does the work.
    #[must_use]
    pub fn is_helped(&self) -> bool {
        self.in_flight == InFlight::OneByProcess
    }

    /// Whether it moves nothing: it tells what the loop costs.
    #[must_use]
    pub fn moves_nothing(&self) -> bool {
        self.route == Route::Nowhere
    }

    /// Whether it sleeps until the next beat after each message ([`Move::beat_ns`]).
    #[must_use]
    pub fn wakes(&self) -> bool {
        [waking::MOVER.name, waking::WITH_WORK.name].contains(&self.name)
    }

    /// Whether each message can be written anew, so that a buffer used too early shows.
    #[must_use]
    pub fn can_be_fresh(&self) -> bool {
        self.route == Route::MemoryToSocket && self.release != Release::Never
    }

    /// Whether it sends from memory that can be filled before each message.
    #[must_use]
    pub fn can_refill(&self) -> bool {
        self.can_be_fresh()
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
            route: self.route,
            in_flight: self.in_flight,
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
