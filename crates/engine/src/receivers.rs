//! The table of receivers: each row a way to take bytes in. A file has one call.
//!
//! A new receiver is a file under `receivers/`, its `mod` and its row. One that needs exact lengths
//! learns in `expect` how long a message is. `inspect` shows the bytes that the last `take` brought, in
//! pieces; one that does not see them says `sees_content: false`, and only their count is checked.
//!
//! They all read into whole pages: a buffer that begins a few bytes into a page made the kernel's
//! copy several times slower on some processors, whose string moves stumble over such an offset.

use std::io;
use std::os::fd::OwnedFd;

pub use bytecost_spec::survey::ReceiverFacts;

use crate::table::table;

mod recv;
mod recvmsg;

/// All receivers, in the order of the documentation.
pub const RECEIVERS: &[Receiver] = &[recv::RECV, recvmsg::RECEIVER, recv::DISCARD, recv::WAITALL];

table!(Receiver, ReceiverFacts, RECEIVERS);

/// A row of the table of receivers. It reads as its facts.
#[derive(Clone, Copy, Debug)]
pub struct Receiver {
    /// Its name and properties, as surveys and plans have them.
    pub facts: ReceiverFacts<&'static str>,
    /// Makes it ready: a connected, blocking socket, and the bytes to ask for in one call.
    pub open: fn(OwnedFd, usize) -> io::Result<Box<dyn Take>>,
}

/// A receiver at work. All calls come from one thread.
pub trait Take {
    /// Announces the size of messages before the first byte, for receivers that ask for exact lengths.
    fn expect(&mut self, _message_bytes: usize) {}

    /// Takes in what is there, and waits until something is: its bytes, 0 at the end; `TimedOut`
    /// when nothing came within the socket's timeout.
    fn take(&mut self) -> io::Result<usize>;

    /// Shows the last `got` bytes, piece by piece, in their order, where the receiver sees them.
    fn inspect(&self, got: usize, see: &mut dyn FnMut(&[u8]));

    /// System calls so far.
    fn calls(&self) -> u64;
}

/// Repeats an interrupted call.
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
                let why = "no byte came for as long as patience lasts: does the sender still send?";
                return Err(io::Error::new(io::ErrorKind::TimedOut, why));
            }
            Err(e) => return Err(e.into()),
        }
    }
}
