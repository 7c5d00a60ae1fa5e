//! `fixed`: every line is answered with the same bytes, so many as asked for at the start.
//!
//! It is a server of static content without the search for a file. The response is lines of letters, so
//! that a person can read it.

use crate::services::{
    Framing, MOST_ANSWER_BYTES, Requester, Responder, Service, ServiceFacts, ServiceSetup,
};

pub const SERVICE: Service = Service {
    facts: ServiceFacts {
        name: "fixed",
        summary: "responds to every line with the same --size bytes",
        sizes: Some((1, MOST_ANSWER_BYTES as u64)),
    },
    request_framing: |_| Framing::Line,
    response_framing: Framing::Size,
    responder: |setup| Box::new(Fixed::new(setup)),
    requester: |setup| Box::new(Fixed::new(setup)),
};

const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-\n";

struct Fixed {
    content: Vec<u8>,
}

impl Fixed {
    fn new(setup: &ServiceSetup) -> Fixed {
        let mut content: Vec<u8> = LETTERS.iter().copied().cycle().take(setup.size).collect();
        if let Some(last) = content.last_mut() {
            *last = b'\n';
        }
        Fixed { content }
    }
}

impl Responder for Fixed {
    fn append_response(&mut self, _request: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(&self.content);
    }
}

impl Requester for Fixed {
    fn append_request(&self, _connection: u32, _number: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(b"get\n");
    }

    fn is_right(&self, _connection: u32, _number: u64, at: usize, piece: &[u8]) -> bool {
        self.content.get(at..at + piece.len()) == Some(piece)
    }
}
