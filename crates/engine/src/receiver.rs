//! A row of the table of receivers, and a receiver at work.

use std::io;
use std::ops::Deref;
use std::os::fd::OwnedFd;

pub use bytecost_spec::survey::ReceiverFacts;

/// A row of the table of receivers. It reads as its facts.
#[derive(Clone, Copy, Debug)]
pub struct Receiver {
    /// What others need to know of it.
    pub facts: ReceiverFacts<&'static str>,
    /// Makes it ready: a connected, blocking socket, and the bytes to ask for in one call.
    pub open: fn(OwnedFd, usize) -> io::Result<Box<dyn Take>>,
}

impl Deref for Receiver {
    type Target = ReceiverFacts<&'static str>;

    fn deref(&self) -> &Self::Target {
        &self.facts
    }
}

/// A receiver at work. All calls come from one thread.
pub trait Take {
    /// Told before the first byte comes: how long a message is, in bytes, for receivers that ask
    /// for exact lengths.
    fn expect(&mut self, message_bytes: usize) {
        let _ = message_bytes;
    }

    /// Takes in what is there, and waits until something is: its bytes, 0 at the end.
    ///
    /// # Errors
    /// What the system call answers; `TimedOut` when nothing came within the socket's timeout.
    fn take(&mut self) -> io::Result<usize>;

    /// Shows the last `got` bytes, piece by piece, in their order; nothing where the receiver
    /// does not see them.
    fn look(&self, got: usize, see: &mut dyn FnMut(&[u8]));

    /// System calls so far.
    fn calls(&self) -> u64;
}

/// Calls until the call was not interrupted.
pub(crate) fn taken(
    calls: &mut u64,
    mut call: impl FnMut() -> rustix::io::Result<usize>,
) -> io::Result<usize> {
    loop {
        *calls += 1;
        match call() {
            Ok(n) => return Ok(n),
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "no byte came for as long as patience lasts: does the sender still send?",
                ));
            }
            Err(e) => return Err(e.into()),
        }
    }
}
