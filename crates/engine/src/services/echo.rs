//! `echo`: every message of a fixed size comes back as it was.
//!
//! Messages have no delimiter, as in the usual measures of round trips: both sides know the size.

use crate::pattern::mix;
use crate::services::{Framing, MOST_REQUEST_BYTES, Requester, Responder, Service, ServiceFacts};

pub const SERVICE: Service = Service {
    facts: ServiceFacts {
        name: "echo",
        summary: "sends every message of a fixed size back",
        sizes: Some((1, MOST_REQUEST_BYTES as u64)),
    },
    request: Framing::Size,
    answer: Framing::Size,
    open: |_| Box::new(Echo),
    question: |setup| Box::new(Said::new(setup.size)),
};

/// Bytes at the beginning of a request that distinguish it from all others.
const MARK: usize = 8;
/// Number of different contents of the remainder; a prime, so that it has no period in common with others.
const SHIFTS: usize = 251;

struct Echo;

impl Responder for Echo {
    fn answer(&mut self, request: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(request);
    }
}

/// Messages that begin with a mark of their own and go on with a piece of a long pattern.
struct Said {
    size: usize,
    pattern: Vec<u8>,
}

impl Said {
    fn new(size: usize) -> Said {
        let pattern = (0..size + SHIFTS).map(|i| (i % SHIFTS) as u8).collect();
        Said { size, pattern }
    }

    fn mark(connection: u32, number: u64) -> u64 {
        mix((u64::from(connection) << 40) ^ number)
    }

    fn rest(&self, mark: u64) -> &[u8] {
        let start = (mark % SHIFTS as u64) as usize;
        &self.pattern[start..start + self.size.saturating_sub(MARK)]
    }
}

impl Requester for Said {
    fn ask(&self, connection: u32, number: u64, out: &mut Vec<u8>) {
        let mark = Said::mark(connection, number);
        out.extend_from_slice(&mark.to_le_bytes()[..self.size.min(MARK)]);
        out.extend_from_slice(self.rest(mark));
    }

    fn is_right(&self, connection: u32, number: u64, at: usize, piece: &[u8]) -> bool {
        let mark = Said::mark(connection, number);
        let bytes = mark.to_le_bytes();
        let marked = &bytes[at.min(MARK)..self.size.min(MARK).max(at.min(MARK))];
        let (head, tail) = piece.split_at(piece.len().min(marked.len()));
        let from = (at + head.len()).saturating_sub(MARK);
        let rest = self.rest(mark).get(from..from + tail.len());
        marked.starts_with(head) && rest == Some(tail)
    }
}
