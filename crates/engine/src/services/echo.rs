//! `echo`: every message of a fixed size comes back as it was.
//!
//! Messages have no delimiter, as in the usual measurements of round trips: both sides know the size.

use crate::pattern::mix;
use crate::services::{Framing, MOST_REQUEST_BYTES, Requester, Responder, Service, ServiceFacts};

pub const SERVICE: Service = Service {
    facts: ServiceFacts {
        name: "echo",
        summary: "sends every message of a fixed size back",
        sizes: Some((1, MOST_REQUEST_BYTES as u64)),
    },
    request_framing: Framing::Size,
    response_framing: Framing::Size,
    responder: |_| Box::new(Echo),
    requester: |setup| Box::new(EchoRequester::new(setup.size)),
};

/// Bytes of the mark, with which a request begins and which distinguishes it from all others.
const MARK_BYTES: usize = 8;
/// The number of different contents that can follow the mark; a prime, so that their sequence shares no
/// period with another one.
const SHIFTS: usize = 251;

struct Echo;

impl Responder for Echo {
    fn append_response(&mut self, request: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(request);
    }
}

/// Composes requests: a mark, then a piece of a long pattern.
struct EchoRequester {
    size: usize,
    pattern: Vec<u8>,
}

impl EchoRequester {
    fn new(size: usize) -> EchoRequester {
        let pattern = (0..size + SHIFTS).map(|i| (i % SHIFTS) as u8).collect();
        EchoRequester { size, pattern }
    }

    fn mark(connection: u32, number: u64) -> u64 {
        mix((u64::from(connection) << 40) ^ number)
    }

    fn rest(&self, mark: u64) -> &[u8] {
        let start = (mark % SHIFTS as u64) as usize;
        &self.pattern[start..start + self.size.saturating_sub(MARK_BYTES)]
    }
}

impl Requester for EchoRequester {
    fn append_request(&self, connection: u32, number: u64, out: &mut Vec<u8>) {
        let mark = EchoRequester::mark(connection, number);
        out.extend_from_slice(&mark.to_le_bytes()[..self.size.min(MARK_BYTES)]);
        out.extend_from_slice(self.rest(mark));
    }

    fn is_right(&self, connection: u32, number: u64, at: usize, piece: &[u8]) -> bool {
        let mark = EchoRequester::mark(connection, number);
        let bytes = mark.to_le_bytes();
        let marked = &bytes[at.min(MARK_BYTES)..self.size.min(MARK_BYTES).max(at.min(MARK_BYTES))];
        let (head, tail) = piece.split_at(piece.len().min(marked.len()));
        let from = (at + head.len()).saturating_sub(MARK_BYTES);
        let rest = self.rest(mark).get(from..from + tail.len());
        marked.starts_with(head) && rest == Some(tail)
    }
}
