//! Sockets as streams.

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::sockopt;

/// Bounds every wait on a socket, setsockopt(2).
pub fn set_timeout(socket: &OwnedFd, timeout: Duration) -> io::Result<()> {
    sockopt::set_socket_timeout(socket, sockopt::Timeout::Recv, Some(timeout))?;
    sockopt::set_socket_timeout(socket, sockopt::Timeout::Send, Some(timeout))?;
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
        let flags = rustix::net::SendFlags::NOSIGNAL;
        Ok(rustix::net::send(self.0, buf, flags)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
