//! Bytes become requests, answered in their order. No socket is known here: all models can use it.

use std::time::{Duration, Instant};

use crate::servers::{ServerSetup, ServerTally};
use crate::services::{
    Cut, Framing, MOST_REQUEST_BYTES, MOST_UNSENT, Responder, TOO_LONG, TURN_REQUESTS,
};

/// A turn of a connection also ends after this time: the others, and the end of the server, wait no
/// longer for a client that sends many requests at once.
const TURN: Duration = Duration::from_millis(1);
pub(super) const READ_BYTES: usize = 16 << 10;
/// Bytes that are thrown away behind a request that was too long, before the connection is cut.
const MOST_DISCARDED: usize = 64 << 20;

/// A thread that serves: what its connections share, so that a silent one needs no memory.
pub(super) struct Worker {
    framing: Framing,
    answer: Box<dyn Responder>,
    pub(super) buffer: Box<[u8]>,
    pub(super) out: Vec<u8>,
    pub(super) tally: ServerTally,
    /// The longest time of a response in all.
    pub(super) response: Option<Duration>,
}

impl Worker {
    pub(super) fn new(setup: &ServerSetup) -> Worker {
        Worker::opener(setup)()
    }

    pub(super) fn opener(setup: &ServerSetup) -> impl Fn() -> Worker + Clone + Send + 'static {
        let (service, serving) = (setup.service, setup.serving.clone());
        let response = setup.limits.response;
        move || Worker {
            framing: (service.request)(serving.size),
            answer: (service.open)(&serving),
            buffer: vec![0; READ_BYTES].into(),
            out: Vec::new(),
            tally: ServerTally::default(),
            response,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// Requests may come.
    #[default]
    Open,
    /// No more will come; what has come is answered.
    Ended,
    /// The client went too far, and is listened to only so that it can read why: closing while
    /// it still sends would destroy what was said last (TCP answers with a reset).
    Discarding,
}

#[derive(Debug, Default)]
pub(super) struct Conversation {
    /// Bytes that were received and not answered: part of a request, or requests that wait.
    heard: Vec<u8>,
    /// Bytes of `heard` that are known to hold no end of a request.
    seen: usize,
    /// True if `heard` contains no complete request, as far as is known.
    is_part: bool,
    phase: Phase,
    discarded: usize,
}

impl Conversation {
    /// Answers what is whole in the worker's buffer into its `out`: how many requests.
    pub(super) fn hear(&mut self, worker: &mut Worker, length: usize) -> u64 {
        let buffer = std::mem::take(&mut worker.buffer);
        let answered = self.hear_bytes(worker, &buffer[..length.min(buffer.len())]);
        worker.buffer = buffer;
        answered
    }

    pub(super) fn hear_bytes(&mut self, worker: &mut Worker, bytes: &[u8]) -> u64 {
        if self.phase == Phase::Discarding {
            self.discarded += bytes.len();
            return 0;
        }
        if !self.heard.is_empty() {
            self.heard.extend_from_slice(bytes);
            return self.go_on(worker);
        }
        let (answered, used) = self.answer(worker, bytes);
        self.heard.extend_from_slice(&bytes[used..]);
        answered
    }

    pub(super) fn keep(&mut self, bytes: &[u8]) {
        if self.phase == Phase::Discarding {
            self.discarded += bytes.len();
        } else {
            self.heard.extend_from_slice(bytes);
            self.is_part = false;
        }
    }

    pub(super) fn bytes_ahead(&self) -> usize {
        self.heard.len()
    }

    pub(super) fn is_ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// Answers what has come and waits, once the worker's `out` has room again.
    pub(super) fn go_on(&mut self, worker: &mut Worker) -> u64 {
        let heard = std::mem::take(&mut self.heard);
        let (answered, used) = self.answer(worker, &heard);
        self.heard = heard;
        self.heard.drain(..used);
        if self.heard.is_empty() {
            // A connection that asks for nothing shall need no memory.
            self.heard = Vec::new();
        }
        answered
    }

    fn answer(&mut self, worker: &mut Worker, bytes: &[u8]) -> (u64, usize) {
        let (mut answered, mut used) = (0, 0);
        // From the second request on: of one at a time no clock is read.
        let mut began: Option<Instant> = None;
        self.is_part = false;
        while worker.out.len() < MOST_UNSENT && answered < TURN_REQUESTS {
            if answered > 0
                && used < bytes.len()
                && began.get_or_insert_with(Instant::now).elapsed() > TURN
            {
                break;
            }
            match worker.framing.cut(&bytes[used..], self.seen) {
                Cut::Whole(length) => {
                    let request = &bytes[used..used + length];
                    worker.answer.answer(request, &mut worker.out);
                    used += length;
                    answered += 1;
                    self.seen = 0;
                }
                Cut::Part => {
                    self.seen = bytes.len() - used;
                    self.is_part = true;
                    break;
                }
                Cut::TooLong => {
                    worker.out.extend_from_slice(TOO_LONG);
                    worker.tally.too_long += 1;
                    self.phase = Phase::Discarding;
                    self.is_part = true;
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
        !self.heard.is_empty() && !self.is_part
    }

    /// Returns true if a request has begun and not ended, or the client is being closed.
    pub(super) fn is_owed(&self) -> bool {
        !self.heard.is_empty() || self.phase == Phase::Discarding
    }

    /// Returns true if the client was sent an error, so that the end of the connection must follow.
    pub(super) fn is_discarding(&self) -> bool {
        self.phase == Phase::Discarding
    }

    /// Once all is sent, the connection is closed.
    pub(super) fn is_over(&self) -> bool {
        match self.phase {
            Phase::Open => false,
            Phase::Ended => !self.has_more(),
            Phase::Discarding => self.discarded > MOST_DISCARDED,
        }
    }
}

const _: () = assert!(MOST_UNSENT >= MOST_REQUEST_BYTES + TOO_LONG.len());

#[cfg(test)]
mod tests {
    use super::*;
    use crate::services::{Service, ServiceSetup};

    fn worker(service: &str, size: usize) -> Worker {
        let service = Service::named(service).unwrap();
        let serving = ServiceSetup::new(size);
        Worker {
            framing: (service.request)(size),
            answer: (service.open)(&serving),
            buffer: Box::default(),
            out: Vec::new(),
            tally: ServerTally::default(),
            response: None,
        }
    }

    #[test]
    fn answers_wait_until_others_are_sent() {
        let (mut worker, mut talk) = (worker("fixed", 100_000), Conversation::default());
        let (mut sent, mut turns) = (0, 0);
        talk.hear_bytes(&mut worker, &b"get\n".repeat(10));
        talk.end();
        loop {
            assert!(worker.out.len() < MOST_UNSENT + 100_000);
            sent += worker.out.len();
            turns += 1;
            worker.out.clear();
            if !talk.has_more() {
                break;
            }
            assert!(!talk.is_over());
            talk.go_on(&mut worker);
        }
        assert_eq!((sent, worker.tally.requests), (1_000_000, 10));
        // Three answers are as much as waits to be sent.
        assert!(turns >= 4, "{turns}");
        assert!(talk.is_over() && !talk.is_owed());
    }

    #[test]
    fn a_turn_answers_a_few_requests_however_many_came() {
        let (mut worker, mut talk) = (worker("fixed", 3), Conversation::default());
        assert!(talk.hear_bytes(&mut worker, &b"\n".repeat(20)) <= TURN_REQUESTS);
        while talk.has_more() {
            assert!(talk.go_on(&mut worker) <= TURN_REQUESTS);
        }
        assert_eq!(worker.tally.requests, 20);
    }

    #[test]
    fn a_line_without_end_is_refused_once_and_then_thrown_away() {
        let (mut worker, mut talk) = (worker("fixed", 3), Conversation::default());
        talk.hear_bytes(&mut worker, b"get\nget\n");
        while talk.has_more() {
            talk.go_on(&mut worker);
        }
        let piece = vec![b'x'; READ_BYTES];
        for _ in 0..=MOST_DISCARDED / READ_BYTES {
            assert!(!talk.is_over());
            talk.hear_bytes(&mut worker, &piece);
            assert!(talk.bytes_ahead() < MOST_REQUEST_BYTES);
        }
        assert!(talk.is_discarding());
        talk.hear_bytes(&mut worker, b"\nget\n");
        assert_eq!(worker.out, [b"ab\nab\n", TOO_LONG].concat());
        assert_eq!((worker.tally.requests, worker.tally.too_long), (2, 1));
        (0..MOST_REQUEST_BYTES / READ_BYTES).for_each(|_| {
            talk.hear_bytes(&mut worker, &piece);
        });
        assert!(talk.is_over());
    }
}
