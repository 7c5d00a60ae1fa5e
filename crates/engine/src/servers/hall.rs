//! What the models with one thread and non-blocking sockets share: the guests, the listener and
//! the clock of a server that is told what is ready. How it is told is the business of each.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::net::SocketFlags;

use super::arrival::Arrival;
use super::conversation::Desk;
use super::guest::{Guest, Wants};
use super::ticker::Ticker;
use crate::server::{Limits, Setup, Tally};

/// Connections that are taken before those that are there are served again.
pub(super) const ADMITTED_AT_ONCE: usize = 64;
/// Ticks in the time that a client may take. One more than these closes it, so that it has at
/// least its time, and at most a quarter more.
const TICKS_OF_PATIENCE: u32 = 4;

/// What a descriptor is to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Listener,
    Stop,
    Ticker,
    Guest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    /// Nobody is let in, and all go when they have their answers.
    Stopping,
    /// The time for that is over.
    Over,
}

/// The guests of a server, by the number of their descriptor: the kernel gives the lowest free
/// number, so that these are as good as a table of our own.
pub(super) struct Hall {
    listener: Option<OwnedFd>,
    stop: OwnedFd,
    ticker: Ticker,
    guests: Vec<Option<Guest>>,
    open: usize,
    has_room: bool,
    phase: Phase,
    limits: Limits,
    desk: Desk,
}

impl Hall {
    pub(super) fn new(setup: Setup) -> io::Result<Hall> {
        let desk = Desk::new(&setup);
        rustix::io::ioctl_fionbio(&setup.listener, true)?;
        Ok(Hall {
            ticker: Ticker::new(setup.limits.tick())?,
            listener: Some(setup.listener),
            stop: setup.stop,
            guests: Vec::new(),
            open: 0,
            has_room: true,
            phase: Phase::Open,
            limits: setup.limits,
            desk,
        })
    }

    /// Whether connections are taken now. Where there is no room for one, they are not, until a
    /// guest leaves or a tick has passed: the listener would stay ready, and asking it again and
    /// again would use up the CPU.
    pub(super) fn listens(&self) -> bool {
        self.has_room && self.listener.is_some()
    }

    /// The listener, until the server is stopped.
    pub(super) fn listener(&self) -> Option<BorrowedFd<'_>> {
        self.listener.as_ref().map(AsFd::as_fd)
    }

    pub(super) fn stop_signal(&self) -> BorrowedFd<'_> {
        self.stop.as_fd()
    }

    /// All that is to be read from at the start: the stop signal, the ticker and the listener.
    pub(super) fn sources(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let own = [self.stop.as_fd(), self.ticker.as_fd()];
        own.into_iter().chain(self.listener())
    }

    /// What a descriptor is.
    pub(super) fn source(&self, fd: RawFd) -> Source {
        if fd == self.stop.as_raw_fd() {
            Source::Stop
        } else if fd == self.ticker.as_fd().as_raw_fd() {
            Source::Ticker
        } else if self.listener().is_some_and(|l| l.as_raw_fd() == fd) {
            Source::Listener
        } else {
            Source::Guest
        }
    }

    /// Takes a connection, if one waits and there is room.
    pub(super) fn admit(&mut self) -> Option<BorrowedFd<'_>> {
        let listener = self.listener.as_ref().filter(|_| self.has_room)?;
        if self.open >= self.limits.connections {
            return self.put_off();
        }
        let socket = match Arrival::take(listener, SocketFlags::NONBLOCK) {
            Arrival::Came(socket) => socket,
            Arrival::NoRoom => return self.put_off(),
            Arrival::Nobody | Arrival::Over => return None,
        };
        let seat = socket.as_raw_fd() as usize;
        if seat >= self.guests.len() {
            self.guests.resize_with(seat + 1, || None);
        }
        self.open += 1;
        self.desk.tally.connections += 1;
        let guest = self.guests[seat].insert(Guest::new(socket));
        Some(guest.socket.as_fd())
    }

    fn put_off(&mut self) -> Option<BorrowedFd<'_>> {
        self.has_room = false;
        self.desk.tally.put_off += 1;
        None
    }

    /// Sends a guest away that the model cannot serve.
    pub(super) fn turn_away(&mut self, fd: RawFd) {
        self.desk.tally.broken += 1;
        self.close(fd);
    }

    /// The socket of a guest that is there.
    pub(super) fn socket(&self, fd: RawFd) -> Option<BorrowedFd<'_>> {
        let guest = self.guests.get(fd as usize)?.as_ref()?;
        Some(guest.socket.as_fd())
    }

    /// Serves a guest once. One that is gone meanwhile needs nothing: an event may be older than
    /// what was done since.
    pub(super) fn serve(&mut self, fd: RawFd) -> Wants {
        let Some(guest) = self.guests.get_mut(fd as usize).and_then(Option::as_mut) else {
            return Wants::Close;
        };
        let wants = guest.step(&mut self.desk);
        if wants == Wants::Close {
            self.close(fd);
        }
        wants
    }

    fn close(&mut self, fd: RawFd) {
        if let Some(seat) = self.guests.get_mut(fd as usize)
            && seat.take().is_some()
        {
            self.open -= 1;
            self.has_room = true;
        }
    }

    /// Lets a tick pass if one is due, and closes who is out of time: their descriptors.
    pub(super) fn tick(&mut self) -> Vec<RawFd> {
        let mut late = Vec::new();
        if !self.ticker.ticked() {
            return late;
        }
        if self.phase == Phase::Stopping {
            self.phase = Phase::Over;
        }
        self.has_room = true;
        for (fd, seat) in self.guests.iter_mut().enumerate() {
            if let Some(guest) = seat {
                let ticks = guest.tick();
                if self.limits.is_late(ticks, guest.is_owed()) {
                    late.push(fd as RawFd);
                }
            }
        }
        for fd in &late {
            self.desk.tally.timed_out += 1;
            self.close(*fd);
        }
        late
    }

    /// Begins to stop: nobody is let in any more, everyone's input ends. Those who wait in the
    /// listener's queue are reset by the kernel.
    ///
    /// # Errors
    /// What timerfd_settime(2) answers.
    pub(super) fn begin_stop(&mut self) -> io::Result<()> {
        self.listener = None;
        self.phase = Phase::Stopping;
        self.guests.iter().flatten().for_each(Guest::end_input);
        self.ticker.start(self.limits.grace)
    }

    /// Whether the server has nothing more to do.
    pub(super) fn is_over(&self) -> bool {
        match self.phase {
            Phase::Open => false,
            Phase::Stopping => self.open == 0,
            Phase::Over => true,
        }
    }

    /// What was done.
    pub(super) fn tally(&self) -> Tally {
        self.desk.tally
    }
}

impl Limits {
    /// The time between two looks at who is late.
    pub(super) fn tick(&self) -> Duration {
        self.patience / TICKS_OF_PATIENCE
    }

    /// Whether a guest is out of time, after so many ticks since something was last brought to an
    /// end: one that owes something, or one that is only there.
    pub(super) fn is_late(&self, ticks: u32, is_owed: bool) -> bool {
        if is_owed {
            return ticks > TICKS_OF_PATIENCE;
        }
        let tick_ns = self.tick().as_nanos().max(1);
        let may = |idle: Duration| idle.as_nanos().div_ceil(tick_ns);
        self.idle.is_some_and(|idle| u128::from(ticks) > may(idle))
    }
}
