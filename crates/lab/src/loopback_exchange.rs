//! A connection of this process with itself, whose packets are known to those who count.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;

use bytecost_evidence::Events;

use crate::endpoint_process::TIMEOUT;

const MESSAGE_BYTES: usize = 100;

/// The sending and the receiving end of a connection over loopback, which sends at once.
pub(crate) fn connection() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let sending = TcpStream::connect_timeout(&listener.local_addr()?, TIMEOUT)?;
    sending.set_nodelay(true)?;
    let (taking, _) = listener.accept()?;
    taking.set_read_timeout(Some(TIMEOUT))?;
    Ok((sending, taking))
}

/// Counters of what a message takes besides bytes, each of which has counted known work.
pub(crate) fn events() -> io::Result<Events> {
    let (mut sending, mut taking) = connection()?;
    let mut message = [7; MESSAGE_BYTES];
    Events::open(Path::new("/"), sending.peer_addr()?.port(), || {
        sending.write_all(&message)?;
        taking.read_exact(&mut message)
    })
}
