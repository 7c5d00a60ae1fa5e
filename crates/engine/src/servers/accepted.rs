//! The result of accept(2), with the errors that a server survives.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::SocketFlags;

pub(super) enum Accepted {
    Socket(OwnedFd),
    /// None is waiting (for a listener that does not block).
    None,
    /// One may be waiting, but there is no descriptor or memory for it: do not try again at once.
    NoRoom,
    /// The listener takes no more connections.
    Closed,
}

impl Accepted {
    /// Takes the next connection. One that broke before it was taken is passed over, and so is
    /// an error of the network, which accept(2) hands through.
    pub(super) fn take(listener: &OwnedFd, flags: SocketFlags) -> Accepted {
        loop {
            match rustix::net::accept_with(listener, flags | SocketFlags::CLOEXEC) {
                Ok(socket) => return Accepted::Socket(socket),
                Err(Errno::AGAIN) => return Accepted::None,
                Err(e) => match Accepted::failed(e) {
                    Accepted::None => {}
                    other => return other,
                },
            }
        }
    }

    pub(super) fn of(taken: io::Result<OwnedFd>) -> Accepted {
        match taken {
            Ok(socket) => Accepted::Socket(socket),
            Err(e) => Errno::from_io_error(&e).map_or(Accepted::None, Accepted::failed),
        }
    }

    /// None of a connection that broke.
    fn failed(error: Errno) -> Accepted {
        match error {
            Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM => Accepted::NoRoom,
            Errno::INVAL | Errno::BADF | Errno::NOTSOCK => Accepted::Closed,
            _ => Accepted::None,
        }
    }
}
