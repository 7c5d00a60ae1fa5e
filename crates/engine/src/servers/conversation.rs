//! The requests of a connection, answered in their order. It has no socket, so that all models use it.

use std::time::{Duration, Instant};

use crate::servers::{ServerSetup, ServerTally};
use crate::services::{
    FirstMessage, Framing, MOST_REQUEST_BYTES, MOST_UNSENT_BYTES, Responder, TOO_LONG,
    TURN_REQUESTS,
};

/// The longest turn of a connection: other connections, and the end of the server, wait no longer for a
/// client that sends many requests at once.
const TURN_TIME: Duration = Duration::from_millis(1);
pub(super) const READ_BYTES: usize = 16 << 10;
/// Bytes that are discarded after a request that was too long, before the connection is closed.
const MOST_DISCARDED_BYTES: usize = 64 << 20;

/// State of a server thread that its connections share, so that a silent connection needs no memory.
pub(super) struct Worker {
    framing: Framing,
    responder: Box<dyn Responder>,
    pub(super) buffer: Box<[u8]>,
    pub(super) out: Vec<u8>,
    pub(super) tally: ServerTally,
    /// The longest time from the first response that did not fit into the socket until all are sent.
    pub(super) response: Option<Duration>,
    /// The longest time from the first bytes of a connection to its end.
    lifetime: Option<Duration>,
}

impl Worker {
    pub(super) fn new(setup: &ServerSetup) -> Worker {
        Worker::opener(setup)()
    }

    pub(super) fn opener(setup: &ServerSetup) -> impl Fn() -> Worker + Clone + Send + 'static {
        let (service, serving) = (setup.service, setup.serving.clone());
        let (response, lifetime) = (setup.limits.response, setup.limits.lifetime);
        move || Worker {
            framing: (service.request_framing)(serving.size),
            responder: (service.responder)(&serving),
            buffer: vec![0; READ_BYTES].into(),
            out: Vec::new(),
            tally: ServerTally::default(),
            response,
            lifetime,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// The client may send requests.
    #[default]
    Open,
    /// The client has ended its output. Requests that it has sent are answered.
    Ended,
    /// The lifetime of the connection has passed. No request is answered.
    Expired,
    /// A request was too long. Bytes are received and discarded, so that the client can read the
    /// error: after a close TCP would answer them with a reset, which destroys unread responses.
    Discarding,
}

/// The requests of one connection that are not answered yet.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    /// Received bytes that are not answered: a part of a request, or requests that wait.
    received: Vec<u8>,
    /// Number of first bytes of `received` that are known to have no end of a request.
    searched: usize,
    /// True if `received` is known to have no complete request.
    is_incomplete: bool,
    phase: Phase,
    discarded_bytes: usize,
    /// The time from which on no request is answered; only where a connection has a lifetime.
    ends_at: Option<Instant>,
}

impl Conversation {
    /// Receives the first `length` bytes of the worker's buffer, and appends responses to its `out`.
    /// Returns the number of answered requests.
    pub(super) fn receive(&mut self, worker: &mut Worker, length: usize) -> u64 {
        let buffer = std::mem::take(&mut worker.buffer);
        let answered = self.receive_bytes(worker, &buffer[..length.min(buffer.len())]);
        worker.buffer = buffer;
        answered
    }

    pub(super) fn receive_bytes(&mut self, worker: &mut Worker, bytes: &[u8]) -> u64 {
        match (worker.lifetime, self.ends_at) {
            (Some(lifetime), None) => self.ends_at = Some(Instant::now() + lifetime),
            (_, Some(_)) if self.phase == Phase::Open && self.is_expired() => {
                self.phase = Phase::Expired;
                worker.tally.expired += 1;
            }
            _ => {}
        }
        if self.phase == Phase::Expired {
            return 0;
        }
        if self.phase == Phase::Discarding {
            self.discarded_bytes += bytes.len();
            return 0;
        }
        if !self.received.is_empty() {
            self.received.extend_from_slice(bytes);
            return self.resume(worker);
        }
        let (answered, used) = self.respond(worker, bytes);
        self.received.extend_from_slice(&bytes[used..]);
        answered
    }

    /// Receives bytes that are answered later, by [`Conversation::resume`].
    pub(super) fn postpone(&mut self, bytes: &[u8]) {
        if self.phase == Phase::Discarding {
            self.discarded_bytes += bytes.len();
        } else {
            self.received.extend_from_slice(bytes);
            self.is_incomplete = false;
        }
    }

    pub(super) fn unanswered_bytes(&self) -> usize {
        self.received.len()
    }

    pub(super) fn is_ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// Answers requests that wait, when the worker's `out` has room again. Returns their number.
    pub(super) fn resume(&mut self, worker: &mut Worker) -> u64 {
        let received = std::mem::take(&mut self.received);
        let (answered, used) = self.respond(worker, &received);
        self.received = received;
        self.received.drain(..used);
        if self.received.is_empty() {
            // A silent connection needs no memory.
            self.received = Vec::new();
        }
        answered
    }

    /// Appends responses to the requests in `bytes`, within one turn. Returns the number of requests and
    /// that of their bytes.
    fn respond(&mut self, worker: &mut Worker, bytes: &[u8]) -> (u64, usize) {
        let (mut answered, mut used) = (0, 0);
        // The clock is read from the second request on, not for a single one.
        let mut began: Option<Instant> = None;
        self.is_incomplete = false;
        while worker.out.len() < MOST_UNSENT_BYTES && answered < TURN_REQUESTS {
            if answered > 0
                && used < bytes.len()
                && began.get_or_insert_with(Instant::now).elapsed() > TURN_TIME
            {
                break;
            }
            match worker.framing.first_message(&bytes[used..], self.searched) {
                FirstMessage::Complete(length) => {
                    let request = &bytes[used..used + length];
                    worker.responder.append_response(request, &mut worker.out);
                    used += length;
                    answered += 1;
                    self.searched = 0;
                }
                FirstMessage::Incomplete => {
                    self.searched = bytes.len() - used;
                    self.is_incomplete = true;
                    break;
                }
                FirstMessage::TooLong => {
                    worker.out.extend_from_slice(TOO_LONG);
                    worker.tally.too_long += 1;
                    self.phase = Phase::Discarding;
                    self.is_incomplete = true;
                    used = bytes.len();
                    break;
                }
            }
        }
        worker.tally.requests += answered;
        (answered, used)
    }

    pub(super) fn end(&mut self) {
        self.phase = Phase::Ended;
    }

    pub(super) fn has_more(&self) -> bool {
        !self.received.is_empty() && !self.is_incomplete
    }

    /// Returns true if the client has sent a part of a request, or is being closed after an error.
    pub(super) fn awaits_client(&self) -> bool {
        !self.received.is_empty() || self.phase == Phase::Discarding
    }

    /// Returns true if an error was sent to the client, so that the connection must end.
    pub(super) fn is_discarding(&self) -> bool {
        self.phase == Phase::Discarding
    }

    /// Returns true if the lifetime of the connection has passed.
    pub(super) fn is_expired(&self) -> bool {
        self.ends_at.is_some_and(|at| Instant::now() >= at)
    }

    /// Returns true if the connection is to be closed once all responses are sent.
    pub(super) fn is_over(&self) -> bool {
        match self.phase {
            Phase::Open => false,
            Phase::Expired => true,
            Phase::Ended => !self.has_more(),
            Phase::Discarding => self.discarded_bytes > MOST_DISCARDED_BYTES,
        }
    }
}

const _: () = assert!(MOST_UNSENT_BYTES >= MOST_REQUEST_BYTES + TOO_LONG.len());

#[cfg(test)]
mod tests {
    use super::*;
    use crate::services::{Service, ServiceSetup};

    fn worker(service: &str, size: usize) -> Worker {
        let service = Service::named(service).unwrap();
        let serving = ServiceSetup::new(size);
        Worker {
            framing: (service.request_framing)(size),
            responder: (service.responder)(&serving),
            buffer: Box::default(),
            out: Vec::new(),
            tally: ServerTally::default(),
            response: None,
            lifetime: None,
        }
    }

    #[test]
    fn responses_wait_until_earlier_ones_are_sent() {
        let (mut worker, mut conversation) = (worker("fixed", 100_000), Conversation::default());
        let (mut sent, mut turns) = (0, 0);
        conversation.receive_bytes(&mut worker, &b"get\n".repeat(10));
        conversation.end();
        loop {
            assert!(worker.out.len() < MOST_UNSENT_BYTES + 100_000);
            sent += worker.out.len();
            turns += 1;
            worker.out.clear();
            if !conversation.has_more() {
                break;
            }
            assert!(!conversation.is_over());
            conversation.resume(&mut worker);
        }
        assert_eq!((sent, worker.tally.requests), (1_000_000, 10));
        // Not more than three responses wait to be sent.
        assert!(turns >= 4, "{turns}");
        assert!(conversation.is_over() && !conversation.awaits_client());
    }

    #[test]
    fn a_turn_answers_a_few_requests_however_many_were_sent() {
        let (mut worker, mut conversation) = (worker("fixed", 3), Conversation::default());
        assert!(conversation.receive_bytes(&mut worker, &b"\n".repeat(20)) <= TURN_REQUESTS);
        while conversation.has_more() {
            assert!(conversation.resume(&mut worker) <= TURN_REQUESTS);
        }
        assert_eq!(worker.tally.requests, 20);
    }

    #[test]
    fn a_line_without_end_is_refused_once_and_then_discarded() {
        let (mut worker, mut conversation) = (worker("fixed", 3), Conversation::default());
        conversation.receive_bytes(&mut worker, b"get\nget\n");
        while conversation.has_more() {
            conversation.resume(&mut worker);
        }
        let piece = vec![b'x'; READ_BYTES];
        for _ in 0..=MOST_DISCARDED_BYTES / READ_BYTES {
            assert!(!conversation.is_over());
            conversation.receive_bytes(&mut worker, &piece);
            assert!(conversation.unanswered_bytes() < MOST_REQUEST_BYTES);
        }
        assert!(conversation.is_discarding());
        conversation.receive_bytes(&mut worker, b"\nget\n");
        assert_eq!(worker.out, [b"ab\nab\n", TOO_LONG].concat());
        assert_eq!((worker.tally.requests, worker.tally.too_long), (2, 1));
        (0..MOST_REQUEST_BYTES / READ_BYTES).for_each(|_| {
            conversation.receive_bytes(&mut worker, &piece);
        });
        assert!(conversation.is_over());
    }
}
