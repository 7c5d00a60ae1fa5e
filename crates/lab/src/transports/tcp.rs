//! TCP between two addresses of this machine, or to another machine in live sessions and with a peer.

use std::borrow::Cow;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Duration;

use bytecost_engine::servers::{no_port_left, not_listening};
use bytecost_spec::Cell;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{SocketFlags, sockopt};

use super::listener::{Listener, set_buffers};
use super::set_timeout;

pub(crate) fn listen(cell: &Cell, address: IpAddr, port: Option<u16>) -> io::Result<Listener> {
    let address = SocketAddr::from((address, port.unwrap_or(0)));
    listen_at(cell, address).map_err(|e| match port {
        Some(port) if e.kind() == io::ErrorKind::AddrInUse => io::Error::new(
            io::ErrorKind::AddrInUse,
            format!("port {port} is in use: choose another with --port, or leave it out to take a free one"),
        ),
        _ => e,
    })
}

/// Listens with TCP at any address of this machine; port 0 takes a free one, else `AddrInUse`.
pub fn listen_at(cell: &Cell, address: SocketAddr) -> io::Result<Listener> {
    let socket = socket(cell, address)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    let explained = |e| not_listening(e, address);
    rustix::net::bind(&socket, &address).map_err(explained)?;
    rustix::net::listen(&socket, 1024).map_err(explained)?;
    let bound = SocketAddr::try_from(rustix::net::getsockname(&socket)?)?;
    Ok(Listener {
        socket,
        address: bound.to_string(),
        nodelay: Some(cell.sends_at_once()),
    })
}

pub(super) fn connect(cell: &Cell, address: &str, timeout: Duration) -> io::Result<OwnedFd> {
    let address: SocketAddr = address.parse().map_err(|_| io::ErrorKind::InvalidInput)?;
    let socket = socket(cell, address)?;
    sockopt::set_tcp_nodelay(&socket, cell.sends_at_once())?;
    set_timeout(&socket, timeout)?;
    // Work of io_uring for this thread interrupts a connect with a time limit; the next call continues it.
    match retry_on_intr(|| rustix::net::connect(&socket, &address)) {
        // The time limit has ended the connect, socket(7).
        Err(Errno::INPROGRESS) => Err(io::ErrorKind::TimedOut.into()),
        Err(Errno::ADDRNOTAVAIL) => Err(io::Error::new(
            io::ErrorKind::AddrNotAvailable,
            no_port_left(),
        )),
        connected => Ok(connected.map(|()| socket)?),
    }
}

/// The cell whose options a receiver's sockets have. Data leave by the sender's congestion control: a
/// receiver that may not set it keeps that of its host.
pub(crate) fn of_receiver(cell: &Cell) -> Cow<'_, Cell> {
    let may_be_set = || socket(cell, (Ipv4Addr::LOCALHOST, 0).into()).is_ok();
    if !cell.transport.is_tcp() || cell.congestion == "default" || may_be_set() {
        return Cow::Borrowed(cell);
    }
    Cow::Owned(Cell {
        congestion: "default".to_owned(),
        ..cell.clone()
    })
}

/// A socket with the cell's options, before the handshake so that they take effect in full.
pub(crate) fn socket(cell: &Cell, address: SocketAddr) -> io::Result<OwnedFd> {
    let socket = bytecost_sys::tcp::socket(address, SocketFlags::empty())?;
    set_buffers(&socket, cell)?;
    if cell.congestion != "default" {
        let name = &cell.congestion;
        sockopt::set_tcp_congestion(&socket, name).map_err(|e| {
            let why = format!(
                "congestion control `{name}` cannot be set ({e}): net.ipv4.tcp_available_congestion_control lists what is there"
            );
            io::Error::new(io::Error::from(e).kind(), why)
        })?;
    }
    Ok(socket)
}
