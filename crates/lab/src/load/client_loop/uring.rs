//! The loop on io_uring: all that a round sends and receives goes through one system call.

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

/// Bytes of a request that is a line, and of an answer that is one; others take longer.
const SHORT_BYTES: usize = 64;
const LINE_BYTES: usize = 4096;

pub(in crate::load) struct UringLoop {
    load: Load,
    client: UringClient,
    source: Source,
    from: Vec<u8>,
    /// The time at which the last events were seen.
    seen_ns: u64,
}

impl UringLoop {
    pub(in crate::load) fn new(load: &Load) -> io::Result<UringLoop> {
        let bytes = |framing, line| match framing {
            Framing::Size(size) => size,
            Framing::Line => line,
        };
        let request_bytes = bytes((load.service.request)(load.asking.size), SHORT_BYTES);
        let answer_bytes = bytes((load.service.answer)(load.asking.size), LINE_BYTES);
        let lines = load.connections + load.idle;
        let sizes = [load.at_once() * request_bytes, answer_bytes];
        Ok(UringLoop {
            client: UringClient::new(load.address, lines, load.connections, sizes, load.kept)?,
            source: Source::new(load),
            from: vec![0; lines as usize],
            seen_ns: monotonic_ns(),
            load: load.clone(),
        })
    }

    fn try_to_connect(&mut self, i: u32) -> Result<(), LoadError> {
        // It blocks for others; the ring does not let it.
        let socket =
            (self.source.socket(&self.load, SocketFlags::empty())).map_err(|_| LoadError::Local)?;
        self.from[i as usize] = self.source.last;
        self.client.connect(i, socket).map_err(|e| load_error(&e))
    }

    fn may_retry(&mut self, i: u32, error: &io::Error) -> bool {
        let from = self.from[i as usize];
        Errno::from_io_error(error).is_some_and(|e| self.source.may_retry(e, from))
            && self.try_to_connect(i).is_ok()
    }
}

impl ClientLoop for UringLoop {
    type Piece = Piece;

    fn connect(&mut self, i: u32) -> Result<bool, LoadError> {
        self.try_to_connect(i).map(|()| false)
    }

    fn close(&mut self, i: u32) {
        self.client.hang_up(i);
    }

    fn send(&mut self, i: u32, compose: impl FnOnce(&mut Vec<u8>)) -> Result<bool, LoadError> {
        let sent = self.client.send(i, compose);
        sent.map(|()| false).map_err(|e| load_error(&e))
    }

    fn wait(&mut self, most_ns: u64) -> io::Result<WaitTimes> {
        // What is to be sent is sent within this call, and what has come by then is received.
        self.client.exchange()?;
        let from_ns = monotonic_ns();
        self.seen_ns = from_ns;
        if most_ns > 0 && !self.client.has_event() {
            self.client.wait(Duration::from_nanos(most_ns))?;
            self.seen_ns = monotonic_ns();
        }
        let to_ns = self.seen_ns;
        Ok(WaitTimes { from_ns, to_ns })
    }

    fn next_event(&mut self) -> Option<LoopEvent<Piece>> {
        loop {
            let error = |e: io::Error| load_error(&e);
            return Some(match self.client.next_event()? {
                ClientEvent::Connected(line, Err(e)) if self.may_retry(line, &e) => continue,
                ClientEvent::Connected(line, result) => {
                    LoopEvent::Connected(line, result.map_err(error))
                }
                ClientEvent::Received(line, piece) => {
                    let received = piece.map_err(error);
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
        // If that is refused, nothing more comes, and the timeout ends it.
        let _ = self.client.listen(i);
    }

    /// All events of a round were seen when its call returned.
    fn now_ns(&self) -> u64 {
        self.seen_ns
    }
}

fn load_error(error: &io::Error) -> LoadError {
    Errno::from_io_error(error).map_or(LoadError::Local, LoadError::from)
}
