//! `epoll-edge`: one thread that the kernel tells of each change once, by edge.
//!
//! A connection is put into the set once, for reading and writing, and never changed. An event
//! says that something has come or that room has been made since the last; who does not read on
//! until nothing is left is not told again. So each connection must be emptied, and since one
//! that never runs dry must not hold up the others, it is put at the end of a queue after a few
//! turns.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;

use super::guest::Wants;
use super::hall::{ADMITTED_AT_ONCE, Hall, Source};
use crate::server::{ONE_THREAD, Server, ServerFacts, Setup, Tally};

pub const SERVER: Server = Server {
    facts: ServerFacts {
        name: "epoll-edge",
        summary: "one thread for all connections: epoll_wait tells of each change once, by edge",
        ..ONE_THREAD
    },
    serve,
};

/// Events that are taken from the kernel at once.
const EVENTS: usize = 256;
/// What says that the stream ends.
const ENDS: EventFlags = EventFlags::RDHUP
    .union(EventFlags::HUP)
    .union(EventFlags::ERR);
/// Turns of one connection before the others have theirs.
const TURNS: u32 = 8;

fn serve(setup: Setup) -> io::Result<Tally> {
    let mut hall = Hall::new(setup)?;
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    for fd in hall.sources() {
        // These by level: the listener is not emptied at once.
        epoll::add(&epoll, fd, named(fd.as_raw_fd()), EventFlags::IN)?;
    }
    let mut listens = true;
    let mut events: Vec<Event> = Vec::with_capacity(EVENTS);
    // Who has had their turns and may have more to say.
    let mut queue: VecDeque<RawFd> = VecDeque::new();
    while !hall.is_over() {
        let at_once = Timespec::default();
        let timeout = (!queue.is_empty()).then_some(&at_once);
        match epoll::wait(&epoll, spare_capacity(&mut events), timeout) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
        for _ in 0..queue.len() {
            if let Some(fd) = queue.pop_front() {
                serve_guest(&mut hall, &mut queue, fd, true);
            }
        }
        for event in events.drain(..) {
            let fd = event.data.u64() as RawFd;
            match hall.source(fd) {
                Source::Guest => {
                    let flags = event.flags;
                    serve_guest(&mut hall, &mut queue, fd, flags.intersects(ENDS));
                }
                Source::Listener => admit(&mut hall, &epoll),
                Source::Ticker => drop(hall.tick()),
                Source::Stop => {
                    epoll::delete(&epoll, hall.stop_signal())?;
                    hall.begin_stop()?;
                }
            }
        }
        if hall.listens() != listens {
            listens = hall.listens();
            let flags = if listens {
                EventFlags::IN
            } else {
                EventFlags::empty()
            };
            if let Some(listener) = hall.listener() {
                epoll::modify(&epoll, listener, named(listener.as_raw_fd()), flags)?;
            }
        }
    }
    Ok(hall.tally())
}

/// What an event carries: the number of its descriptor.
fn named(fd: RawFd) -> EventData {
    EventData::new_u64(fd as u64)
}

fn admit(hall: &mut Hall, epoll: &OwnedFd) {
    let changes = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
    for _ in 0..ADMITTED_AT_ONCE {
        let Some(socket) = hall.admit() else { break };
        let fd = socket.as_raw_fd();
        if epoll::add(epoll, socket, named(fd), changes).is_err() {
            hall.turn_away(fd); // no memory, or fs.epoll.max_user_watches reached
        }
    }
}

/// Serves a guest until nothing is left. A read that did not fill the buffer says that nothing
/// is (one call less a request), but not where the end has come with the rest: no edge would tell
/// of it again.
fn serve_guest(hall: &mut Hall, queue: &mut VecDeque<RawFd>, fd: RawFd, ends: bool) {
    for _ in 0..TURNS {
        match hall.serve(fd) {
            Wants::More | Wants::Turn => {}
            Wants::Heard if ends => {}
            // What comes later is a new edge.
            Wants::Read | Wants::Heard | Wants::Write | Wants::Close => return,
        }
    }
    if !queue.contains(&fd) {
        queue.push_back(fd);
    }
}
