//! The common part of models with one thread and non-blocking sockets: connections, listener, clock and
//! the loop of a server that learns of ready sockets, each model in its own way ([`Readiness`]).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::event::epoll::EventFlags;
use rustix::net::SocketFlags;

use super::accepted::Accepted;
use super::address_limit::AddressLimit;
use super::connection::{Connection, Wants};
use super::conversation::Worker;
use super::ticker::Ticker;
use crate::servers::{Limits, ServerSetup, ServerTally};

/// Connections that are taken before those that are there are served again.
pub(super) const ACCEPTED_AT_ONCE: usize = 64;
/// One tick more than these closes a client, so that it has its time and at most a quarter more.
const TICKS_OF_PATIENCE: u32 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    /// Nothing is accepted, and all connections end when they have their answers.
    Stopping,
    /// The time for that is over.
    Over,
}

/// By the descriptor's number: the kernel gives the lowest free one, as good as a table of our own.
pub(super) struct EventLoop {
    listener: Option<OwnedFd>,
    stop: OwnedFd,
    ticker: Ticker,
    connections: Vec<Option<Connection>>,
    addresses: AddressLimit,
    open: usize,
    /// Without room connections are not taken until one leaves or a tick has passed: the listener
    /// would stay ready, and asking it again and again would use up the CPU.
    has_room: bool,
    phase: Phase,
    limits: Limits,
    worker: Worker,
}

impl EventLoop {
    fn new(setup: ServerSetup) -> io::Result<EventLoop> {
        let worker = Worker::new(&setup);
        rustix::io::ioctl_fionbio(&setup.listener, true)?;
        Ok(EventLoop {
            addresses: AddressLimit::new(&setup.limits),
            ticker: Ticker::new(setup.limits.tick())?,
            listener: Some(setup.listener),
            stop: setup.stop,
            connections: Vec::new(),
            open: 0,
            has_room: true,
            phase: Phase::Open,
            limits: setup.limits,
            worker,
        })
    }

    fn listener(&self) -> Option<BorrowedFd<'_>> {
        self.listener.as_ref().map(AsFd::as_fd)
    }

    /// Takes a connection, if one waits and there is room.
    fn accept(&mut self) -> Option<BorrowedFd<'_>> {
        let listener = self.listener.as_ref().filter(|_| self.has_room)?;
        if self.open >= self.limits.connections {
            return self.put_off();
        }
        let socket = match Accepted::take(listener, SocketFlags::NONBLOCK) {
            Accepted::Socket(socket) => socket,
            Accepted::NoRoom => return self.put_off(),
            Accepted::None | Accepted::Closed => return None,
        };
        let Some(place) = self.addresses.admit(&socket) else {
            self.worker.tally.crowded += 1;
            return None;
        };
        let slot = socket.as_raw_fd() as usize;
        if slot >= self.connections.len() {
            self.connections.resize_with(slot + 1, || None);
        }
        self.open += 1;
        self.worker.tally.connections += 1;
        let connection = self.connections[slot].insert(Connection::new(socket, place));
        Some(connection.socket.as_fd())
    }

    fn put_off(&mut self) -> Option<BorrowedFd<'_>> {
        self.has_room = false;
        self.worker.tally.put_off += 1;
        None
    }

    fn socket(&self, fd: RawFd) -> Option<BorrowedFd<'_>> {
        let connection = self.connections.get(fd as usize)?.as_ref()?;
        Some(connection.socket.as_fd())
    }

    /// One that is gone meanwhile needs nothing: an event may be older than what was done since.
    pub(super) fn serve(&mut self, fd: RawFd) -> Wants {
        let Some(Some(connection)) = self.connections.get_mut(fd as usize) else {
            return Wants::Close;
        };
        let wants = connection.step(&mut self.worker);
        if wants == Wants::Close {
            self.close(fd);
        }
        wants
    }

    fn close(&mut self, fd: RawFd) {
        if let Some(slot) = self.connections.get_mut(fd as usize)
            && slot.take().is_some()
        {
            self.open -= 1;
            self.has_room = true;
        }
    }

    /// Lets a tick pass if one is due, and closes who is out of time: their descriptors.
    fn tick(&mut self) -> Vec<RawFd> {
        let mut late = Vec::new();
        if !self.ticker.ticked() {
            return late;
        }
        if self.phase == Phase::Stopping {
            self.phase = Phase::Over;
        }
        self.has_room = true;
        for (fd, slot) in self.connections.iter_mut().enumerate() {
            if let Some(connection) = slot {
                let (ticks, is_owed) = (connection.tick(), connection.is_owed());
                if self.limits.is_late(ticks, is_owed) {
                    self.worker.tally.count_late(is_owed);
                    late.push(fd as RawFd);
                }
            }
        }
        for fd in &late {
            self.close(*fd);
        }
        late
    }

    /// Those who wait in the listener's queue are reset by the kernel.
    fn begin_stop(&mut self) -> io::Result<()> {
        self.listener = None;
        self.phase = Phase::Stopping;
        let connections = self.connections.iter().flatten();
        connections.for_each(Connection::end_input);
        self.ticker.start(self.limits.grace)
    }

    fn is_over(&self) -> bool {
        match self.phase {
            Phase::Open => false,
            Phase::Stopping => self.open == 0,
            Phase::Over => true,
        }
    }
}

#[derive(Clone, Copy)]
pub(super) struct Ready {
    pub(super) fd: RawFd,
    /// The events for which it is ready, as far as the kernel reports them.
    pub(super) flags: EventFlags,
}

/// The way in which a server learns of ready sockets.
pub(super) trait Readiness {
    /// Has one of the server's own descriptors watched, by level and for reading, or not any more.
    fn watch(&mut self, fd: BorrowedFd<'_>, on: bool) -> io::Result<()>;

    /// Has a connection watched, which is to be read from.
    fn add(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.watch(socket, true)
    }

    /// Has a connection watched for that instead: `IN` or `OUT`.
    fn change(&mut self, socket: BorrowedFd<'_>, flags: EventFlags) -> io::Result<()>;

    /// Watches a connection no more, which is closed already: a set of the kernel's knows.
    fn forget(&mut self, _fd: RawFd) {}

    /// Waits until something is ready and appends it; a signal may end that with nothing.
    fn wait(&mut self, ready: &mut Vec<Ready>) -> io::Result<()>;
}

/// Serves a connection that is ready, once: what is left is ready again.
fn serve_ready(set: &mut impl Readiness, connections: &mut EventLoop, at: Ready) -> io::Result<()> {
    let wants = connections.serve(at.fd);
    let Some(socket) = connections.socket(at.fd).filter(|_| wants != Wants::Close) else {
        set.forget(at.fd);
        return Ok(());
    };
    let flags = if wants.is_to_write() {
        EventFlags::OUT
    } else {
        EventFlags::IN
    };
    // Nearly always it goes on to wait for the same, which needs no call. An event that says
    // neither (an error, a hang-up) leaves open what was waited for.
    if at.flags.contains(flags) {
        return Ok(());
    }
    set.change(socket, flags)
}

pub(super) fn run(setup: ServerSetup, mut set: impl Readiness) -> io::Result<ServerTally> {
    let mut server = EventLoop::new(setup)?;
    let own = [server.stop.as_fd(), server.ticker.as_fd()];
    for fd in own.into_iter().chain(server.listener()) {
        set.watch(fd, true)?;
    }
    let [stop, tick] = own.map(|fd| fd.as_raw_fd());
    let mut listens = true;
    let mut ready = Vec::new();
    while !server.is_over() {
        ready.clear();
        set.wait(&mut ready)?;
        for &at in &ready {
            if at.fd == stop {
                set.watch(server.stop.as_fd(), false)?;
                if let Some(listener) = server.listener().filter(|_| listens) {
                    set.watch(listener, false)?;
                }
                server.begin_stop()?;
            } else if at.fd == tick {
                server.tick().into_iter().for_each(|fd| set.forget(fd));
            } else if server.listener().is_some_and(|l| l.as_raw_fd() == at.fd) {
                for _ in 0..ACCEPTED_AT_ONCE {
                    let Some(socket) = server.accept() else { break };
                    let fd = socket.as_raw_fd();
                    // No memory, a limit, or no room in the set.
                    if set.add(socket).is_err() {
                        server.worker.tally.broken += 1;
                        server.close(fd);
                    }
                }
            } else {
                serve_ready(&mut set, &mut server, at)?;
            }
        }
        if let Some(listener) = server.listener()
            && server.has_room != listens
        {
            listens = !listens;
            set.watch(listener, listens)?;
        }
    }
    Ok(server.worker.tally)
}

impl Limits {
    pub(super) fn tick(&self) -> Duration {
        self.patience / TICKS_OF_PATIENCE
    }

    /// Returns true for a connection that is out of time, by the ticks since something was last completed and
    /// by whether it owes something.
    pub(super) fn is_late(&self, ticks: u32, is_owed: bool) -> bool {
        if is_owed {
            return ticks > TICKS_OF_PATIENCE;
        }
        let tick_ns = self.tick().as_nanos().max(1);
        let may = |idle: Duration| idle.as_nanos().div_ceil(tick_ns);
        self.idle.is_some_and(|idle| u128::from(ticks) > may(idle))
    }
}
