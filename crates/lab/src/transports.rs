//! Connections between the two ends, made with the options of a cell.
//!
//! A new transport is a variant in `crates/spec/src/cell/choices.rs` with its properties, a file here
//! that makes it and gives it back, and the arms that the compiler asks for here and in `networks.rs`.
//! Nothing of it may be left however the run ends; `crates/bytecost/tests/veth.rs` shows the tests.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use bytecost_spec::{Cell, Transport};

pub use crate::socket::{Socket, set_timeout};
pub use listener::Listener;
pub use tcp::listen_at;
pub(crate) use tcp::{listen as listen_for_peer, of_receiver, socket as tcp_socket};

pub mod link;
mod listener;
mod tcp;
mod unix;
pub mod veth;
pub mod wire;

/// Opens the receiving end of a cell's transport: for [`Transport::Veth`] within the receiver's
/// namespace ([`veth::VethPair`]), for [`Transport::Peer`] as `listen_for_peer`. A port in use is
/// said as such.
pub fn listen(cell: &Cell, port: Option<u16>) -> io::Result<Listener> {
    let why = match cell.transport {
        Transport::Loopback => return tcp::listen(cell, Ipv4Addr::LOCALHOST.into(), port),
        Transport::Unix => return unix::listen(cell),
        Transport::Veth => return tcp::listen(cell, veth::RECEIVER.into(), port),
        Transport::Wire => "nobody listens over wire: a responder acknowledges",
        Transport::Peer => "no other host is known: name it with --peer",
    };
    Err(io::Error::new(io::ErrorKind::Unsupported, why))
}

/// Connects to the receiving end. The handshake and each later wait on the socket end within
/// `timeout`, with `TimedOut` where nobody answers.
pub fn connect(cell: &Cell, address: &str, timeout: Duration) -> io::Result<OwnedFd> {
    match cell.transport {
        Transport::Loopback | Transport::Veth | Transport::Wire | Transport::Peer => {
            tcp::connect(cell, address, timeout)
        }
        Transport::Unix => unix::connect(cell, address, timeout),
    }
}

/// Ends the stream of a sender: the other end reads what is left of it, then its end.
pub fn close(socket: &OwnedFd) -> io::Result<()> {
    Ok(rustix::net::shutdown(socket, rustix::net::Shutdown::Write)?)
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use bytecost_spec::Axis;
    use rustix::net::sockopt;

    fn cell(values: &[(Axis, &str)]) -> Cell {
        // A congestion control that users may set everywhere.
        let usual = Cell::default().with(&[(Axis::Congestion, "reno")]).unwrap();
        usual.with(values).unwrap()
    }

    const SHORT: Duration = Duration::from_millis(20);
    const LONG: Duration = Duration::from_secs(60);

    /// Those whose ends are in this process's own network; veth has tests of its own.
    const HERE: [Transport; 2] = [Transport::Loopback, Transport::Unix];

    // Invariant 10.
    #[test]
    fn no_other_machine_can_reach_a_listener() {
        for transport in HERE {
            let cell = cell(&[(Axis::Transport, transport.name())]);
            let address = listen(&cell, None).unwrap().address();
            match address.parse::<SocketAddr>() {
                Ok(tcp) => assert!(tcp.ip().is_loopback(), "{address}"),
                Err(_) => assert_eq!(transport, Transport::Unix, "{address}"),
            }
        }
    }

    #[test]
    fn the_cell_decides_the_options_of_both_ends() {
        let cell = cell(&[
            (Axis::Congestion, "reno"),
            (Axis::SocketBuffer, "64KiB"),
            (Axis::Nodelay, "off"),
        ]);
        let listener = listen(&cell, None).unwrap();
        let a = connect(&cell, &listener.address(), LONG).unwrap();
        let b = listener.accept(LONG).unwrap();
        for socket in [&a, &b] {
            assert_eq!(sockopt::tcp_congestion(socket).unwrap(), "reno");
            assert!(!sockopt::tcp_nodelay(socket).unwrap());
            assert_eq!(sockopt::socket_send_buffer_size(socket).unwrap(), 131_072);
            assert_eq!(sockopt::socket_recv_buffer_size(socket).unwrap(), 131_072);
        }
    }

    #[test]
    fn a_port_in_use_is_said_with_what_to_do() {
        let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = held.local_addr().unwrap().port();
        let error = listen(&cell(&[]), Some(port)).err().unwrap().to_string();
        assert!(error.contains(&format!("port {port} is in use")), "{error}");
        assert!(error.contains("--port"), "{error}");
    }

    #[test]
    fn an_unknown_congestion_control_is_named() {
        let cell = cell(&[(Axis::Congestion, "tachyon")]);
        let error = listen(&cell, None).err().unwrap().to_string();
        for word in ["tachyon", "tcp_available_congestion_control"] {
            assert!(error.contains(word), "{error}");
        }
    }

    // Invariant 8.
    #[test]
    fn nobody_is_waited_for_without_end() {
        let listener = listen(&cell(&[]), None).unwrap();
        let not_accepted = listener.accept(SHORT).unwrap_err();
        assert_eq!(not_accepted.kind(), io::ErrorKind::TimedOut);
        // The kernel answers no handshake while the queue of a listener is full.
        rustix::net::listen(&listener.socket, 0).unwrap();
        let to = listener.address();
        let _waiting = connect(&cell(&[]), &to, LONG).unwrap();
        let not_connected = connect(&cell(&[]), &to, SHORT).unwrap_err();
        assert_eq!(not_connected.kind(), io::ErrorKind::TimedOut);
    }
}
