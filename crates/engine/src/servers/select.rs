//! `select`: one thread that shows the kernel all connections and asks which are ready.
//!
//! The oldest way to serve many at once (4.2BSD, 1983). Sets are arrays of bits that the call
//! overwrites, so a copy is handed over each time, and kernel and program go through all numbers
//! up to the highest: a wait costs in proportion to who is there, not to what happens. And they
//! have 1,024 bits. What lies beyond cannot be waited for, whatever the descriptor limit says.

use std::io;
use std::os::fd::{AsRawFd, RawFd};

use bytecost_sys::readiness::{self, FD_SETSIZE, FdSet};

use super::guest::Wants;
use super::hall::{ADMITTED_AT_ONCE, Hall, Source};
use crate::server::{ONE_THREAD, Server, ServerFacts, Setup, Tally};

pub const SERVER: Server = Server {
    facts: ServerFacts {
        name: "select",
        summary: "one thread for all connections: select goes through all of them each time",
        bound: Some((
            (FD_SETSIZE - OWN_DESCRIPTORS) as u64,
            "a set of select(2) has room for descriptors below FD_SETSIZE (1024), some of \
                 which the process needs itself; take poll or epoll for more",
        )),
        ..ONE_THREAD
    },
    serve,
};

/// Descriptors that are left for everything but connections.
const OWN_DESCRIPTORS: usize = 24;

/// Who waits for what.
#[derive(Clone, Default)]
struct Sets {
    read: FdSet,
    write: FdSet,
    /// One more than the highest number that ever was in.
    end: usize,
}

impl Sets {
    fn forget(&mut self, fd: RawFd) {
        self.read.remove(fd);
        self.write.remove(fd);
    }
}

fn serve(setup: Setup) -> io::Result<Tally> {
    let mut hall = Hall::new(setup)?;
    let mut sets = Sets::default();
    for fd in hall.sources() {
        sets.read.insert(fd)?;
        sets.end = sets.end.max(fd.as_raw_fd() as usize + 1);
    }
    while !hall.is_over() {
        let mut ready = sets.clone();
        match readiness::select(sets.end, &mut ready.read, &mut ready.write) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            result => result?,
        };
        for fd in 0..sets.end as RawFd {
            if !ready.read.contains(fd) && !ready.write.contains(fd) {
                continue;
            }
            match hall.source(fd) {
                Source::Guest => serve_guest(&mut hall, &mut sets, fd)?,
                Source::Listener => admit(&mut hall, &mut sets),
                Source::Ticker => hall.tick().into_iter().for_each(|fd| sets.forget(fd)),
                Source::Stop => {
                    sets.forget(fd);
                    if let Some(listener) = hall.listener() {
                        sets.forget(listener.as_raw_fd());
                    }
                    hall.begin_stop()?;
                }
            }
        }
        if let Some(listener) = hall.listener() {
            if hall.listens() {
                sets.read.insert(listener)?;
            } else {
                sets.read.remove(listener.as_raw_fd());
            }
        }
    }
    Ok(hall.tally())
}

fn admit(hall: &mut Hall, sets: &mut Sets) {
    for _ in 0..ADMITTED_AT_ONCE {
        let Some(socket) = hall.admit() else { break };
        let fd = socket.as_raw_fd();
        match sets.read.insert(socket) {
            Ok(()) => sets.end = sets.end.max(fd as usize + 1),
            Err(_) => hall.turn_away(fd),
        }
    }
}

fn serve_guest(hall: &mut Hall, sets: &mut Sets, fd: RawFd) -> io::Result<()> {
    let wants = hall.serve(fd);
    sets.forget(fd);
    match hall.socket(fd).filter(|_| wants != Wants::Close) {
        Some(socket) if wants.is_to_write() => sets.write.insert(socket),
        Some(socket) => sets.read.insert(socket),
        None => Ok(()),
    }
}
