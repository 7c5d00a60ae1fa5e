//! `select`: one thread that waits for all connections by select(2).
//!
//! The oldest way to serve many clients at once (4.2BSD, 1983). The sets of descriptors are arrays of bits
//! that the call overwrites, so that each call gets a copy. Kernel and program go through all bits up to
//! the highest descriptor: a wait costs in proportion to the connections, not to those that are ready.
//! A set has 1,024 bits. Larger descriptors cannot be waited for, whatever RLIMIT_NOFILE is.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use bytecost_sys::readiness::{self, FD_SETSIZE, FdSet};
use rustix::event::epoll::EventFlags;

use super::event_loop::{Readiness, Ready, run};
use crate::servers::{ONE_THREAD, Server, ServerFacts};

pub const SERVER: Server = Server {
    facts: ServerFacts {
        name: "select",
        summary: "one thread for all connections: select goes through all of them each time",
        bound: Some((
            (FD_SETSIZE - OWN_DESCRIPTORS) as u64,
            "a set of select(2) has room for descriptors below FD_SETSIZE (1024), some of \
             which the process needs itself; take poll or epoll for more",
        )),
        scans_all: true,
        descriptors_below: Some(FD_SETSIZE as u32),
        ..ONE_THREAD
    },
    serve: |setup| run(setup, Sets::default()),
};

/// Descriptors that are reserved for files other than connections.
const OWN_DESCRIPTORS: usize = 24;

#[derive(Default)]
struct Sets {
    read: FdSet,
    write: FdSet,
    /// One more than the largest descriptor that was ever in a set.
    end: usize,
}

impl Readiness for Sets {
    fn watch(&mut self, fd: BorrowedFd<'_>, on: bool) -> io::Result<()> {
        self.on_close(fd.as_raw_fd());
        if on { self.add(fd) } else { Ok(()) }
    }

    fn add(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.read.insert(socket)?;
        self.end = self.end.max(socket.as_raw_fd() as usize + 1);
        Ok(())
    }

    fn change(&mut self, socket: BorrowedFd<'_>, flags: EventFlags) -> io::Result<()> {
        self.on_close(socket.as_raw_fd());
        let writes = flags.contains(EventFlags::OUT);
        let set = if writes {
            &mut self.write
        } else {
            &mut self.read
        };
        set.insert(socket)
    }

    fn on_close(&mut self, fd: RawFd) {
        self.read.remove(fd);
        self.write.remove(fd);
    }

    fn wait(&mut self, ready: &mut Vec<Ready>) -> io::Result<()> {
        let (mut read, mut write) = (self.read, self.write);
        match readiness::select(self.end, &mut read, &mut write) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => return Ok(()),
            result => result?,
        };
        ready.extend((0..self.end as RawFd).filter_map(|fd| {
            let mut flags = EventFlags::empty();
            flags.set(EventFlags::IN, read.contains(fd));
            flags.set(EventFlags::OUT, write.contains(fd));
            (!flags.is_empty()).then_some(Ready { fd, flags })
        }));
        Ok(())
    }
}
