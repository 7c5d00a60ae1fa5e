//! Time as a descriptor, timerfd_create(2): a server waits for it as it waits for its clients.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

/// The shortest time between two ticks; zero would mean never.
const LEAST: Duration = Duration::from_millis(1);

pub(super) struct Ticker(OwnedFd);

impl Ticker {
    /// One that ticks first after `every`, and then each time that it has passed again.
    pub(super) fn new(every: Duration) -> io::Result<Ticker> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let ticker = Ticker(timerfd_create(TimerfdClockId::Monotonic, flags)?);
        ticker.start(every)?;
        Ok(ticker)
    }

    /// Starts it anew; a tick that nobody has seen yet is forgotten.
    pub(super) fn start(&self, every: Duration) -> io::Result<()> {
        let time = Timespec::try_from(every.max(LEAST)).map_err(|_| io::ErrorKind::InvalidInput)?;
        let both = Itimerspec {
            it_interval: time,
            it_value: time,
        };
        timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &both)?;
        Ok(())
    }

    /// Returns true if it has ticked since the last call.
    pub(super) fn ticked(&self) -> bool {
        rustix::io::read(&self.0, &mut [0; 8]).is_ok()
    }
}

impl AsFd for Ticker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
