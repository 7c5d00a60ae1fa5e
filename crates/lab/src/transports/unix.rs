//! Stream sockets of the Unix domain, under an abstract name, so that no file is left behind.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytecost_spec::Cell;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::listener::{Listen, accept, set_buffers};

struct Unix {
    socket: OwnedFd,
    name: String,
}

pub(super) fn listen(cell: &Cell) -> io::Result<Box<dyn Listen>> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = format!(
        "bytecost-{}-{}",
        std::process::id(),
        COUNT.fetch_add(1, Ordering::Relaxed)
    );
    let socket = socket(cell)?;
    rustix::net::bind(
        &socket,
        &SocketAddrUnix::new_abstract_name(name.as_bytes())?,
    )?;
    rustix::net::listen(&socket, 1024)?;
    Ok(Box::new(Unix { socket, name }))
}

pub(super) fn connect(cell: &Cell, name: &str) -> io::Result<OwnedFd> {
    let socket = socket(cell)?;
    rustix::net::connect(
        &socket,
        &SocketAddrUnix::new_abstract_name(name.as_bytes())?,
    )?;
    Ok(socket)
}

fn socket(cell: &Cell) -> io::Result<OwnedFd> {
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    set_buffers(&socket, cell)?;
    Ok(socket)
}

impl Listen for Unix {
    fn address(&self) -> String {
        self.name.clone()
    }

    fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn accept(&self, patience: Duration) -> io::Result<OwnedFd> {
        accept(&self.socket, patience)
    }
}
