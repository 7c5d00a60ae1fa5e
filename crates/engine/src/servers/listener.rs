//! The socket that a server listens on.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use bytecost_spec::CircumstanceKind;
use bytecost_sys::tcp;
use rustix::io::Errno;
use rustix::net::{SocketFlags, sockopt};

/// Connections that wait until they are taken. The kernel caps it at net.core.somaxconn (4096).
const BACKLOG: i32 = 4096;

/// A TCP socket that listens, and its address with the port that it got. Connections inherit
/// TCP_NODELAY (an answer must not wait for the acknowledgement of the one before) and the server's
/// [`patience`](super::Limits::patience) as their timeouts, also those that come before it serves. The errors of a port
/// in use and of an absent address have a remedy.
pub fn listen(address: SocketAddr, patience: Duration) -> io::Result<(OwnedFd, SocketAddr)> {
    let socket = tcp::socket(address, SocketFlags::empty())?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    for which in [sockopt::Timeout::Recv, sockopt::Timeout::Send] {
        sockopt::set_socket_timeout(&socket, which, Some(patience))?;
    }
    rustix::net::bind(&socket, &address).map_err(|e| not_listening(e, address))?;
    rustix::net::listen(&socket, BACKLOG).map_err(|e| not_listening(e, address))?;
    let bound = SocketAddr::try_from(rustix::net::getsockname(&socket)?)?;
    Ok((socket, bound))
}

/// The reason why the kernel finds no port for a socket that may have any, as an error in words.
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
    use crate::servers::{Limits, Server, ServerSetup};
    use crate::services::{Service, ServiceSetup};
    use std::io::{Read as _, Write as _};
    use std::net::{Ipv4Addr, TcpStream};

    const LONG: Duration = Duration::from_secs(60);

    // Invariant 8.
    #[test]
    fn a_client_that_comes_before_its_server_serves_cannot_stall_it() {
        let patience = Duration::from_millis(100);
        for name in ["single", "thread"] {
            let (listener, address) = listen((Ipv4Addr::LOCALHOST, 0).into(), patience).unwrap();
            let mut early = TcpStream::connect(address).unwrap();
            early.write_all(b"half of a request").unwrap();
            let (stop, stopped) = rustix::pipe::pipe().unwrap();
            let setup = ServerSetup {
                listener,
                stop,
                service: Service::named("echo").unwrap(),
                serving: ServiceSetup::new(64),
                workers: 1,
                limits: Limits {
                    patience,
                    ..Limits::default()
                },
            };
            let serve = Server::named(name).unwrap().serve;
            let server = std::thread::spawn(move || serve(setup).unwrap());
            early.set_read_timeout(Some(LONG)).unwrap();
            assert_eq!(early.read(&mut [0; 64]).unwrap(), 0, "{name}");
            drop(stopped);
            assert_eq!(server.join().unwrap().timed_out, 1, "{name}");
        }
    }

    #[test]
    fn what_cannot_be_listened_on_is_said_with_what_to_do() {
        let (_held, address) = listen((Ipv4Addr::LOCALHOST, 0).into(), LONG).unwrap();
        let check = |at, kind, words: &str| {
            let error = listen(at, LONG).unwrap_err();
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
