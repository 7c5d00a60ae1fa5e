//! Sockets as streams, and how long a wait on one may last.

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::sockopt;

/// Bounds every wait on a socket.
///
/// # Errors
/// What setsockopt(2) answers.
pub fn set_patience(socket: &OwnedFd, patience: Duration) -> io::Result<()> {
    sockopt::set_socket_timeout(socket, sockopt::Timeout::Recv, Some(patience))?;
    sockopt::set_socket_timeout(socket, sockopt::Timeout::Send, Some(patience))?;
    Ok(())
}

/// A socket that can be read and written like a stream.
pub struct Socket<'a>(pub &'a OwnedFd);

impl Read for Socket<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(self.0, buf)?)
    }
}

impl Write for Socket<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(
            self.0,
            buf,
            rustix::net::SendFlags::NOSIGNAL,
        )?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
