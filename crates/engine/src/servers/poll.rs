//! `poll`: one thread that waits for all connections by poll(2).
//!
//! It is like select (System V Release 3, 1986), but with an array that has an entry for each connection:
//! there is no largest descriptor, and the call does not overwrite the events that are waited for. A
//! wait still costs in proportion to the connections.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use bytecost_sys::readiness::PollSet;
use rustix::event::epoll::EventFlags;

use super::event_loop::{Readiness, Ready, run};
use crate::servers::{ONE_THREAD, Server, ServerFacts};

pub const SERVER: Server = Server {
    facts: ServerFacts {
        name: "poll",
        summary: "one thread for all connections: poll goes through all of them each time",
        scans_all: true,
        ..ONE_THREAD
    },
    serve: |setup| run(setup, PollSet::default()),
};

impl Readiness for PollSet {
    fn watch(&mut self, fd: BorrowedFd<'_>, on: bool) -> io::Result<()> {
        if on {
            self.set(fd, EventFlags::IN);
        } else {
            self.remove(fd.as_raw_fd());
        }
        Ok(())
    }

    fn change(&mut self, socket: BorrowedFd<'_>, flags: EventFlags) -> io::Result<()> {
        self.set(socket, flags);
        Ok(())
    }

    fn on_close(&mut self, fd: RawFd) {
        self.remove(fd);
    }

    fn wait(&mut self, ready: &mut Vec<Ready>) -> io::Result<()> {
        match PollSet::wait(self) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => return Ok(()),
            result => result?,
        };
        // Without flags the events to wait for are always set again, which is a store to the array.
        let flags = EventFlags::empty();
        ready.extend(self.ready().map(|fd| Ready { fd, flags }));
        Ok(())
    }
}
