//! How long a wait on a socket may last.

use std::io;
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
