//! The event loop of server models with one thread and non-blocking sockets: connections, listener and
//! ticks. The models differ in the system call that reports ready sockets ([`Readiness`]).

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

/// The most connections that are accepted before established ones are served again.
pub(super) const ACCEPTED_AT_ONCE: usize = 64;
/// The ticks of a time limit. A client is closed at the next tick after these, so that it has at least its
/// time, and at most a quarter more.
const TICKS_OF_PATIENCE: u32 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    /// No connection is accepted, and all of them end when their requests are answered.
    Stopping,
    /// The time limit of stopping has passed.
    Over,
}

/// The state of such a server.
pub(super) struct EventLoop {
    listener: Option<OwnedFd>,
    stop: OwnedFd,
    ticker: Ticker,
    /// Connections by descriptor: the kernel gives the lowest free number, so that the table is dense.
    connections: Vec<Option<Connection>>,
    addresses: AddressLimit,
    open: usize,
    /// False after a connection could not be accepted, until one is closed or a tick has passed: the
    /// listener would stay ready, and accepting again and again would keep the CPU busy.
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

    /// Accepts a connection, if one waits and there is room.
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

    /// Serves a connection once. It may have been closed since its event.
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

    /// Counts a tick if one is due, and closes clients whose time is over. Returns their descriptors.
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
                let (ticks, awaits_client) = (connection.tick(), connection.awaits_client());
                let is_expired = connection.is_expired();
                if is_expired || self.limits.is_late(ticks, awaits_client) {
                    self.worker.tally.count_late(is_expired, awaits_client);
                    late.push(fd as RawFd);
                }
            }
        }
        for fd in &late {
            self.close(*fd);
        }
        late
    }

    /// Closes the listener, whose queue the kernel resets, and ends the input of all connections.
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

/// A set of descriptors with a system call that reports those that are ready.
pub(super) trait Readiness {
    /// Adds one of the server's own descriptors for reading (level-triggered), or removes it.
    fn watch(&mut self, fd: BorrowedFd<'_>, on: bool) -> io::Result<()>;

    fn add(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.watch(socket, true)
    }

    /// Changes the event that is waited for on a connection: `IN` or `OUT`.
    fn change(&mut self, socket: BorrowedFd<'_>, flags: EventFlags) -> io::Result<()>;

    /// Removes a connection that is closed already. A set in the kernel removes it by itself.
    fn on_close(&mut self, _fd: RawFd) {}

    /// Waits until descriptors are ready and appends them; none after a signal.
    fn wait(&mut self, ready: &mut Vec<Ready>) -> io::Result<()>;
}

/// Serves a ready connection once. If there is more to do, it is reported as ready again.
fn serve_ready(set: &mut impl Readiness, server: &mut EventLoop, ready: Ready) -> io::Result<()> {
    let wants = server.serve(ready.fd);
    let Some(socket) = server.socket(ready.fd).filter(|_| wants != Wants::Close) else {
        set.on_close(ready.fd);
        return Ok(());
    };
    let flags = if wants.is_to_write() {
        EventFlags::OUT
    } else {
        EventFlags::IN
    };
    // Mostly the connection waits for the same event as before, which needs no call. That event is unknown
    // if the flags are neither `IN` nor `OUT` but an error or a hang-up.
    if ready.flags.contains(flags) {
        return Ok(());
    }
    set.change(socket, flags)
}

pub(super) fn run(setup: ServerSetup, mut set: impl Readiness) -> io::Result<ServerTally> {
    let mut server = EventLoop::new(setup)?;
    let own_fds = [server.stop.as_fd(), server.ticker.as_fd()];
    for fd in own_fds.into_iter().chain(server.listener()) {
        set.watch(fd, true)?;
    }
    let [stop, tick] = own_fds.map(|fd| fd.as_raw_fd());
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
                server.tick().into_iter().for_each(|fd| set.on_close(fd));
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

    /// Returns true if the time of a connection is over, by the ticks since a request or a response was last
    /// completed. `awaits_client` is that of [`Connection`].
    pub(super) fn is_late(&self, ticks: u32, awaits_client: bool) -> bool {
        if awaits_client {
            return ticks > TICKS_OF_PATIENCE;
        }
        let tick_ns = self.tick().as_nanos().max(1);
        let may = |idle: Duration| idle.as_nanos().div_ceil(tick_ns);
        self.idle.is_some_and(|idle| u128::from(ticks) > may(idle))
    }
}
