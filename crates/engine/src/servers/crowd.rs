//! What the models with blocking calls share: who is inside, and how to wake them all.
//!
//! A thread that waits in accept(2) or recv(2) hears of nothing else. So one further thread, the
//! doorkeeper, waits for the stop signal, and then shuts down the sockets that the others wait
//! on, which wakes them. Asking for the signal before each call would cost a system call a
//! request.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::net::{Shutdown, SocketFlags, shutdown, sockopt};

use super::arrival::Arrival;
use super::conversation::Desk;
use super::guest::{Guest, Wants};
use crate::server::{Limits, Setup, Tally};

/// How long to wait before a connection is tried again for which there was no room.
pub(super) const RETRY: Duration = Duration::from_millis(50);
/// Reads of next to nothing that complete no request, before a client that feeds its request in
/// crumbs is taken for one that stalls: each read has the whole patience.
const MOST_CRUMBS: u32 = 64;

/// Who is inside.
pub(super) struct Crowd {
    listener: OwnedFd,
    stop: OwnedFd,
    /// Written to when the server ends for another reason than the stop signal.
    ended: OwnedFd,
    limits: Limits,
    inside: Mutex<Inside>,
    /// Told whenever someone leaves.
    left: Condvar,
}

#[derive(Default)]
struct Inside {
    sockets: BTreeMap<u64, Arc<OwnedFd>>,
    next: u64,
    stopping: bool,
    tally: Tally,
}

/// A connection inside, which leaves when this is dropped.
pub(super) struct Ticket<'a> {
    crowd: &'a Crowd,
    number: u64,
    socket: Arc<OwnedFd>,
}

impl Crowd {
    pub(super) fn new(setup: Setup) -> io::Result<Crowd> {
        rustix::io::ioctl_fionbio(&setup.listener, false)?;
        // Connections inherit both from the listener, which saves two system calls for each.
        let patience = Some(setup.limits.patience);
        sockopt::set_socket_timeout(&setup.listener, sockopt::Timeout::Recv, patience)?;
        sockopt::set_socket_timeout(&setup.listener, sockopt::Timeout::Send, patience)?;
        Ok(Crowd {
            listener: setup.listener,
            stop: setup.stop,
            ended: eventfd(0, EventfdFlags::CLOEXEC)?,
            limits: setup.limits,
            inside: Mutex::default(),
            left: Condvar::new(),
        })
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        // Counts and a map that are whole between any two calls, also after a panic elsewhere.
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next connection; none when the server is stopped.
    pub(super) fn admit(&self) -> Option<Ticket<'_>> {
        loop {
            let inside = self.inside();
            if inside.stopping {
                return None;
            }
            if inside.sockets.len() >= self.limits.connections {
                self.put_off(inside);
                continue;
            }
            drop(inside);
            match Arrival::take(&self.listener, SocketFlags::empty()) {
                Arrival::Came(socket) => return self.enter(socket),
                Arrival::NoRoom => self.put_off(self.inside()),
                Arrival::Nobody => {}
                Arrival::Over => return None,
            }
        }
    }

    /// Waits until someone leaves, or a moment.
    fn put_off(&self, mut inside: MutexGuard<'_, Inside>) {
        inside.tally.put_off += 1;
        drop(self.left.wait_timeout(inside, RETRY));
    }

    fn enter(&self, socket: OwnedFd) -> Option<Ticket<'_>> {
        let socket = Arc::new(socket);
        let mut inside = self.inside();
        if inside.stopping {
            return None;
        }
        inside.next += 1;
        inside.tally.connections += 1;
        let number = inside.next;
        inside.sockets.insert(number, Arc::clone(&socket));
        Some(Ticket {
            crowd: self,
            number,
            socket,
        })
    }

    /// What the doorkeeper does: waits for the stop signal, ends everyone's input, and cuts off
    /// who is still there when the grace is over.
    ///
    /// # Errors
    /// What poll(2) answers.
    pub(super) fn keep_door(&self) -> io::Result<()> {
        let mut waiting = [
            PollFd::new(&self.stop, PollFlags::IN),
            PollFd::new(&self.ended, PollFlags::IN),
        ];
        while let Err(e) = poll(&mut waiting, None) {
            if e != rustix::io::Errno::INTR {
                self.close(Shutdown::Both);
                return Err(e.into());
            }
        }
        self.close(Shutdown::Read);
        let all_left = |inside: &mut Inside| !inside.sockets.is_empty();
        let grace = self.limits.grace;
        drop(self.left.wait_timeout_while(self.inside(), grace, all_left));
        self.close(Shutdown::Both);
        Ok(())
    }

    fn close(&self, how: Shutdown) {
        let mut inside = self.inside();
        inside.stopping = true;
        // Errors say that it is shut down already.
        let _ = shutdown(&self.listener, Shutdown::Both);
        for socket in inside.sockets.values() {
            let _ = shutdown(&**socket, how);
        }
    }

    /// Lets the doorkeeper go where no stop signal has come.
    pub(super) fn end(&self) {
        let _ = rustix::io::write(&self.ended, &1_u64.to_ne_bytes());
    }

    /// Counts what was done at a desk.
    pub(super) fn add(&self, tally: Tally) {
        self.inside().tally.add(tally);
    }

    /// Counts a connection for which there was no thread.
    pub(super) fn turned_away(&self) {
        self.inside().tally.broken += 1;
    }

    /// What was done.
    pub(super) fn tally(&self) -> Tally {
        self.inside().tally
    }
}

impl Ticket<'_> {
    /// Serves the connection to its end.
    pub(super) fn attend(self, desk: &mut Desk) {
        attend(
            Guest::new(Arc::clone(&self.socket)),
            desk,
            &self.crowd.limits,
        );
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.crowd.inside().sockets.remove(&self.number);
        self.crowd.left.notify_all();
    }
}

/// Serves a guest whose socket blocks, and has the patience as its timeouts, to its end.
pub(super) fn attend<S: AsFd>(mut guest: Guest<S>, desk: &mut Desk, limits: &Limits) {
    let mut waited = Duration::ZERO;
    loop {
        match guest.step(desk) {
            Wants::Close => return,
            Wants::More | Wants::Heard | Wants::Turn => waited = Duration::ZERO,
            Wants::Read | Wants::Write => waited += limits.patience,
        }
        let is_idle_too_long = limits.idle.is_some_and(|idle| waited >= idle);
        let is_late = !waited.is_zero() && (guest.is_owed() || is_idle_too_long);
        if is_late || guest.crumbs() > MOST_CRUMBS {
            desk.tally.timed_out += 1;
            return;
        }
    }
}
