//! The figures of `bytecost live server` and `live load`. They are not stored and have no statistics.

use std::time::Duration;

use serde::Serialize;

use crate::cell::Arrivals;

/// Utilisation from which on a server counts as saturated: its rate is then within a twentieth of
/// its rate under any load.
const SATURATED_SHARE: f64 = 0.95;

/// Returns true if a server was never idle: it used `used_ns` of the CPU time of `cpus` CPUs in a
/// window of `window_ns`. For a server of one thread, `used_ns` includes the time for which others had
/// its CPU while it was ready to run. The rate of a saturated server does not depend on its clients:
/// throughput is utilisation over service demand (the utilisation law; Denning and Buzen, 1978,
/// doi:10.1145/356733.356735), and utilisation is at most 1. A server that polls would seem saturated
/// at any load; no model here does.
pub fn is_saturated(used_ns: f64, window_ns: f64, cpus: f64) -> bool {
    cpus > 0.0 && window_ns > 0.0 && used_ns >= SATURATED_SHARE * window_ns * cpus
}

/// A process in a response of the service `top`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Process {
    /// Its name.
    pub name: String,
    /// Its process id.
    pub pid: u32,
    /// User CPU time in seconds.
    pub user_s: f64,
    /// Kernel CPU time in seconds.
    pub kernel_s: f64,
}

/// A correct response.
#[derive(Clone, Debug, PartialEq)]
pub enum Response {
    /// The busiest processes, the busiest first.
    Busiest(Vec<Process>),
    /// Bytes whose content was correct.
    Content {
        /// Number of bytes.
        bytes: u64,
    },
}

/// The condition for the next request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// Closed loop: the response has arrived, and the client has paused.
    Closed {
        /// Pause between the response and the next request.
        think: Duration,
    },
    /// Open loop: a time that no response changes has come. Requests go to any free connection.
    Open {
        /// Requests per second.
        per_s: f64,
    },
}

/// The load on a server: service, connections and rate.
#[derive(Clone, Debug, PartialEq)]
pub struct Asking {
    /// Address and port of the server.
    pub address: String,
    /// Service that the server must offer.
    pub service: String,
    /// Bytes of a message, where the service takes a size.
    pub size_bytes: Option<u64>,
    /// Number of connections that send requests.
    pub connections: u32,
    /// Number of additional connections that stay idle.
    pub idle: u32,
    /// True if connections are kept; else each request opens one.
    pub kept: bool,
    /// The most requests in flight on one connection.
    pub depth: u32,
    /// Threads of the load generator.
    pub threads: u32,
    /// Condition for the next request.
    pub pace: Pace,
    /// Distribution of the requests of an open loop over time.
    pub arrivals: Arrivals,
}

/// Latencies in µs, from the time when a request was due to its response; those of requests that
/// were given up are lower bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latencies {
    /// Number of requests.
    pub count: u64,
    /// Median.
    pub us_p50: f64,
    /// 90th percentile.
    pub us_p90: f64,
    /// 99th percentile.
    pub us_p99: f64,
    /// 99.9th percentile.
    pub us_p999: f64,
    /// Maximum.
    pub us_max: f64,
}

/// The work of the load generator itself.
#[derive(Clone, Debug, PartialEq)]
pub struct GeneratorCost {
    /// Share of the time in which it was busy, from 0 to 1; the highest of its threads.
    pub busy_share: f64,
    /// CPU time of its threads in seconds.
    pub cpu_s: f64,
    /// The 99th percentile of the delay of its requests, in µs; none if it sent none at a set time.
    pub late_us_p99: Option<f64>,
    /// The way in which it may have limited the result, if any.
    pub limit: Option<String>,
    /// Its interface to the kernel: `io_uring` or `epoll`.
    pub way: &'static str,
    /// The reason why it does not use io_uring.
    pub no_ring: Option<String>,
}

/// Correct responses of the connection with the fewest, of the median one (the lower of two), and of the
/// one with the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fairness {
    /// The fewest.
    pub least: u64,
    /// The median.
    pub median: u64,
    /// The most.
    pub most: u64,
}

/// The result of a load.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// The load.
    pub asking: Asking,
    /// Duration of the load, in seconds.
    pub elapsed_s: f64,
    /// Correct responses.
    pub answers: u64,
    /// Correct responses per second.
    pub answers_per_s: f64,
    /// Requests that had no response at the end.
    pub unanswered: u64,
    /// Latencies; none if no request was sent.
    pub latency: Option<Latencies>,
    /// Errors, by kind.
    pub errors: Vec<(&'static str, u64)>,
    /// Connections that were opened.
    pub opened: u64,
    /// Correct responses by connection.
    pub fairness: Fairness,
    /// The load generator.
    pub generator: GeneratorCost,
    /// True if it was ended early.
    pub interrupted: bool,
    /// Time at which the server closed its connections, in seconds since the window opened; none if it did not.
    pub server_gone_s: Option<f64>,
}

/// The work of a server since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ServerTally {
    /// Connections accepted.
    pub connections: u64,
    /// Requests that had a response.
    pub requests: u64,
    /// Requests refused because they were too long.
    pub too_long: u64,
    /// Connections closed because a request did not come, or a response did not go, in time.
    pub timed_out: u64,
    /// Connections closed because no request came for too long.
    pub idle: u64,
    /// Connections closed because they have lasted as long as they may.
    pub expired: u64,
    /// Connections closed because the client received a response too slowly.
    pub slow: u64,
    /// Connections closed at once, of an address with too many connections.
    pub crowded: u64,
    /// Connections that failed: reset by the client, or not accepted for lack of resources.
    pub broken: u64,
    /// Times that accepting was suspended because a limit was reached.
    pub put_off: u64,
}

impl ServerTally {
    const COUNTS: usize = 10;
    /// Bytes of [`ServerTally::to_bytes`].
    pub const BYTES: usize = ServerTally::COUNTS * size_of::<u64>();

    fn counts(&mut self) -> [&mut u64; ServerTally::COUNTS] {
        [
            &mut self.connections,
            &mut self.requests,
            &mut self.too_long,
            &mut self.timed_out,
            &mut self.idle,
            &mut self.expired,
            &mut self.slow,
            &mut self.crowded,
            &mut self.broken,
            &mut self.put_off,
        ]
    }

    /// The counts as bytes, for another process on this machine.
    pub fn to_bytes(mut self) -> [u8; ServerTally::BYTES] {
        let mut bytes = [0; ServerTally::BYTES];
        for (word, count) in bytes.chunks_exact_mut(size_of::<u64>()).zip(self.counts()) {
            word.copy_from_slice(&count.to_ne_bytes());
        }
        bytes
    }

    /// The tally that [`ServerTally::to_bytes`] has written.
    pub fn from_bytes(bytes: [u8; ServerTally::BYTES]) -> ServerTally {
        let mut tally = ServerTally::default();
        let (counts, _) = bytes.as_chunks();
        for (count, word) in tally.counts().into_iter().zip(counts) {
            *count = u64::from_ne_bytes(*word);
        }
        tally
    }

    /// Adds the work of another thread or process of the server.
    pub fn add(&mut self, mut other: ServerTally) {
        for (own, added) in self.counts().into_iter().zip(other.counts()) {
            *own += *added;
        }
    }

    /// Counts a connection that is closed for its time: as expired if it has lasted as long as it may, as timed
    /// out if the server waited for the rest of a request or for the receipt of a response, else as idle.
    pub fn count_late(&mut self, is_expired: bool, awaits_client: bool) {
        *(if is_expired {
            &mut self.expired
        } else if awaits_client {
            &mut self.timed_out
        } else {
            &mut self.idle
        }) += 1;
    }
}

impl Asked {
    /// Number of errors of all kinds.
    pub fn errors_in_all(&self) -> u64 {
        self.errors.iter().map(|(_, n)| n).sum()
    }
}
