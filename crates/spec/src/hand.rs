//! What live sessions show, `bytecost live send` and `bytecost live receive`: the figures of a second and
//! of a session. They are looked at and not kept; there are no statistics in them.

use serde::{Deserialize, Serialize};

use crate::cell::Cell;
use crate::metric::Side;
use crate::sample::SideReadings;

/// Round-trip times in µs, from a message's first call to its answer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// How many.
    pub count: u64,
    /// Half of them took at most this.
    pub us_p50: f64,
    /// 99 % of them took at most this.
    pub us_p99: f64,
    /// The longest.
    pub us_max: f64,
}

/// What one side did in a stretch of time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stretch {
    /// Counters of all flows together, and what each flow moved.
    pub side: SideReadings,
    /// Round-trip times, of the side that asks.
    pub latency: Option<Latency>,
    /// Flows that moved no message far enough to tell of it.
    pub flows_silent: u32,
}

/// One side's part of a session that is over.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionPart {
    /// All that its flows did, to their ends.
    pub whole: Stretch,
    /// Bytes whose content was compared with what must arrive.
    pub compared_bytes: u64,
    /// The congestion control that its sockets had.
    pub congestion: String,
    /// Whether its flows were cut off, so that bytes may have been under way.
    pub cut: bool,
    /// What went wrong, if anything did.
    pub failed: Option<String>,
    /// The limit of this side by which it ended the session, if one did.
    pub limit: Option<String>,
}

/// A second of a session that goes on.
#[derive(Clone, Debug, PartialEq)]
pub struct Second {
    /// Its number within the session, from 1.
    pub number: u64,
    /// The side that tells.
    pub own: Stretch,
    /// The other side, where its figures have come in time.
    pub peer: Option<Stretch>,
}

/// A session as it begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Begun {
    /// Its number at the server, from 1.
    pub session: u64,
    /// Which side tells.
    pub own: Side,
    /// The other end: address and port.
    pub peer: String,
    /// What is done.
    pub cell: Cell,
    /// Whether the mover's buffers come back later, with word of whether they were copied.
    pub completes: bool,
}

/// How a session ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionEnd {
    /// This side ended it: Ctrl-C, or its time was over.
    Here,
    /// The other side ended it.
    There,
    /// It was as long as the sending side grants: by which limit.
    Limit(String),
    /// It went wrong: what, and what to do.
    Failed(String),
}

/// A session that is over.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// What it was.
    pub begun: Begun,
    /// How it ended.
    pub end: SessionEnd,
    /// The side that tells.
    pub own: SessionPart,
    /// The other side, where it has told.
    pub peer: Option<SessionPart>,
}

/// All sessions of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename = "served")]
pub struct Served {
    /// Sessions that began.
    pub sessions: u64,
    /// Of these, sessions that failed.
    pub failed: u64,
    /// Payload bytes of them all.
    pub bytes: u64,
    /// Connections that were turned away.
    pub turned_away: u64,
}
