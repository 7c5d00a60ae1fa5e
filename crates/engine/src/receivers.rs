//! The table of receivers: each row a way to take bytes in, each in a file of its own.
//!
//! They all read into whole pages of their own. Where a buffer begins matters: memory from the
//! heap that begins a few bytes into a page made the kernel's copy several times slower on some
//! processors, whose string moves stumble over such an offset.

use std::io;
use std::os::fd::OwnedFd;

use bytecost_spec::survey::ReceiverFacts;

mod recv;
mod recv_discard;
mod recv_waitall;
mod recvmsg;

/// All receivers, in the order of the documentation.
pub const RECEIVERS: &[Receiver] = &[
    recv::RECEIVER,
    recvmsg::RECEIVER,
    recv_discard::RECEIVER,
    recv_waitall::RECEIVER,
];

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Receiver {
    /// The system call and its flags.
    pub name: &'static str,
    /// What it does, in one sentence.
    pub summary: &'static str,
    /// Whether it sees the payload, so that its content can be checked.
    pub sees_content: bool,
    /// Makes it ready: a connected, blocking socket, and the bytes to ask for in one call.
    pub open: fn(OwnedFd, usize) -> io::Result<Box<dyn Take>>,
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

impl Receiver {
    /// The row of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Receiver> {
        RECEIVERS.iter().find(|r| r.name == name)
    }

    /// The row as values.
    #[must_use]
    pub fn facts(&self) -> ReceiverFacts {
        ReceiverFacts {
            name: self.name.to_owned(),
            summary: self.summary.to_owned(),
            sees_content: self.sees_content,
        }
    }
}

/// Calls until the call was not interrupted.
fn taken(
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
