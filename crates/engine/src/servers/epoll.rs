//! `epoll`: one thread that asks the kernel which of all connections are ready, by level.
//!
//! The set of connections stays in the kernel, and a wait returns those that are ready: its cost
//! grows with what happens, not with who is there. By level means that a connection is reported
//! for as long as there is something to read, so it need not be emptied at once.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;

use super::event_loop::{Readiness, Ready, run};
use crate::servers::{ONE_THREAD, Server, ServerFacts};

pub const SERVER: Server = Server {
    facts: ServerFacts {
        name: "epoll",
        summary: "one thread for all connections: epoll_wait reports those that are ready, level-triggered",
        ..ONE_THREAD
    },
    serve: |setup| run(setup, Epoll::new()?),
};

const EVENTS: usize = 256;

/// A set of the kernel's. Descriptors that are closed leave it by themselves.
pub(super) struct Epoll {
    set: OwnedFd,
    events: Vec<Event>,
}

impl Epoll {
    pub(super) fn new() -> io::Result<Epoll> {
        Ok(Epoll {
            set: epoll::create(CreateFlags::CLOEXEC)?,
            events: Vec::with_capacity(EVENTS),
        })
    }

    /// Adds a descriptor, whose number its events carry.
    pub(super) fn put(&self, fd: BorrowedFd<'_>, flags: EventFlags) -> io::Result<()> {
        Ok(epoll::add(&self.set, fd, named(fd), flags)?)
    }

    /// Waits for as long as `timeout`, without end where there is none.
    pub(super) fn wait_for(
        &mut self,
        timeout: Option<&Timespec>,
        ready: &mut Vec<Ready>,
    ) -> io::Result<()> {
        match epoll::wait(&self.set, spare_capacity(&mut self.events), timeout) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
        ready.extend(self.events.drain(..).map(|event| Ready {
            fd: event.data.u64() as RawFd,
            flags: event.flags,
        }));
        Ok(())
    }
}

fn named(fd: BorrowedFd<'_>) -> EventData {
    EventData::new_u64(fd.as_raw_fd() as u64)
}

impl Readiness for Epoll {
    fn watch(&mut self, fd: BorrowedFd<'_>, on: bool) -> io::Result<()> {
        if on {
            self.put(fd, EventFlags::IN)
        } else {
            Ok(epoll::delete(&self.set, fd)?)
        }
    }

    fn change(&mut self, socket: BorrowedFd<'_>, flags: EventFlags) -> io::Result<()> {
        Ok(epoll::modify(&self.set, socket, named(socket), flags)?)
    }

    fn wait(&mut self, ready: &mut Vec<Ready>) -> io::Result<()> {
        self.wait_for(None, ready)
    }
}
