//! `epoll-edge`: one thread that the kernel tells of each change once, by edge.
//!
//! A connection is put into the set once, for reading and writing, and never changed. An event
//! says that something has come or that room has been made since the last; who does not read on
//! until nothing is left is not told again. So each connection must be emptied, and since one
//! that never runs dry must not hold up the others, it is put at the end of a queue after a few
//! turns.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{BorrowedFd, RawFd};

use rustix::event::Timespec;
use rustix::event::epoll::EventFlags;

use super::connection::Wants;
use super::epoll::Epoll;
use super::event_loop::{EventLoop, Readiness, Ready, run};
use crate::servers::{ONE_THREAD, Server, ServerFacts};

pub const SERVER: Server = Server {
    facts: ServerFacts {
        name: "epoll-edge",
        summary: "one thread for all connections: epoll_wait reports each change once, edge-triggered",
        ..ONE_THREAD
    },
    serve: |setup| {
        let set = Epoll::new()?;
        let queue = VecDeque::new();
        run(setup, Edges { set, queue })
    },
};

/// What says that the stream ends.
const ENDS: EventFlags = EventFlags::RDHUP
    .union(EventFlags::HUP)
    .union(EventFlags::ERR);
/// Turns of one connection before the others have theirs.
const TURNS: u32 = 8;

struct Edges {
    /// The server's own descriptors are in it by level: the listener is not emptied at once.
    set: Epoll,
    /// Who has had their turns and may have more to say.
    queue: VecDeque<RawFd>,
}

impl Readiness for Edges {
    fn watch(&mut self, fd: BorrowedFd<'_>, on: bool) -> io::Result<()> {
        self.set.watch(fd, on)
    }

    fn add(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        let changes = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        self.set.put(socket, changes)
    }

    fn change(&mut self, _: BorrowedFd<'_>, _: EventFlags) -> io::Result<()> {
        Ok(())
    }

    fn wait(&mut self, ready: &mut Vec<Ready>) -> io::Result<()> {
        let at_once = Timespec::default();
        let timeout = (!self.queue.is_empty()).then_some(&at_once);
        // No edge would tell of them again.
        let queued = self.queue.drain(..).map(|fd| Ready { fd, flags: ENDS });
        ready.extend(queued);
        self.set.wait_for(timeout, ready)
    }

    /// Serves a connection until nothing is left. A read that did not fill the buffer says that
    /// nothing is (one call less a request), but not where the end has come with the rest: no edge
    /// would tell of it again.
    fn serve(&mut self, connections: &mut EventLoop, at: Ready) -> io::Result<()> {
        let ends = at.flags.intersects(ENDS);
        for _ in 0..TURNS {
            match connections.serve(at.fd) {
                Wants::More | Wants::Turn => {}
                Wants::Heard if ends => {}
                // What comes later is a new edge.
                Wants::Read | Wants::Heard | Wants::Write | Wants::Close => return Ok(()),
            }
        }
        if !self.queue.contains(&at.fd) {
            self.queue.push_back(at.fd);
        }
        Ok(())
    }
}
