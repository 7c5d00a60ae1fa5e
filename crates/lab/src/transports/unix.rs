//! Stream sockets of the Unix domain, under an abstract name, so that no file is left behind.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use bytecost_spec::Cell;
use rustix::io::retry_on_intr;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::listener::{Listener, set_buffers};
use super::set_timeout;
use crate::flow_key::FlowKey;

pub(super) fn listen(cell: &Cell) -> io::Result<Listener> {
    // Any process may bind an abstract name first, but cannot guess this one.
    let name = format!("bytecost-{}", FlowKey::new()?);
    let socket = socket(cell)?;
    let address = SocketAddrUnix::new_abstract_name(name.as_bytes())?;
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, 1024)?;
    Ok(Listener {
        socket,
        address: name,
        nodelay: None,
    })
}

pub(super) fn connect(cell: &Cell, name: &str, timeout: Duration) -> io::Result<OwnedFd> {
    let socket = socket(cell)?;
    set_timeout(&socket, timeout)?;
    let address = SocketAddrUnix::new_abstract_name(name.as_bytes())?;
    retry_on_intr(|| rustix::net::connect(&socket, &address))?;
    Ok(socket)
}

fn socket(cell: &Cell) -> io::Result<OwnedFd> {
    let (kind, flags) = (SocketType::STREAM, SocketFlags::CLOEXEC);
    let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None)?;
    set_buffers(&socket, cell)?;
    Ok(socket)
}
