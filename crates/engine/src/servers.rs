//! The table of servers: each row a concurrency model, that is, a way to serve many connections
//! at once, each in a file of its own.
//!
//! A new model is one file under `servers/` and two lines here: its `mod` and its row. All speak
//! to a client through the same `Conversation`, so that what differs between two models is how
//! they wait and who works, which is what the files show.
//!
//! A server is stopped by the descriptor [`ServerSetup::stop`]. It takes no new connections then,
//! answers all that has arrived, closes, and returns. Most models do this by ending everyone's
//! input with shutdown(2), SHUT_RD: what has arrived can still be read, and after it comes the
//! end of the stream, which each model knows how to treat anyway. (That a receiver is woken so is
//! Linux's behaviour, not POSIX's.)

pub use crate::server::{Limits, Server, ServerSetup, ServerTally};

mod accepted;
mod connection;
mod conversation;
mod epoll;
mod epoll_edge;
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

impl Server {
    /// The row of that name.
    pub fn named(name: &str) -> Option<&'static Server> {
        SERVERS.iter().find(|s| s.name == name)
    }
}
