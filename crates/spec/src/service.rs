//! What `bytecost live server` and `live load` show. Not stored, and without statistics.

use std::time::Duration;

use serde::Serialize;

use crate::cell::Arrivals;

/// Share of its CPUs' time from which on a server counts as never idle. What it gives then is within
/// a twentieth of what it could give to any load.
const SATURATED_SHARE: f64 = 0.95;

/// Whether a server had next to no idle time: of so many CPUs within a window of so many ns it used
/// `used_ns`, which for a server of one thread includes the time for which others had its CPU while
/// it wanted it. Its rate is then its own, on a machine that does this beside it, and not that of
/// whoever asked it: throughput is utilization over service demand (the utilization law; Denning
/// and Buzen, 1978, doi:10.1145/356733.356735), and utilization ends at 1. A model that looks
/// without pause would seem so at any load; there is none among ours.
pub fn is_saturated(used_ns: f64, window_ns: f64, cpus: f64) -> bool {
    cpus > 0.0 && window_ns > 0.0 && used_ns >= SATURATED_SHARE * window_ns * cpus
}

/// A process, as the service `top` tells of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Process {
    /// Its name.
    pub name: String,
    /// Its number.
    pub pid: u32,
    /// User CPU time in seconds.
    pub user_s: f64,
    /// Kernel CPU time in seconds.
    pub kernel_s: f64,
}

/// The answer to one question, which was right.
#[derive(Clone, Debug, PartialEq)]
pub enum Response {
    /// The busiest processes, the most busy first.
    Busiest(Vec<Process>),
    /// So many bytes, which are what they must be.
    Content {
        /// Its length in bytes.
        bytes: u64,
    },
}

/// When the next request is made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// Closed loop: when the answer has come and the client has thought for so long.
    Closed {
        /// Time between an answer and the next request.
        think: Duration,
    },
    /// Open loop: at times that nobody's answer changes, for all connections together, whoever is
    /// free.
    Open {
        /// Requests per second.
        per_s: f64,
    },
}

/// What is asked, by how many, and how often.
#[derive(Clone, Debug, PartialEq)]
pub struct Asking {
    /// Where the server listens: address and port.
    pub address: String,
    /// What it is to offer.
    pub service: String,
    /// Bytes of a message, where the service takes a size.
    pub size_bytes: Option<u64>,
    /// Connections that ask.
    pub connections: u32,
    /// Connections beside them that are only there.
    pub idle: u32,
    /// Whether connections are kept; else each request has one of its own.
    pub kept: bool,
    /// Requests that a connection has under way at most.
    pub depth: u32,
    /// Threads of the load generator.
    pub threads: u32,
    /// When the next request is made.
    pub pace: Pace,
    /// Open loop: how the times at which requests are due lie.
    pub arrivals: Arrivals,
}

/// Latencies in µs from when a request was due to its answer; requests given up are lower bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latencies {
    /// How many.
    pub count: u64,
    /// Half of them are at most this.
    pub us_p50: f64,
    /// 90 % of them are at most this.
    pub us_p90: f64,
    /// 99 % of them are at most this.
    pub us_p99: f64,
    /// 99.9 % of them are at most this.
    pub us_p999: f64,
    /// The longest.
    pub us_max: f64,
}

/// What the load generator itself had to do.
#[derive(Clone, Debug, PartialEq)]
pub struct GeneratorCost {
    /// Share of the time in which it had something to do, from 0 to 1; the highest of its threads.
    pub busy_share: f64,
    /// CPU time of its threads in seconds.
    pub cpu_s: f64,
    /// How late 99 % of its requests were at most, in µs; none where it sent none at a set time.
    pub late_us_p99: Option<f64>,
    /// Why it may itself have limited what was found, if it may.
    pub limit: Option<String>,
    /// How it reached the kernel: `io_uring` or `epoll`.
    pub way: &'static str,
    /// Why not by io_uring.
    pub no_ring: Option<String>,
}

/// What a load found.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// What was asked.
    pub asking: Asking,
    /// How long it was asked, in seconds.
    pub elapsed_s: f64,
    /// Right answers.
    pub answers: u64,
    /// Right answers per second.
    pub answers_per_s: f64,
    /// Requests that had no answer in the end.
    pub unanswered: u64,
    /// Latencies; none where nothing was asked.
    pub latency: Option<Latencies>,
    /// What went wrong, by kind.
    pub errors: Vec<(&'static str, u64)>,
    /// Connections that were opened.
    pub opened: u64,
    /// Right answers of the connection with the fewest, the middle one, and the one with the most.
    pub fairness: (u64, u64, u64),
    /// The load generator.
    pub generator: GeneratorCost,
    /// Whether it was ended before its time.
    pub interrupted: bool,
    /// When the server went, in seconds since the window opened; none where it stayed.
    pub server_gone_s: Option<f64>,
}

/// What a server has done in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ServerTally {
    /// Connections taken.
    pub connections: u64,
    /// Requests answered.
    pub requests: u64,
    /// Requests refused because they were too long.
    pub too_long: u64,
    /// Connections closed because a request did not come, or a response did not go, in time.
    pub timed_out: u64,
    /// Connections closed because nothing was asked for too long.
    pub idle: u64,
    /// Connections closed because the client received a response too slowly.
    pub slow: u64,
    /// Connections closed at once, of an address that had as many as it may have.
    pub crowded: u64,
    /// Connections that broke: reset by the client, or not taken for want of room.
    pub broken: u64,
    /// Times that taking connections was put off because a limit was reached.
    pub put_off: u64,
}

impl ServerTally {
    const COUNTS: usize = 9;
    /// Bytes of [`ServerTally::to_bytes`].
    pub const BYTES: usize = ServerTally::COUNTS * size_of::<u64>();

    fn counts(&mut self) -> [&mut u64; ServerTally::COUNTS] {
        [
            &mut self.connections,
            &mut self.requests,
            &mut self.too_long,
            &mut self.timed_out,
            &mut self.idle,
            &mut self.slow,
            &mut self.crowded,
            &mut self.broken,
            &mut self.put_off,
        ]
    }

    /// All counts, to be passed from one process to another of this machine.
    pub fn to_bytes(mut self) -> [u8; ServerTally::BYTES] {
        let mut bytes = [0; ServerTally::BYTES];
        for (bytes, count) in bytes.chunks_exact_mut(size_of::<u64>()).zip(self.counts()) {
            bytes.copy_from_slice(&count.to_ne_bytes());
        }
        bytes
    }

    /// The tally of which [`ServerTally::to_bytes`] are these.
    pub fn from_bytes(bytes: [u8; ServerTally::BYTES]) -> ServerTally {
        let mut tally = ServerTally::default();
        let (counts, _) = bytes.as_chunks();
        for (count, bytes) in tally.counts().into_iter().zip(counts) {
            *count = u64::from_ne_bytes(*bytes);
        }
        tally
    }

    /// Adds what another thread or process of the server has done.
    pub fn add(&mut self, mut other: ServerTally) {
        for (own, other) in self.counts().into_iter().zip(other.counts()) {
            *own += *other;
        }
    }

    /// Counts a connection that is closed: it owed something, or only kept its place.
    pub fn count_late(&mut self, is_owed: bool) {
        *(if is_owed {
            &mut self.timed_out
        } else {
            &mut self.idle
        }) += 1;
    }
}

impl Asked {
    /// How much went wrong, of all kinds.
    pub fn errors_in_all(&self) -> u64 {
        self.errors.iter().map(|(_, n)| n).sum()
    }
}
