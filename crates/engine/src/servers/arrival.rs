//! What accept(2) has to say.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::SocketFlags;

/// An attempt to take the next connection.
pub(super) enum Arrival {
    /// It came.
    Came(OwnedFd),
    /// None is waiting (for a listener that does not block).
    Nobody,
    /// One may be waiting, but the process or the system has no descriptor or memory for it.
    /// Trying again at once would be trying without end.
    NoRoom,
    /// The listener takes no more connections.
    Over,
}

impl Arrival {
    /// Takes the next connection. One that broke before it was taken is passed over, and so is
    /// an error of the network, which accept(2) hands through.
    pub(super) fn take(listener: &OwnedFd, flags: SocketFlags) -> Arrival {
        loop {
            match rustix::net::accept_with(listener, flags | SocketFlags::CLOEXEC) {
                Ok(socket) => return Arrival::Came(socket),
                Err(Errno::AGAIN) => return Arrival::Nobody,
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                    return Arrival::NoRoom;
                }
                Err(Errno::INVAL | Errno::BADF | Errno::NOTSOCK) => return Arrival::Over,
                Err(_) => {}
            }
        }
    }

    /// What the kernel answered to an accept that a ring made.
    pub(super) fn of(taken: io::Result<OwnedFd>) -> Arrival {
        let error = match taken {
            Ok(socket) => return Arrival::Came(socket),
            Err(error) => error,
        };
        match Errno::from_io_error(&error) {
            Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => Arrival::NoRoom,
            Some(Errno::INVAL | Errno::BADF | Errno::NOTSOCK) => Arrival::Over,
            _ => Arrival::Nobody,
        }
    }
}
