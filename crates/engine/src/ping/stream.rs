//! Descriptors that bytes go through.

use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;

use super::{PingEnd, gone, silent};

/// Connections that are accepted at most until ours is among them: any process of the machine may connect.
const MOST_ACCEPTED: u32 = 100;

#[derive(Debug)]
pub struct StreamEnd {
    from: Arc<OwnedFd>,
    to: Arc<OwnedFd>,
    calls: u64,
}

impl StreamEnd {
    fn new(from: OwnedFd, to: OwnedFd) -> StreamEnd {
        StreamEnd {
            from: Arc::new(from),
            to: Arc::new(to),
            calls: 0,
        }
    }

    fn from_socket(socket: impl Into<OwnedFd>) -> StreamEnd {
        let socket = Arc::new(socket.into());
        StreamEnd {
            from: Arc::clone(&socket),
            to: socket,
            calls: 0,
        }
    }
}

/// Both ends of two pipes, one for each direction.
pub fn pipes() -> io::Result<(StreamEnd, StreamEnd)> {
    let (there_reader, there_writer) = io::pipe()?;
    let (back_reader, back_writer) = io::pipe()?;
    let asks = StreamEnd::new(back_reader.into(), there_writer.into());
    let answers = StreamEnd::new(there_reader.into(), back_writer.into());
    Ok((asks, answers))
}

/// Both ends of a Unix stream socket.
pub fn unix(patience: Duration) -> io::Result<(StreamEnd, StreamEnd)> {
    let (asks, answers) = UnixStream::pair()?;
    for end in [&asks, &answers] {
        end.set_read_timeout(Some(patience))?;
    }
    Ok((
        StreamEnd::from_socket(asks),
        StreamEnd::from_socket(answers),
    ))
}

/// Both ends of a TCP connection over the loopback device, with TCP_NODELAY.
pub fn tcp(patience: Duration) -> io::Result<(StreamEnd, StreamEnd)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let asks = TcpStream::connect_timeout(&listener.local_addr()?, patience)?;
    for _ in 0..MOST_ACCEPTED {
        let (answers, peer) = listener.accept()?;
        if peer != asks.local_addr()? {
            continue;
        }
        for end in [&asks, &answers] {
            end.set_read_timeout(Some(patience))?;
            end.set_nodelay(true)?;
        }
        return Ok((
            StreamEnd::from_socket(asks),
            StreamEnd::from_socket(answers),
        ));
    }
    let why = "too many strangers connected";
    Err(io::Error::new(io::ErrorKind::ConnectionRefused, why))
}

/// The error of a read or write: [`gone`] if the other side has closed, [`silent`] if the wait timed out.
fn side_error(error: Errno) -> io::Error {
    match error {
        Errno::PIPE | Errno::CONNRESET => gone(),
        Errno::AGAIN => silent(),
        other => other.into(),
    }
}

impl PingEnd for StreamEnd {
    fn give(&mut self, number: u64) -> io::Result<()> {
        let bytes = number.to_ne_bytes();
        let mut done = 0;
        while done < bytes.len() {
            self.calls += 1;
            match rustix::io::write(&*self.to, &bytes[done..]) {
                Ok(n) => done += n,
                Err(Errno::INTR) => {}
                Err(e) => return Err(side_error(e)),
            }
        }
        Ok(())
    }

    fn take(&mut self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        let mut got = 0;
        while got < bytes.len() {
            self.calls += 1;
            match rustix::io::read(&*self.from, &mut bytes[got..]) {
                Ok(0) => return Err(gone()),
                Ok(n) => got += n,
                Err(Errno::INTR) => {}
                Err(e) => return Err(side_error(e)),
            }
        }
        Ok(u64::from_ne_bytes(bytes))
    }

    fn calls(&self) -> u64 {
        self.calls
    }
}
