//! The open connections of the models with blocking calls, and how to wake the threads that wait in
//! accept(2) or recv(2): one further thread waits for the stop signal, and then shuts down their
//! sockets. To ask for the signal before each call would cost a system call a request.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, Scope, scope};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;
use rustix::net::{Shutdown, SocketFlags, shutdown};

use super::accepted::Accepted;
use super::address_limit::{AddressLimit, AddressSlot};
use super::connection::{Connection, Wants};
use super::conversation::Worker;
use crate::servers::{Limits, ServerSetup, ServerTally};

/// Before a connection is tried again for which there was no room.
pub(super) const RETRY: Duration = Duration::from_millis(50);
/// Reads of next to nothing that complete no request, before a client that feeds its request in
/// crumbs is taken for one that stalls: each read has the whole patience.
const MOST_CRUMBS: u32 = 64;

pub(super) struct OpenConnections {
    listener: OwnedFd,
    stop: OwnedFd,
    /// Readable when the server ends for another reason than the stop signal, which is when `ending` is shut
    /// down: a write could fail.
    ended: UnixStream,
    ending: UnixStream,
    limits: Limits,
    addresses: AddressLimit,
    state: Mutex<State>,
    /// Called whenever a connection is closed.
    closed: Condvar,
}

#[derive(Default)]
struct State {
    sockets: BTreeMap<RawFd, Arc<OwnedFd>>,
    stopping: bool,
    tally: ServerTally,
}

/// Until this is dropped.
pub(super) struct OpenConnection<'a> {
    open: &'a OpenConnections,
    socket: Arc<OwnedFd>,
    _slot: AddressSlot,
}

impl OpenConnections {
    pub(super) fn new(setup: ServerSetup) -> io::Result<OpenConnections> {
        rustix::io::ioctl_fionbio(&setup.listener, false)?;
        let (ended, ending) = UnixStream::pair()?;
        Ok(OpenConnections {
            addresses: AddressLimit::new(&setup.limits),
            listener: setup.listener,
            stop: setup.stop,
            ended,
            ending,
            limits: setup.limits,
            state: Mutex::default(),
            closed: Condvar::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Counts and a map that are whole between any two calls, also after a panic elsewhere.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives each connection to `serve` until the server is stopped and its threads have ended.
    pub(super) fn each<'env>(
        &'env self,
        mut serve: impl for<'scope> FnMut(&'scope Scope<'scope, 'env>, OpenConnection<'env>),
    ) -> io::Result<ServerTally> {
        scope(|scope| {
            let stopper = Builder::new().spawn_scoped(scope, || self.wait_for_stop())?;
            while let Some(connection) = self.accept() {
                serve(scope, connection);
            }
            // Ends the wait where no stop signal has come.
            let _ = shutdown(&self.ending, Shutdown::Both);
            let stopped = stopper.join();
            stopped.unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
        })?;
        Ok(self.state().tally)
    }

    /// The next connection; none when the server is stopped.
    fn accept(&self) -> Option<OpenConnection<'_>> {
        loop {
            let state = self.state();
            if state.stopping {
                return None;
            }
            if state.sockets.len() >= self.limits.connections {
                self.put_off(state);
                continue;
            }
            drop(state);
            match Accepted::take(&self.listener, SocketFlags::empty()) {
                Accepted::Socket(socket) => match self.addresses.admit(&socket) {
                    Some(slot) => return self.register(socket, slot),
                    None => self.state().tally.crowded += 1,
                },
                Accepted::NoRoom => self.put_off(self.state()),
                Accepted::None => {}
                Accepted::Closed => return None,
            }
        }
    }

    /// Waits until a connection is closed, or a moment.
    fn put_off(&self, mut state: MutexGuard<'_, State>) {
        state.tally.put_off += 1;
        drop(self.closed.wait_timeout(state, RETRY));
    }

    fn register(&self, socket: OwnedFd, slot: AddressSlot) -> Option<OpenConnection<'_>> {
        let socket = Arc::new(socket);
        let mut state = self.state();
        if state.stopping {
            return None;
        }
        state.tally.connections += 1;
        state
            .sockets
            .insert(socket.as_raw_fd(), Arc::clone(&socket));
        Some(OpenConnection {
            open: self,
            socket,
            _slot: slot,
        })
    }

    /// Ends the input of all connections at the stop signal, and closes those that are open after
    /// the grace. For a thread of its own.
    fn wait_for_stop(&self) -> io::Result<()> {
        let mut waiting = [
            PollFd::new(&self.stop, PollFlags::IN),
            PollFd::new(&self.ended, PollFlags::IN),
        ];
        if let Err(e) = retry_on_intr(|| poll(&mut waiting, None)) {
            self.close(Shutdown::Both);
            return Err(e.into());
        }
        self.close(Shutdown::Read);
        let any_open = |state: &mut State| !state.sockets.is_empty();
        let (state, grace) = (self.state(), self.limits.grace);
        drop(self.closed.wait_timeout_while(state, grace, any_open));
        self.close(Shutdown::Both);
        Ok(())
    }

    fn close(&self, how: Shutdown) {
        let mut state = self.state();
        state.stopping = true;
        // Errors say that it is shut down already.
        let _ = shutdown(&self.listener, Shutdown::Both);
        for socket in state.sockets.values() {
            let _ = shutdown(&**socket, how);
        }
    }

    pub(super) fn add(&self, tally: ServerTally) {
        self.state().tally.add(tally);
    }

    pub(super) fn turned_away(&self) {
        self.state().tally.broken += 1;
    }
}

impl OpenConnection<'_> {
    pub(super) fn serve(self, worker: &mut Worker) {
        let connection = Connection::new(Arc::clone(&self.socket), AddressSlot::default());
        serve_to_end(connection, worker, &self.open.limits);
    }
}

impl Drop for OpenConnection<'_> {
    fn drop(&mut self) {
        self.open.state().sockets.remove(&self.socket.as_raw_fd());
        self.open.closed.notify_all();
    }
}

/// With the patience as its socket's timeouts.
pub(super) fn serve_to_end<S: AsFd>(
    mut connection: Connection<S>,
    worker: &mut Worker,
    limits: &Limits,
) {
    let mut waited = Duration::ZERO;
    loop {
        match connection.step(worker) {
            Wants::Close => return,
            Wants::More | Wants::Heard | Wants::Turn => waited = Duration::ZERO,
            Wants::Read | Wants::Write => waited += limits.patience,
        }
        let is_idle_too_long = limits.idle.is_some_and(|idle| waited >= idle);
        let is_late = !waited.is_zero() && (connection.awaits_client() || is_idle_too_long);
        let is_expired = connection.is_expired();
        if is_expired || is_late || connection.crumbs > MOST_CRUMBS {
            worker
                .tally
                .count_late(is_expired, connection.awaits_client());
            return;
        }
    }
}
