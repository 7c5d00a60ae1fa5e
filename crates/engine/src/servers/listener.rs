//! The socket that a server listens on.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use bytecost_spec::CircumstanceKind;
use bytecost_sys::tcp;
use rustix::io::Errno;
use rustix::net::{SocketFlags, sockopt};

/// Connections that wait until they are taken. The kernel caps it at net.core.somaxconn (4096).
const BACKLOG: i32 = 4096;

/// A TCP socket that listens, and its address with the port that it got. Connections inherit
/// TCP_NODELAY: an answer must not wait for the acknowledgement of the one before. The errors of a
/// port in use and of an absent address have a remedy.
pub fn listen(address: SocketAddr) -> io::Result<(OwnedFd, SocketAddr)> {
    let socket = tcp::socket(address, SocketFlags::empty())?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    rustix::net::bind(&socket, &address).map_err(|e| not_listening(e, address))?;
    rustix::net::listen(&socket, BACKLOG).map_err(|e| not_listening(e, address))?;
    let address = SocketAddr::try_from(rustix::net::getsockname(&socket)?)?;
    Ok((socket, address))
}

/// Why the kernel finds no port for a socket that may have any.
pub fn no_port_left() -> String {
    format!(
        "no port is left (net.ipv4.ip_local_port_range): {}",
        CircumstanceKind::Ports.row().remedy
    )
}

/// The error of bind(2) or listen(2), with its remedy where there is one.
pub fn not_listening(error: Errno, address: SocketAddr) -> io::Error {
    let kind = io::Error::from(error).kind();
    let text = match error {
        Errno::ADDRINUSE if address.port() == 0 => no_port_left(),
        Errno::ADDRINUSE => format!(
            "port {} is in use: choose another, or 0 to take a free one",
            address.port()
        ),
        Errno::ADDRNOTAVAIL => format!(
            "{} is no address of this machine: `ip address` lists those that are, and `ip link set lo up` gives it those of loopback; where it has IPv6 alone, ::1 is one",
            address.ip()
        ),
        Errno::ACCESS => format!(
            "port {} is privileged: choose one from 1024 on, or 0 to take a free one",
            address.port()
        ),
        _ => return error.into(),
    };
    io::Error::new(kind, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn what_cannot_be_listened_on_is_said_with_what_to_do() {
        let (_held, address) = listen((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let check = |address, kind, words: &str| {
            let error = listen(address).unwrap_err();
            assert_eq!(error.kind(), kind);
            assert!(error.to_string().contains(words), "{error}");
        };
        let in_use = format!("port {} is in use: choose another", address.port());
        check(address, io::ErrorKind::AddrInUse, &in_use);
        for ip in ["192.0.2.1", "2001:db8::1"] {
            let elsewhere = SocketAddr::new(ip.parse().unwrap(), 0);
            let words = format!("{ip} is no address");
            check(elsewhere, io::ErrorKind::AddrNotAvailable, &words);
        }
    }
}
