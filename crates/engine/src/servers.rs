//! The table of servers: each row a concurrency model, that is, a way to serve many connections
//! at once, each in a file of its own.
//!
//! A new model is one file under `servers/` and two lines here: its `mod` and its row. All speak
//! to a client through the same `Conversation`, so that what differs between two models is how
//! they wait and who works, which is what the files show. `EventLoop` has the rest for models with
//! one thread and non-blocking sockets (`servers/epoll.rs` is the one to read), `OpenConnections` for
//! those with blocking calls (`servers/thread.rs`). `cargo test -p bytecost-lab --test servers NAME/`
//! loads a model with every service in every way, and does all that clients should not do.
//!
//! A server is stopped by the descriptor [`ServerSetup::stop`]. It takes no new connections then,
//! answers all that has arrived, closes, and returns. Most models do this by ending everyone's
//! input with shutdown(2), SHUT_RD: what has arrived can still be read, and after it comes the
//! end of the stream, which each model knows how to treat anyway. (That a receiver is woken so is
//! Linux's behaviour, not POSIX's.)

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

pub use bytecost_spec::service::ServerTally;
pub use bytecost_spec::survey::ServerFacts;

use crate::services::{Service, ServiceSetup};
use crate::table::table;

mod accepted;
mod address_limit;
mod addresses;
mod connection;
mod conversation;
mod epoll;
mod event_loop;
mod fork;
mod listener;
mod open_connections;
mod poll;
mod pool;
mod select;
mod single;
mod thread;
mod ticker;
mod uring;

pub use addresses::Addresses;
pub use listener::{listen, no_port_left, not_listening};

/// All servers, in the order of the documentation.
pub const SERVERS: &[Server] = &[
    single::SERVER,
    thread::SERVER,
    pool::SERVER,
    fork::SERVER,
    select::SERVER,
    poll::SERVER,
    epoll::SERVER,
    uring::SERVER,
];

/// A row of the table of servers. It reads as its facts.
#[derive(Clone, Copy, Debug)]
pub struct Server {
    /// Its name and properties, as surveys and plans have them.
    pub facts: ServerFacts<&'static str>,
    /// Serves until it is stopped. It fails where the kernel does not give what it needs, never by
    /// what a client does.
    pub serve: fn(ServerSetup) -> io::Result<ServerTally>,
}

/// One thread serves all connections.
pub const ONE_THREAD: ServerFacts<&str> = ServerFacts {
    name: "",
    summary: "",
    bound: None,
    in_turn: false,
    task_per_connection: false,
    needs_lone_thread: false,
    takes_workers: false,
    scans_all: false,
    descriptors_below: None,
    uses_uring: false,
    needs_linux: None,
    caution: None,
    refused: None,
};

/// The sockets and parameters of a server.
#[derive(Debug)]
pub struct ServerSetup {
    /// A listening socket, as [`listen`] makes it with the patience of `limits`; the server sets whether
    /// it blocks.
    pub listener: OwnedFd,
    /// The server stops when this becomes readable or is hung up: a pipe's reading end, say.
    pub stop: OwnedFd,
    /// The service that it provides.
    pub service: &'static Service,
    /// The parameters of the service.
    pub serving: ServiceSetup,
    /// Threads that serve, for the models that have a fixed number of them; at least 1 is taken.
    pub workers: usize,
    /// The limits of clients.
    pub limits: Limits,
}

/// The limits of a client, so that none can delay the others or exhaust memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most connections at one time; further ones wait in the listener's queue.
    pub connections: usize,
    /// The longest time for a client to complete a request, or to receive a response, before it is closed; up
    /// to a quarter longer. At least 1 ms.
    pub patience: Duration,
    /// The longest time that a connection may stay open between requests; none for ever.
    pub idle: Option<Duration>,
    /// The longest time from the first bytes of a connection to its end; none for ever.
    pub lifetime: Option<Duration>,
    /// Bytes of responses that a connection gets in a second (SO_MAX_PACING_RATE, socket(7)); none is as
    /// many as it takes.
    pub max_bytes_per_s: Option<u64>,
    /// The longest time of a response in all, however often a part of it leaves; none for ever.
    pub response: Option<Duration>,
    /// The most connections of one address, or of one network of 64 bits (IPv6); further ones are
    /// closed. None is as many as there may be.
    pub each_address: Option<usize>,
    /// Addresses that may connect, others are closed; none at all lets all connect.
    pub allow: Vec<Addresses>,
    /// Bytes of responses that the kernel may keep for a connection (SO_SNDBUF, socket(7)); none
    /// leaves that to the kernel, which takes more the more is sent.
    pub send_buffer: Option<usize>,
    /// The longest time for responses in progress when the server is stopped.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 16_384,
            patience: Duration::from_secs(5),
            idle: None,
            lifetime: None,
            max_bytes_per_s: None,
            response: None,
            each_address: None,
            allow: Vec::new(),
            send_buffer: None,
            grace: Duration::from_millis(500),
        }
    }
}

table!(Server, ServerFacts, SERVERS);

impl Server {
    /// The reason why this model cannot serve so many connections; none if it can.
    pub fn refuses(&self, connections: usize) -> Option<String> {
        let (most, reason) = self.bound.filter(|(most, _)| connections as u64 > *most)?;
        Some(format!(
            "{} serves at most {most} connections: {reason}",
            self.name
        ))
    }
}
