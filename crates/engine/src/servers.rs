//! The table of servers: each row a concurrency model, that is, a way to serve many connections
//! at once, each in a file of its own.
//!
//! A new model is one file under `servers/` and two lines here: its `mod` and its row. All speak
//! to a client through the same `Conversation`, so that what differs between two models is how
//! they wait and who works, which is what the files show.
//!
//! A server is stopped by the descriptor [`Setup::stop`]. It takes no new connections then,
//! answers all that has arrived, closes, and returns. Most models do this by ending everyone's
//! input with shutdown(2), SHUT_RD: what has arrived can still be read, and after it comes the
//! end of the stream, which each model knows how to treat anyway. (That a receiver is woken so is
//! Linux's behaviour, not POSIX's.)

use std::io;
use std::net::SocketAddrV4;
use std::os::fd::OwnedFd;
use std::time::Duration;

use crate::services::{self, Service};

mod arrival;
mod conversation;
mod crowd;
mod epoll;
mod epoll_edge;
mod fork;
mod guest;
mod hall;
mod listener;
mod poll;
mod pool;
mod select;
mod single;
mod thread;
mod ticker;
mod uring;

pub use listener::listen;

/// All servers, in the order of the documentation.
pub const SERVERS: &[Server] = &[
    single::SERVER,
    thread::SERVER,
    pool::SERVER,
    fork::SERVER,
    select::SERVER,
    poll::SERVER,
    epoll::SERVER,
    epoll_edge::SERVER,
    uring::SERVER,
];

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Server {
    /// The name of the model.
    pub name: &'static str,
    /// How it serves many connections, in one sentence.
    pub summary: &'static str,
    /// What bounds its connections beside the descriptor limit, if anything does.
    pub bound: Option<Bound>,
    /// Whether it serves one connection to its end before it looks at the next, so that others
    /// wait for as long as that one stays.
    pub in_turn: bool,
    /// Whether the process that it runs in may have no other threads.
    pub needs_lone_thread: bool,
    /// Whether the number of its threads is chosen, [`Setup::workers`].
    pub takes_workers: bool,
    /// What every report must tell.
    pub caution: Option<&'static str>,
    /// Serves until it is stopped.
    ///
    /// # Errors
    /// What it needs and the kernel does not give. Whatever a client does is no error.
    pub serve: fn(Setup) -> io::Result<Tally>,
}

/// The most connections that a model can hold, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Connections at one time.
    pub connections: usize,
    /// What bounds them, and what to do about it.
    pub reason: &'static str,
}

/// What a server is made from.
#[derive(Debug)]
pub struct Setup {
    /// A listening socket, as [`listen`] makes it; the server sets whether it blocks.
    pub listener: OwnedFd,
    /// When this becomes readable or is hung up, the server stops: a pipe's reading end, say.
    pub stop: OwnedFd,
    /// What is answered.
    pub service: &'static Service,
    /// What the service is made from.
    pub serving: services::Setup,
    /// Threads that serve, for the models that have a fixed number of them; at least 1 is taken.
    pub workers: usize,
    /// What bounds a client.
    pub limits: Limits,
}

/// What bounds a client, so that none can hold up the others or use up memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most connections at one time; further ones wait in the listener's queue.
    pub connections: usize,
    /// How long a client may take over one request, and how long it may leave an answer untaken,
    /// before it is closed. It may take up to a quarter longer. At least 1 ms.
    pub patience: Duration,
    /// How long a connection may stay open between requests; none for ever.
    pub idle: Option<Duration>,
    /// How long answers may take that are under way when the server is stopped.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 16_384,
            patience: Duration::from_secs(5),
            idle: None,
            grace: Duration::from_millis(500),
        }
    }
}

/// What a server has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Connections taken.
    pub connections: u64,
    /// Requests answered.
    pub requests: u64,
    /// Requests refused because they were too long.
    pub too_long: u64,
    /// Connections closed because the client was out of time.
    pub timed_out: u64,
    /// Connections that broke: reset by the client, or not taken for want of room.
    pub broken: u64,
    /// Times that taking connections was put off because a limit was reached.
    pub put_off: u64,
}

impl Tally {
    /// Adds what another thread or process of the server has done.
    pub fn add(&mut self, other: Tally) {
        self.connections += other.connections;
        self.requests += other.requests;
        self.too_long += other.too_long;
        self.timed_out += other.timed_out;
        self.broken += other.broken;
        self.put_off += other.put_off;
    }
}

impl Server {
    /// The row of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Server> {
        SERVERS.iter().find(|s| s.name == name)
    }

    /// Why so many connections cannot be served, if they cannot: for want of descriptors that is
    /// another question.
    #[must_use]
    pub fn refused(&self, connections: usize) -> Option<String> {
        let bound = self.bound.filter(|b| connections > b.connections)?;
        Some(format!(
            "{} serves at most {} connections: {}",
            self.name, bound.connections, bound.reason
        ))
    }
}
