//! Listening sockets, and the buffers of all sockets of a cell.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use bytecost_spec::Cell;
use rustix::event::PollFlags;
use rustix::net::{SocketFlags, sockopt};

use crate::deadline::{after, await_event};

/// A socket that listens for the connections of a receiver.
#[derive(Debug)]
pub struct Listener {
    pub(super) socket: OwnedFd,
    pub(super) address: String,
    /// TCP_NODELAY of the connections that it accepts; none for the Unix domain.
    pub(super) nodelay: Option<bool>,
}

impl Listener {
    /// The address at which it listens, for [`super::connect`].
    pub fn address(&self) -> String {
        self.address.clone()
    }

    /// The socket that listens.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The next connection, accept(2); `TimedOut` when none came within `timeout`.
    pub fn accept(&self, timeout: Duration) -> io::Result<OwnedFd> {
        let late =
            |e: io::Error| io::Error::new(e.kind(), "no connection came: did the sender start?");
        await_event(&self.socket, PollFlags::IN, after(timeout), None).map_err(late)?;
        let accepted = rustix::net::accept_with(&self.socket, SocketFlags::CLOEXEC)?;
        if let Some(nodelay) = self.nodelay {
            sockopt::set_tcp_nodelay(&accepted, nodelay)?;
        }
        Ok(accepted)
    }
}

pub(super) fn set_buffers(socket: &OwnedFd, cell: &Cell) -> io::Result<()> {
    let Some(bytes) = cell.socket_buffer_bytes else {
        return Ok(());
    };
    let bytes = usize::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
    sockopt::set_socket_send_buffer_size(socket, bytes)?;
    sockopt::set_socket_recv_buffer_size(socket, bytes)?;
    // The kernel doubles the size, for its own bookkeeping, and silently caps it.
    let have =
        sockopt::socket_send_buffer_size(socket)?.min(sockopt::socket_recv_buffer_size(socket)?);
    if have < bytes {
        let why = format!(
            "the kernel gave a socket buffer of {have} bytes instead of {bytes}: raise net.core.wmem_max and net.core.rmem_max"
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    Ok(())
}
