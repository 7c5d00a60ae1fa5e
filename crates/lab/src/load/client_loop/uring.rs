//! The loop on io_uring(7): one system call sends and receives everything of a round.

use std::io;
use std::time::Duration;

use bytecost_engine::services::Framing;
use bytecost_sys::clock::monotonic_ns;
use bytecost_sys::uring_client::{ClientEvent, UringClient};
use bytecost_sys::uring_connections::Piece;
use rustix::io::Errno;
use rustix::net::SocketFlags;

use super::{ClientLoop, LoopEvent, Source, WaitTimes};
use crate::load::{Load, LoadError};

/// The usual length of a request that is a line; a longer one costs an allocation.
const REQUEST_LINE_BYTES: usize = 64;
/// The usual length of a response that is a line; a longer one comes in several pieces.
const RESPONSE_LINE_BYTES: usize = 4096;

pub(in crate::load) struct UringLoop {
    load: Load,
    client: UringClient,
    source: Source,
    /// The last byte of the source address that each client has tried last.
    source_bytes: Vec<u8>,
    /// The time of the last events, in ns of CLOCK_MONOTONIC.
    events_ns: u64,
}

impl UringLoop {
    pub(in crate::load) fn new(load: &Load) -> io::Result<UringLoop> {
        let bytes = |framing, line_bytes| match framing {
            Framing::Size(size) => size,
            Framing::Line => line_bytes,
        };
        let (service, size) = (load.service, load.asking.size);
        let request_bytes = bytes((service.request_framing)(size), REQUEST_LINE_BYTES);
        let response_bytes = bytes((service.response_framing)(size), RESPONSE_LINE_BYTES);
        let lines = load.connections + load.idle;
        let sizes = [load.at_once() * request_bytes, response_bytes];
        Ok(UringLoop {
            client: UringClient::new(load.address, lines, load.connections, sizes, load.kept)?,
            source: Source::new(load),
            source_bytes: vec![0; lines as usize],
            events_ns: monotonic_ns(),
            load: load.clone(),
        })
    }

    fn try_to_connect(&mut self, i: u32) -> Result<(), LoadError> {
        // A blocking socket: a request of the ring waits in the kernel, and blocks nobody.
        let socket =
            (self.source.socket(&self.load, SocketFlags::empty())).map_err(|_| LoadError::Local)?;
        self.source_bytes[i as usize] = self.source.last_byte;
        self.client.connect(i, socket).map_err(|e| load_error(&e))
    }

    /// Tries to connect from the next source address. Returns false if there is no reason to, or it failed.
    fn retry(&mut self, i: u32, error: &io::Error) -> bool {
        let source_byte = self.source_bytes[i as usize];
        Errno::from_io_error(error).is_some_and(|e| self.source.advance(e, source_byte))
            && self.try_to_connect(i).is_ok()
    }
}

impl ClientLoop for UringLoop {
    type Piece = Piece;

    fn connect(&mut self, i: u32) -> Result<bool, LoadError> {
        self.try_to_connect(i).map(|()| false)
    }

    fn close(&mut self, i: u32) {
        self.client.disconnect(i);
    }

    fn send(&mut self, i: u32, compose: impl FnOnce(&mut Vec<u8>)) -> Result<bool, LoadError> {
        let sent = self.client.send(i, compose);
        sent.map(|()| false).map_err(|e| load_error(&e))
    }

    fn wait(&mut self, most_ns: u64) -> io::Result<WaitTimes> {
        // This call sends all requests, and receives the bytes that have arrived.
        self.client.exchange()?;
        let from_ns = monotonic_ns();
        self.events_ns = from_ns;
        if most_ns > 0 && !self.client.has_event() {
            self.client.wait(Duration::from_nanos(most_ns))?;
            self.events_ns = monotonic_ns();
        }
        let to_ns = self.events_ns;
        Ok(WaitTimes { from_ns, to_ns })
    }

    fn next_event(&mut self) -> Option<LoopEvent<Piece>> {
        loop {
            let error = |e: io::Error| load_error(&e);
            return Some(match self.client.next_event()? {
                ClientEvent::Connected(line, Err(e)) if self.retry(line, &e) => continue,
                ClientEvent::Connected(line, result) => {
                    LoopEvent::Connected(line, result.map_err(error))
                }
                ClientEvent::Received(line, result) => {
                    let received = result.map_err(error);
                    LoopEvent::Received(
                        line,
                        received.and_then(|piece| piece.ok_or(LoadError::Closed)),
                    )
                }
                ClientEvent::Sent(line, result) => LoopEvent::Sent(line, result.map_err(error)),
            });
        }
    }

    fn bytes(&self, piece: &Piece) -> &[u8] {
        self.client.bytes(piece)
    }

    fn release(&mut self, piece: Piece) {
        self.client.give_back(piece);
    }

    fn receive_more(&mut self, i: u32) {
        // If this fails, nothing more is received, and the client's request times out.
        let _ = self.client.receive(i);
    }

    /// The time at which the system call of the round returned.
    fn now_ns(&self) -> u64 {
        self.events_ns
    }
}

fn load_error(error: &io::Error) -> LoadError {
    Errno::from_io_error(error).map_or(LoadError::Local, LoadError::from)
}
