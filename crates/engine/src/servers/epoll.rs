//! `epoll`: one thread that asks the kernel which of all connections are ready, by level.
//!
//! The set of connections stays in the kernel, and a wait returns those that are ready: its cost
//! grows with what happens, not with who is there. By level means that a connection is reported
//! for as long as there is something to read, so it need not be emptied at once.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;

use super::guest::Wants;
use super::hall::{ADMITTED_AT_ONCE, Hall, Source};
use crate::server::{ONE_THREAD, Server, ServerFacts, Setup, Tally};

pub const SERVER: Server = Server {
    facts: ServerFacts {
        name: "epoll",
        summary: "one thread for all connections: epoll_wait tells which are ready, by level",
        ..ONE_THREAD
    },
    serve,
};

/// Events that are taken from the kernel at once.
const EVENTS: usize = 256;

fn serve(setup: Setup) -> io::Result<Tally> {
    let mut hall = Hall::new(setup)?;
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    for fd in hall.sources() {
        epoll::add(&epoll, fd, named(fd.as_raw_fd()), EventFlags::IN)?;
    }
    let mut listens = true;
    let mut events: Vec<Event> = Vec::with_capacity(EVENTS);
    while !hall.is_over() {
        match epoll::wait(&epoll, spare_capacity(&mut events), None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
        for event in events.drain(..) {
            let fd = event.data.u64() as RawFd;
            match hall.source(fd) {
                Source::Guest => serve_guest(&mut hall, &epoll, fd, event.flags)?,
                Source::Listener => admit(&mut hall, &epoll)?,
                // A guest who is closed leaves the set by itself.
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

fn admit(hall: &mut Hall, epoll: &OwnedFd) -> io::Result<()> {
    for _ in 0..ADMITTED_AT_ONCE {
        let Some(socket) = hall.admit() else { break };
        let fd = socket.as_raw_fd();
        if epoll::add(epoll, socket, named(fd), EventFlags::IN).is_err() {
            hall.turn_away(fd); // no memory, or fs.epoll.max_user_watches reached
        }
    }
    Ok(())
}

fn serve_guest(hall: &mut Hall, epoll: &OwnedFd, fd: RawFd, had: EventFlags) -> io::Result<()> {
    let wants = hall.serve(fd);
    if wants == Wants::Close {
        return Ok(());
    }
    // Nearly always it goes on to wait for the same, which needs no call. An event that says
    // neither (an error, a hang-up) leaves open what was waited for.
    let waits_to_write = wants.is_to_write();
    let has_changed = if waits_to_write {
        !had.contains(EventFlags::OUT)
    } else {
        !had.contains(EventFlags::IN)
    };
    if has_changed && let Some(socket) = hall.socket(fd) {
        let flags = if waits_to_write {
            EventFlags::OUT
        } else {
            EventFlags::IN
        };
        epoll::modify(epoll, socket, named(fd), flags)?;
    }
    Ok(())
}
