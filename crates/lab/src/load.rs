//! The load generator: many clients of one server, and the latencies of their requests.
//!
//! In the closed loop a client sends its next request when it has the response. That gives the highest rate
//! of a server, but hides waiting times: while the server stalls, no request is sent. In the open loop
//! requests are due at times that were drawn before (`arrivals.rs`), whatever the server does. Latency
//! counts from these times, so that it includes waiting. (Gil Tene, "How NOT to Measure Latency", 2013,
//! calls its omission coordinated omission.)
//!
//! One thread serves thousands of connections, on io_uring where the kernel permits it, else with epoll,
//! and allocates nothing once everyone is connected. [`GeneratorLoad`] shows whether the generator
//! itself limited the rate.
//!
//! On io_uring all requests and responses of a round have the time at which the round's system call
//! returned. That is late by at most the remainder of the round (some microseconds for each connection
//! in it), and never early.

use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::time::Duration;

use bytecost_engine::Service;
use bytecost_engine::services::{self, Framing, MOST_REQUEST_BYTES};
use bytecost_spec::Arrivals;
use bytecost_sys::uring_client::UringClient;

use crate::limits::retried;
use crate::trial_error::is_lacking;

mod arrivals;
mod ask;
mod client;
mod client_loop;
mod driver;
mod outcome;
mod start_gate;
mod threads;

pub(crate) use client_loop::SOURCE_ADDRESSES;

pub use ask::ask;
pub use bytecost_spec::service::Pace;
pub use outcome::{Errors, GeneratorLoad, Limit, LoadError, LoadOutcome};

/// The most connections of one load.
pub const MOST_CONNECTIONS: u32 = 100_000;
/// The most requests in flight on a connection.
pub const MOST_DEPTH: u32 = 64;

/// The fewest connections of a load that are confirmed, so that they do not overflow a server's queue: the
/// SYN of a dropped connection is sent again only after a second.
pub(crate) const CONFIRMED_FROM: u32 = 1000;
/// The most connections that wait to be confirmed at one time if the length of a server's queue is unknown;
/// it may be as short as ten.
const CONFIRMED_AT_ONCE: u32 = 8;

/// The load of a server: its clients, their requests, and their pace.
#[derive(Clone, Debug)]
pub struct Load {
    /// The address at which the server listens.
    pub address: SocketAddr,
    /// The service that it provides.
    pub service: &'static Service,
    /// The parameters of the service, which must have the size of the server.
    pub asking: services::ServiceSetup,
    /// Connections that send requests.
    pub connections: u32,
    /// Further connections that send nothing.
    pub idle: u32,
    /// Closed loop or open loop, with its pace.
    pub pace: Pace,
    /// Open loop: the distribution of the times at which requests are due.
    pub arrivals: Arrivals,
    /// Seed of those times, where they are drawn.
    pub seed: u64,
    /// True if connections are kept; else a new one is opened for each request, whose latency then
    /// counts from before it is opened. The client closes it; over loopback Linux gives its port out
    /// again after a second (net.ipv4.tcp_tw_reuse), which bounds the rate at some 28,000 a second
    /// and address.
    pub kept: bool,
    /// The most requests in flight on a kept connection: more than 1 is pipelining.
    pub depth: u32,
    /// Time over which the connections are opened, evenly.
    pub ramp: Duration,
    /// The length of the load, in time or in requests.
    pub span: LoadSpan,
    /// The longest latency: a later response counts as an error, and its connection is given up.
    pub timeout: Duration,
    /// Threads of the generator, which share the connections evenly.
    pub threads: u32,
    /// True if it ends with the server: when each connection of a thread has been tried, as many were
    /// refused with none opened in between, and none that sends requests is open.
    pub ends_with_server: bool,
    /// TCP congestion control of each connection. Without one, connections that are kept have the
    /// one that costs the clients least, and new ones the system's.
    pub congestion: Option<String>,
    /// The interface to the kernel that its threads use.
    pub way: LoadInterface,
    /// The fewest connections of a load that are confirmed: each sends one request before all are
    /// connected, and the response shows that the server has accepted it.
    pub confirmed_from: u32,
    /// The most connections that wait to be confirmed at one time: not more than a server's queue of
    /// new connections has room for.
    pub confirmed_at_once: u32,
    /// The fewest rounds of a window. In a round all connections send a request and receive its response. A
    /// shorter window would favour those that come first. Only for confirmed, kept connections in the
    /// closed loop.
    pub rounds_least: u32,
}

/// The interface to the kernel by which a thread serves all of its connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoadInterface {
    /// By io_uring, or by epoll where a ring is refused.
    #[default]
    Best,
    /// By io_uring, one call for all requests and responses of a round. Needs Linux 6.1.
    Uring,
    /// By epoll, and one call for each request and each response.
    Epoll,
}

impl LoadInterface {
    /// Its name in messages and records.
    pub fn name(self) -> &'static str {
        match self {
            LoadInterface::Best => "io_uring or epoll",
            LoadInterface::Uring => "io_uring",
            LoadInterface::Epoll => "epoll",
        }
    }
}

/// The length of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadSpan {
    /// A time, once everyone is connected.
    Time {
        /// Time before requests count.
        warmup: Duration,
        /// Time in which requests count.
        window: Duration,
    },
    /// A number of requests of each connection, all of which count. Those that fail are not repeated.
    Requests(u64),
}

/// A stage of a load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Everyone has tried to connect, and the window will be in this range, in ns of CLOCK_MONOTONIC;
    /// up to `u64::MAX` where no time bounds it.
    Connected(Range<u64>),
    /// Everyone is connected and the warm-up is over: requests count from now on.
    WindowOpens,
    /// Requests count no longer.
    WindowCloses,
}

impl Load {
    /// One connection with one request, to which a caller adds what it needs.
    pub fn once(
        address: SocketAddr,
        service: &'static Service,
        asking: services::ServiceSetup,
    ) -> Load {
        Load {
            address,
            service,
            asking,
            connections: 1,
            idle: 0,
            pace: Pace::Closed {
                think: Duration::ZERO,
            },
            arrivals: Arrivals::Poisson,
            seed: 0,
            kept: true,
            depth: 1,
            ramp: Duration::ZERO,
            span: LoadSpan::Requests(1),
            timeout: Duration::from_secs(5),
            threads: 1,
            ends_with_server: false,
            congestion: None,
            way: LoadInterface::Best,
            confirmed_from: CONFIRMED_FROM,
            confirmed_at_once: CONFIRMED_AT_ONCE,
            rounds_least: 0,
        }
    }

    /// Returns true if a round of all connections comes before the warm-up.
    pub(crate) fn takes_round(&self) -> bool {
        self.rounds_least > 0 && self.confirms() && matches!(self.pace, Pace::Closed { .. })
    }

    /// Returns true if each connection is confirmed by a request before all of them begin.
    pub(crate) fn confirms(&self) -> bool {
        let all = self.connections + self.idle;
        self.kept && all >= self.confirmed_from && matches!(self.span, LoadSpan::Time { .. })
    }

    /// The most requests that are sent in one piece.
    fn at_once(&self) -> usize {
        let depth = self.depth as usize;
        match (self.service.request_framing)(self.asking.size) {
            Framing::Size(size) => (MOST_REQUEST_BYTES / size.max(1)).clamp(1, depth),
            Framing::Line => depth,
        }
    }

    /// Descriptors that the load needs, in addition to those that are open.
    pub fn descriptors(&self) -> u64 {
        u64::from(self.connections) + u64::from(self.idle) + u64::from(self.threads)
    }

    /// Checks that all its fields are within their bounds.
    ///
    /// # Errors
    /// The field that is out of bounds, with the bounds, as one line.
    pub fn check(&self) -> Result<(), String> {
        let (asking, idle) = (self.connections, self.idle);
        let (threads, depth) = (self.threads, self.depth);
        let all = u64::from(asking) + u64::from(idle);
        let may_pipeline = match self.pace {
            Pace::Closed { think } => self.kept && think.is_zero(),
            Pace::Open { .. } => false,
        };
        let wrong = if asking == 0 || all > u64::from(MOST_CONNECTIONS) {
            format!(
                "{asking} connections and {idle} idle ones are out of bounds: 1 to {MOST_CONNECTIONS} together, at least 1 of which is not idle"
            )
        } else if !(1..=asking).contains(&threads) {
            format!(
                "{threads} threads are out of bounds for {asking} connections: from 1 to one for each"
            )
        } else if !(1..=MOST_DEPTH).contains(&depth) {
            format!("depth {depth} is out of bounds: 1 to {MOST_DEPTH}")
        } else if depth > 1 && !may_pipeline {
            format!(
                "depth {depth} needs connections that are kept and a closed loop without --think"
            )
        } else if let Pace::Open { per_s } = self.pace
            && !(per_s > 0.0 && per_s <= 1e8)
        {
            format!(
                "rate {per_s} is out of bounds: above 0, at most 100 million requests per second"
            )
        } else {
            return self.service.check_size(self.asking.size);
        };
        Err(wrong)
    }

    /// The part of the load of one of its threads.
    fn share(&self, nth: u32) -> Load {
        let part = |all: u32| all / self.threads + u32::from(nth < all % self.threads);
        let mut share = self.clone();
        share.connections = part(self.connections);
        share.idle = part(self.idle);
        if let Pace::Open { per_s } = &mut share.pace {
            *per_s *= f64::from(share.connections) / f64::from(self.connections);
        }
        share
    }
}

/// The reason why a load cannot use io_uring here, if it cannot.
pub(crate) fn no_ring_here() -> Option<String> {
    let nobody = (Ipv4Addr::LOCALHOST, 0).into();
    retried(is_lacking, || UringClient::new(nobody, 1, 1, [1, 1], true))
        .err()
        .map(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One connection to a port at which nobody listens.
    pub(super) fn load() -> Load {
        let (nobody, echo) = ((Ipv4Addr::LOCALHOST, 1), Service::named("echo").unwrap());
        Load::once(nobody.into(), echo, services::ServiceSetup::new(64))
    }

    #[test]
    fn what_is_out_of_bounds_is_said() {
        let check = |change: &dyn Fn(&mut Load), words: &str| {
            let mut load = load();
            change(&mut load);
            let error = load.check().unwrap_err();
            assert!(error.contains(words), "{error}");
        };
        assert_eq!(load().check(), Ok(()));
        check(&|l| l.connections = 0, "0 connections");
        check(&|l| l.idle = MOST_CONNECTIONS, "1 to 100000 together");
        check(&|l| l.threads = 2, "2 threads");
        check(&|l| l.depth = 65, "depth 65 is out of bounds");
        check(&|l| (l.depth, l.kept) = (2, false), "needs connections");
        check(&|l| l.asking.size = 0, "size `0`");
        for per_s in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            check(&|l| l.pace = Pace::Open { per_s }, "rate");
        }
    }

    #[test]
    fn threads_share_everything() {
        let mut load = load();
        (load.connections, load.idle, load.threads) = (10, 5, 4);
        load.pace = Pace::Open { per_s: 1000.0 };
        let shares = [0, 1, 2, 3].map(|nth| {
            let share = load.share(nth);
            (share.connections, share.idle, share.pace)
        });
        let rate = |per_s| Pace::Open { per_s };
        let (more, less) = (rate(300.0), rate(200.0));
        assert_eq!(
            shares,
            [(3, 2, more), (3, 1, more), (2, 1, less), (2, 1, less)]
        );
    }
}
