//! Sockets as streams, and waits for them.

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, Timespec};
use rustix::io::Errno;
use rustix::net::sockopt;

/// Bounds every wait on a socket, setsockopt(2).
pub fn set_timeout(socket: &OwnedFd, timeout: Duration) -> io::Result<()> {
    sockopt::set_socket_timeout(socket, sockopt::Timeout::Recv, Some(timeout))?;
    sockopt::set_socket_timeout(socket, sockopt::Timeout::Send, Some(timeout))?;
    Ok(())
}

/// Waits until one of these is ready, at most for so many ns. Returns true for each that is.
pub(crate) fn ready(polled: &mut [PollFd<'_>], wait_ns: u64) -> io::Result<Vec<bool>> {
    poll(polled, wait_ns)?;
    Ok(polled.iter().map(|p| !p.revents().is_empty()).collect())
}

/// As [`ready`]. Returns the number of those that are ready.
pub(crate) fn poll(polled: &mut [PollFd<'_>], wait_ns: u64) -> io::Result<usize> {
    let wait = Timespec::try_from(Duration::from_nanos(wait_ns))
        .map_err(|_| io::ErrorKind::InvalidInput)?;
    match rustix::event::poll(polled, Some(&wait)) {
        Err(Errno::INTR) => Ok(0),
        ready => Ok(ready?),
    }
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
