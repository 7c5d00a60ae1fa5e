//! `send-zerocopy`: sendmsg(2) with MSG_ZEROCOPY.
//!
//! The kernel reads the pages after the call has returned, and says on the socket's error queue
//! when it is done with a send, and whether it copied after all. Source:
//! Documentation/networking/msg_zerocopy.rst.

use std::io;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;

use bytecost_spec::cell::Reaping;
use bytecost_spec::survey::Release;
use bytecost_sys::errqueue::{self, Completion};
use bytecost_sys::iovecs::{Iovecs, MSG_ZEROCOPY};
use rustix::net::SendFlags;

use crate::mover::{Move, Mover, MoverFacts, Offer, Open, STREAM, no_progress, retry};
use crate::payload::{Layout, Source};
use crate::setup::Setup;
use crate::statement::{COMPLETIONS, NOSIGNAL, PINNED, Requirement, ZEROCOPY, call};
use crate::tally::Tally;

pub const MOVER: Mover = Mover {
    facts: MoverFacts {
        name: "send-zerocopy",
        summary: "sendmsg(2) with MSG_ZEROCOPY: the kernel pins the fields' pages, and says when they are free and whether it copied after all",
        release: Release::AtCompletion,
        uses_fields: true,
        leaves_completions: true,
        ..STREAM
    },
    states: PINNED
        .by(&[call("sendmsg").with(NOSIGNAL | ZEROCOPY), COMPLETIONS])
        .needing(&[Requirement::Tcp]),
    open: Open::Stream(open),
};

/// Sends that may be outstanding; a power of two, so that the 32-bit counter wraps cleanly.
const MOST_SENDS: u32 = 4096;

/// The wait of a sender that never looks at completions when the kernel has no room.
const WAIT_FOR_ROOM: Duration = Duration::from_micros(1);
/// The most such waits for one send: some seconds, since a wait takes some 50 µs.
const MOST_WAITS: u32 = 100_000;

struct SendZerocopy {
    socket: OwnedFd,
    source: Source,
    gather: Iovecs,
    size: usize,
    patience: Duration,
    reaping: Reaping,
    /// The message under way and how much of it was taken, when ENOBUFS cut it short.
    begun: Option<(usize, usize)>,
    /// Number of the next send, as the kernel counts.
    next_send: u32,
    outstanding: u32,
    /// The slot of each outstanding send, by its number modulo [`MOST_SENDS`].
    slot_of: Vec<u32>,
    /// Sends outstanding of each slot, and whether one of them was copied.
    slots: Vec<Slot>,
    tally: Tally,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    sends: u32,
    whole: bool,
    copied: bool,
}

fn open(mut setup: Setup) -> io::Result<Box<dyn Move>> {
    let socket = setup.take_socket()?;
    errqueue::set_zerocopy(&socket)?;
    let (source, region) = Source::new(&setup, Layout::of_fields(&setup)?)?;
    let gather = Iovecs::new(region, &source.layout().ranges(), setup.fields)?;
    Ok(Box::new(SendZerocopy {
        socket,
        source,
        gather,
        size: setup.size,
        patience: setup.patience,
        reaping: setup.reaping,
        begun: None,
        next_send: 0,
        outstanding: 0,
        slot_of: vec![0; MOST_SENDS as usize],
        slots: vec![Slot::default(); setup.slots],
        tally: Tally::default(),
    }))
}

impl SendZerocopy {
    fn sent(&mut self, slot: usize) {
        self.slot_of[(self.next_send % MOST_SENDS) as usize] = slot as u32;
        self.next_send = self.next_send.wrapping_add(1);
        self.outstanding += 1;
        self.slots[slot].sends += 1;
    }

    /// The kernel has the whole message; its last completion gives the slot back.
    fn taken(&mut self, slot: usize) {
        self.slots[slot].whole = true;
        self.tally.moved(self.size);
        self.tally.held += 1;
    }

    fn done(&mut self, completion: Completion) -> io::Result<()> {
        let sends = completion.sends();
        if sends > self.outstanding {
            let why = "the kernel completed more sends than were made";
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        self.outstanding -= sends;
        if self.reaping != Reaping::Full {
            self.tally.released += u64::from(sends);
            self.tally.copied += u64::from(sends) * u64::from(completion.copied);
            return Ok(());
        }
        for i in 0..sends {
            let number = completion.first.wrapping_add(i);
            let slot = &mut self.slots[self.slot_of[(number % MOST_SENDS) as usize] as usize];
            slot.sends -= 1;
            slot.copied |= completion.copied;
            if slot.sends == 0 && slot.whole {
                self.tally.released += 1;
                self.tally.copied += u64::from(slot.copied);
                *slot = Slot::default();
            }
        }
        Ok(())
    }

    fn collect(&mut self) -> io::Result<()> {
        while self.read_error_queue()? {}
        Ok(())
    }

    /// Reads the error queue once, without waiting; false when it is empty.
    fn read_error_queue(&mut self) -> io::Result<bool> {
        self.tally.calls += 1;
        match errqueue::completion(&self.socket)? {
            Some(completion) => self.done(completion).map(|()| true),
            None => Ok(false),
        }
    }

    fn send(&mut self, slot: usize, done: usize) -> io::Result<usize> {
        self.tally.calls += 1;
        let flags = SendFlags::NOSIGNAL | MSG_ZEROCOPY;
        self.gather.sendmsg(&self.socket, slot, done, flags)
    }

    /// Sends a message and leaves its buffer to be used again at once, though the kernel may
    /// still read it. The same bytes are written there again, so what arrives stays right.
    fn offer_at_once(&mut self) -> io::Result<Offer> {
        let (slot, mut done) = match self.begun.take() {
            Some(begun) => begun,
            None => (self.source.begin(self.gather.bytes_mut()), 0),
        };
        let mut waits = 0;
        while done < self.size {
            match self.send(slot, done) {
                Ok(n) => {
                    done += n;
                    self.outstanding += 1;
                    self.tally.held += 1;
                    if self.reaping == Reaping::OneLook {
                        self.read_error_queue()?;
                    }
                }
                Err(e) if has_no_room(&e) => {
                    self.tally.enobufs += 1;
                    if self.reaping == Reaping::OneLook {
                        // One look was not enough: now it must wait for one.
                        return self.full(slot, done);
                    }
                    waits += 1;
                    if waits > MOST_WAITS {
                        return Err(too_little_room(self.size));
                    }
                    thread::sleep(WAIT_FOR_ROOM);
                }
                Err(e) => retry(e)?,
            }
        }
        self.tally.moved(self.size);
        Ok(Offer::Held)
    }

    /// The message is to be gone on with when a completion was taken.
    fn full(&mut self, slot: usize, done: usize) -> io::Result<Offer> {
        if self.outstanding == 0 {
            return Err(too_little_room(self.size));
        }
        self.begun = Some((slot, done));
        Ok(Offer::Full)
    }
}

impl Move for SendZerocopy {
    fn offer(&mut self) -> io::Result<Offer> {
        if self.reaping != Reaping::Full {
            return self.offer_at_once();
        }
        let (slot, mut done) = match self.begun.take() {
            Some(begun) => begun,
            None => {
                if self.slots[self.source.next_slot()].sends > 0 || self.outstanding == MOST_SENDS {
                    return Ok(Offer::Full);
                }
                (self.source.begin(self.gather.bytes_mut()), 0)
            }
        };
        while done < self.size {
            if self.outstanding == MOST_SENDS {
                self.begun = Some((slot, done));
                return Ok(Offer::Full);
            }
            match self.send(slot, done) {
                Ok(n) => {
                    done += n;
                    self.sent(slot);
                }
                Err(e) if has_no_room(&e) => {
                    self.tally.enobufs += 1;
                    return self.full(slot, done);
                }
                Err(e) => retry(e)?,
            }
        }
        self.taken(slot);
        Ok(Offer::Held)
    }

    fn reap(&mut self, min: u32) -> io::Result<()> {
        let goal = self.outstanding.saturating_sub(min);
        self.collect()?;
        while self.outstanding > goal {
            self.tally.calls += 1;
            if !errqueue::wait(&self.socket, self.patience)? {
                return Err(no_progress());
            }
            let before = self.outstanding;
            self.collect()?;
            if self.outstanding == before {
                // POLLERR without a completion: the connection itself has an error.
                rustix::net::sockopt::socket_error(&self.socket)??;
                let why = "the peer is gone";
                return Err(io::Error::new(io::ErrorKind::ConnectionReset, why));
            }
        }
        Ok(())
    }

    fn tally(&self) -> Tally {
        self.tally
    }
}

/// ENOBUFS: the kernel cannot note another zero-copy send.
fn has_no_room(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error())
}

fn too_little_room(size: usize) -> io::Error {
    let why = format!(
        "not even one zero-copy send of {size} bytes may be outstanding (ENOBUFS): raise the locked-memory limit (`ulimit -l`) or net.core.optmem_max"
    );
    io::Error::new(io::ErrorKind::OutOfMemory, why)
}
