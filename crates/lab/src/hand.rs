//! Live sessions: `bytecost live send` sends, `bytecost live receive` receives, both show figures.
//!
//! One port takes all connections. Each begins with sixteen bytes: [`greeting::opening`] opens a
//! session, anything else must be the key of a flow, which the session was given and which is used
//! up at first sight. A server serves one session at a time, since two would measure each other; a
//! second client waits a moment and is then refused.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytecost_engine::Mover;
use bytecost_spec::hand::{Begun, Second, Summary};
use bytecost_spec::survey::Release;
use bytecost_spec::{Axis, Cell};

use crate::greeters::Addresses;

mod accept_queue;
mod client;
mod flow_counters;
mod flow_threads;
mod flows;
pub mod greeting;
mod server;
mod session;
mod session_key;
mod wire;

pub use client::drive;
pub use server::serve;
pub use session_key::SessionKey;

/// The port of both commands where none is given.
pub const PORT: u16 = 7420;

/// Axes that the receiving side may choose for itself.
pub const CLIENT_AXES: &[Axis] = &[
    Axis::Pattern,
    Axis::Receiver,
    Axis::Threads,
    Axis::ReadSize,
    Axis::Quickack,
    Axis::Placement,
];

/// How long a call or an expected word may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long memory and threads may take to be made ready.
const PREPARATION: Duration = Duration::from_secs(60);
/// How long flows may take to end by themselves before they are cut off, and after that, or after a
/// failure, the other side's last word: it may be dead, and the user waits. Both together, where the
/// user has ended the session.
const GRACE: Duration = Duration::from_secs(2);
/// How long the other side's last word may take once all flows have ended as they should: it lives,
/// and may have to wait for a CPU.
const LAST_WORD: Duration = Duration::from_secs(10);
/// How long a client waits for the one before it to be gone.
const TURN: Duration = Duration::from_secs(1);
/// How often a wait looks up to see whether it was told to stop.
const LOOK: Duration = Duration::from_millis(50);

/// What a server does.
#[derive(Clone, Debug)]
pub struct Serve {
    /// What it sends, and how.
    pub cell: Cell,
    /// Where it listens; port 0 takes a free one.
    pub address: SocketAddr,
    /// Whom it serves, and what it grants them.
    pub access: Admission,
}

/// Who may open a session, and what a session is granted at most.
#[derive(Clone, Debug, Default)]
pub struct Admission {
    /// The key that a client must prove to have; none lets anyone in.
    pub key: Option<SessionKey>,
    /// Addresses that may connect; none at all lets all connect.
    pub allow: Vec<Addresses>,
    /// The longest session.
    pub max_duration: Option<Duration>,
    /// The most bytes in a second, all flows of a session together.
    pub max_bytes_per_s: Option<u64>,
}

/// What a client does.
#[derive(Clone, Debug)]
pub struct Drive {
    /// Where the server listens.
    pub address: SocketAddr,
    /// Values of [`CLIENT_AXES`] that it chooses itself.
    pub wishes: Vec<(Axis, String)>,
    /// The key that the server must prove to have, and this side too.
    pub key: Option<SessionKey>,
    /// When it ends the session; none goes on until it is told to stop.
    pub duration: Option<Duration>,
}

/// One thing that happened.
#[derive(Clone, Debug)]
pub enum SessionEvent {
    /// The server takes connections there.
    Listening(SocketAddr),
    /// A connection was closed that did not become part of a session: who, where that is known, and
    /// why.
    TurnedAway(String),
    /// Bytes begin to move.
    Began(Box<Begun>),
    /// A second is over.
    Second(Box<Second>),
    /// A session is over.
    Ended(Box<Summary>),
}

/// Why a session did not come about.
#[derive(Debug)]
pub enum SessionError {
    /// The caller was told to stop.
    Interrupted,
    /// What is wrong with the request, as the server or this side says.
    Refused(String),
    /// What went wrong.
    Failed(io::Error),
}

impl From<io::Error> for SessionError {
    fn from(error: io::Error) -> SessionError {
        SessionError::Failed(error)
    }
}

/// Whether the cell's mover tells of its buffers when they come back.
fn completes(cell: &Cell) -> bool {
    Mover::named(&cell.mover).is_some_and(|m| m.release == Release::AtCompletion)
}
