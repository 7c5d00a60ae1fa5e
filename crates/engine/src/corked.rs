//! TCP_CORK, tcp(7), around each message: nothing but whole segments goes out before it is whole.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::sockopt;

use crate::mover::{Helper, Move, Offer};
use crate::tally::Tally;

/// Corks before each message and uncorks after it.
pub struct Corked {
    mover: Box<dyn Move>,
    socket: OwnedFd,
    calls: u64,
}

impl Corked {
    /// Corks what `mover` sends over `socket`, which is a TCP socket.
    pub fn new(mover: Box<dyn Move>, socket: OwnedFd) -> Corked {
        Corked {
            mover,
            socket,
            calls: 0,
        }
    }

    fn cork(&mut self, on: bool) -> io::Result<()> {
        self.calls += 1;
        Ok(sockopt::set_tcp_cork(&self.socket, on)?)
    }
}

impl Move for Corked {
    fn offer(&mut self) -> io::Result<Offer> {
        self.cork(true)?;
        let offer = self.mover.offer()?;
        if offer == Offer::Queued {
            // Otherwise a queued message would be sent after the cork is removed.
            self.mover.flush()?;
        }
        // Also if the mover is full: the completion that it waits for may need the corked bytes to be sent.
        self.cork(false)?;
        Ok(offer)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.mover.flush()
    }

    fn reap(&mut self, min: u32) -> io::Result<()> {
        self.mover.reap(min)
    }

    fn helper(&self) -> Option<Helper> {
        self.mover.helper()
    }

    fn let_go(&mut self) -> io::Result<()> {
        self.mover.let_go()
    }

    fn tally(&self) -> Tally {
        let tally = self.mover.tally();
        Tally {
            calls: tally.calls + self.calls,
            ..tally
        }
    }
}
