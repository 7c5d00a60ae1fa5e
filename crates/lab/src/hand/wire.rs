//! Sockets of a session: every wait has an end, and ends sooner when the command is to stop.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytecost_spec::Cell;
use bytecost_sys::clock;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::sockopt;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::session_key::Cipher;
use super::{LOOK, PATIENCE, SessionError};
use crate::endpoint::explain;
use crate::greeters::address;
use crate::protocol::{DeadlineReader, await_event};
use crate::socket::poll;
use crate::transports::{self, Socket};

/// How long a word may take: there is always room, unless the other side has stopped to read.
const WRITING: Duration = Duration::from_millis(300);

/// Now, and so much later, in ns of CLOCK_MONOTONIC.
pub(super) fn after(duration: Duration) -> u64 {
    clock::monotonic_ns().saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

/// Whether it can be read, or the other end is gone; waits until then, but at most [`LOOK`].
pub(super) fn is_readable(socket: &OwnedFd, until_ns: u64) -> bool {
    let left_ns = until_ns.saturating_sub(clock::monotonic_ns());
    let slice_ns = left_ns.min(LOOK.as_nanos() as u64);
    poll(&mut [PollFd::new(socket, PollFlags::IN)], slice_ns).is_ok_and(|ready| ready > 0)
}

/// Connects to a server, with the options of a cell, and dresses the connection.
pub(super) fn connect(
    cell: &Cell,
    address: SocketAddr,
    stop: &AtomicBool,
) -> Result<OwnedFd, SessionError> {
    let told = |e: io::Error| {
        let why = match e.kind() {
            io::ErrorKind::ConnectionRefused => format!(
                "nothing listens at {address}: start `bytecost live send` there, or choose another --port"
            ),
            io::ErrorKind::TimedOut => format!(
                "no response from {address}: is the address right, and does a firewall allow the port?"
            ),
            _ => format!("{address}: {e}"),
        };
        SessionError::Failed(io::Error::new(e.kind(), why))
    };
    let socket =
        transports::tcp_socket(cell, address).map_err(|e| io::Error::new(e.kind(), explain(&e)))?;
    sockopt::set_tcp_nodelay(&socket, cell.sends_at_once()).map_err(io::Error::from)?;
    // So that Ctrl-C ends also a connection to nowhere.
    rustix::io::ioctl_fionbio(&socket, true).map_err(io::Error::from)?;
    match rustix::net::connect(&socket, &address) {
        Ok(()) => {}
        Err(Errno::INPROGRESS) => {
            let waited = await_event(&socket, PollFlags::OUT, after(PATIENCE), Some(stop));
            if stop.load(Ordering::Relaxed) {
                return Err(SessionError::Interrupted);
            }
            waited.map_err(told)?;
            let outcome = sockopt::socket_error(&socket).map_err(io::Error::from)?;
            outcome.map_err(|e| told(e.into()))?;
        }
        Err(e) => return Err(told(e.into())),
    }
    rustix::io::ioctl_fionbio(&socket, false).map_err(io::Error::from)?;
    transports::set_patience(&socket, PATIENCE)?;
    Ok(socket)
}

pub(super) struct Control {
    pub(super) socket: OwnedFd,
    pub(super) cipher: Cipher,
}

impl Control {
    pub(super) fn in_clear(socket: OwnedFd) -> Control {
        let cipher = Cipher::default();
        Control { socket, cipher }
    }

    /// Says a word. It is small: a peer that has not taken the ones before it is not waited for long.
    pub(super) fn say<T: Serialize>(&self, word: &T) -> io::Result<()> {
        sockopt::set_socket_timeout(&self.socket, sockopt::Timeout::Send, Some(WRITING))?;
        self.cipher.write(&mut Socket(&self.socket), word)
    }

    pub(super) fn hear<T: DeserializeOwned>(
        &self,
        until_ns: u64,
        stop: Option<&AtomicBool>,
    ) -> io::Result<T> {
        self.cipher.read(&mut DeadlineReader {
            from: self.socket.as_fd(),
            until_ns,
            stop,
        })
    }
}

pub(super) fn peer(socket: &OwnedFd) -> String {
    address(socket).map_or_else(|| "an unknown address".to_owned(), |a| a.to_string())
}
