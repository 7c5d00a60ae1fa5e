//! `poll`: one thread that shows the kernel all connections and asks which are ready.
//!
//! As select does (System V Release 3, 1986), but with an array that has an entry for each
//! connection: there is no highest number, the array is not overwritten, and only those who are
//! there are gone through. A wait still costs in proportion to who is there.

use std::io;
use std::os::fd::{AsRawFd, RawFd};

use bytecost_sys::readiness::{Interest, PollSet};

use super::guest::Wants;
use super::hall::{ADMITTED_AT_ONCE, Hall, Source};
use crate::server::{ONE_THREAD, Server, ServerFacts, Setup, Tally};

pub const SERVER: Server = Server {
    facts: ServerFacts {
        name: "poll",
        summary: "one thread for all connections: poll goes through all of them each time",
        ..ONE_THREAD
    },
    serve,
};

fn serve(setup: Setup) -> io::Result<Tally> {
    let mut hall = Hall::new(setup)?;
    let mut set = PollSet::new();
    for fd in hall.sources() {
        set.set(fd, Interest::Read);
    }
    let mut ready: Vec<RawFd> = Vec::new();
    while !hall.is_over() {
        match set.wait() {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            result => result?,
        };
        ready.clear();
        ready.extend(set.ready());
        for &fd in &ready {
            match hall.source(fd) {
                Source::Guest => serve_guest(&mut hall, &mut set, fd),
                Source::Listener => admit(&mut hall, &mut set),
                Source::Ticker => hall.tick().into_iter().for_each(|fd| set.remove(fd)),
                Source::Stop => {
                    set.remove(fd);
                    if let Some(listener) = hall.listener() {
                        set.remove(listener.as_raw_fd());
                    }
                    hall.begin_stop()?;
                }
            }
        }
        if let Some(listener) = hall.listener() {
            if hall.listens() {
                set.set(listener, Interest::Read);
            } else {
                set.remove(listener.as_raw_fd());
            }
        }
    }
    Ok(hall.tally())
}

fn admit(hall: &mut Hall, set: &mut PollSet) {
    for _ in 0..ADMITTED_AT_ONCE {
        match hall.admit() {
            Some(socket) => set.set(socket, Interest::Read),
            None => break,
        }
    }
}

fn serve_guest(hall: &mut Hall, set: &mut PollSet, fd: RawFd) {
    let wants = hall.serve(fd);
    match hall.socket(fd).filter(|_| wants != Wants::Close) {
        Some(socket) if wants.is_to_write() => set.set(socket, Interest::Write),
        Some(socket) => set.set(socket, Interest::Read),
        None => set.remove(fd),
    }
}
