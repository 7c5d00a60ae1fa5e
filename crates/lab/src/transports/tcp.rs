//! TCP over IPv4, between two addresses of this machine.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::time::Duration;

use bytecost_spec::Cell;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use super::{Listen, set_buffers};

struct Tcp {
    socket: OwnedFd,
    address: SocketAddrV4,
    nodelay: bool,
}

pub(super) fn listen(
    cell: &Cell,
    address: Ipv4Addr,
    port: Option<u16>,
) -> io::Result<Box<dyn Listen>> {
    let socket = socket(cell)?;
    let address = SocketAddrV4::new(address, port.unwrap_or(0));
    sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, &address).map_err(|e| match (e, port) {
        (rustix::io::Errno::ADDRINUSE, Some(port)) => io::Error::new(
            io::ErrorKind::AddrInUse,
            format!("port {port} is in use: choose another with --port, or leave it out to take a free one"),
        ),
        _ => e.into(),
    })?;
    rustix::net::listen(&socket, 1024)?;
    let address = match SocketAddr::try_from(rustix::net::getsockname(&socket)?) {
        Ok(SocketAddr::V4(address)) => address,
        _ => return Err(io::ErrorKind::AddrNotAvailable.into()),
    };
    Ok(Box::new(Tcp {
        socket,
        address,
        nodelay: cell.sends_at_once(),
    }))
}

pub(super) fn connect(cell: &Cell, address: &str) -> io::Result<OwnedFd> {
    let address: SocketAddrV4 = address.parse().map_err(|_| io::ErrorKind::InvalidInput)?;
    let socket = socket(cell)?;
    sockopt::set_tcp_nodelay(&socket, cell.sends_at_once())?;
    rustix::net::connect(&socket, &address)?;
    Ok(socket)
}

/// A socket with the cell's options; they must be set before the handshake to take effect in
/// full (the window scale depends on the buffer).
fn socket(cell: &Cell) -> io::Result<OwnedFd> {
    let socket = rustix::net::socket_with(
        AddressFamily::INET,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    set_buffers(&socket, cell)?;
    if cell.congestion != "default" {
        sockopt::set_tcp_congestion(&socket, &cell.congestion).map_err(|e| {
            io::Error::new(
                io::Error::from(e).kind(),
                format!(
                    "congestion control `{}` cannot be set ({e}): net.ipv4.tcp_available_congestion_control lists what is there",
                    cell.congestion
                ),
            )
        })?;
    }
    Ok(socket)
}

impl Listen for Tcp {
    fn address(&self) -> String {
        self.address.to_string()
    }

    fn accept(&self, patience: Duration) -> io::Result<OwnedFd> {
        let accepted = super::accept(&self.socket, patience)?;
        sockopt::set_tcp_nodelay(&accepted, self.nodelay)?;
        Ok(accepted)
    }
}
