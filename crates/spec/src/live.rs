//! Figures of `bytecost live send` and `bytecost live receive`: of one side, for a second or for a
//! session. They are shown, not stored, and have no statistics.

use serde::Serialize;

use crate::cell::Cell;
use crate::metric::Side;
use crate::sample::SideReadings;

/// Round-trip times in µs, from a message's first call to its response.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latency {
    /// Number of responses.
    pub count: u64,
    /// Median.
    pub us_p50: f64,
    /// 99th percentile.
    pub us_p99: f64,
    /// Maximum.
    pub us_max: f64,
}

/// Work of a side's flows in a span of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Activity {
    /// Counters of all flows together, and what each flow moved.
    pub side: SideReadings,
    /// Round-trip times, of a sender that waits for responses.
    pub latency: Option<Latency>,
    /// Flows that were in a call, or without a CPU, when the span ended: their work counts in the next.
    pub flows_silent: u32,
}

/// Flows of one sender and one receiver, from their first message to their end.
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    /// Number of the session in this program, from 1.
    pub number: u64,
    /// Side that this program is.
    pub side: Side,
    /// Address and port of the other side.
    pub peer: String,
    /// Options of this side. Those of the other side are not known here.
    pub cell: Cell,
    /// True if messages can be counted: a receiver knows their size only if it was given.
    pub counts_messages: bool,
    /// True if the kernel reports of each buffer whether it was copied (MSG_ZEROCOPY).
    pub completes: bool,
}

/// The way in which a session ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionEnd {
    /// This side ended it: by Ctrl-C or --duration.
    Here,
    /// The other side closed its connections.
    There,
    /// A limit of this side ended it; the text names the limit.
    Limit(String),
    /// An error ended it.
    Failed(String),
}

/// One side of a session that is over.
#[derive(Clone, Debug, PartialEq)]
pub struct Totals {
    /// The session.
    pub session: Session,
    /// The way in which it ended.
    pub end: SessionEnd,
    /// Work of all flows, to their ends.
    pub activity: Activity,
    /// Congestion control of the connections.
    pub congestion: String,
    /// True if a flow was cut off, so that bytes may have been on the way.
    pub is_cut: bool,
}

/// All sessions of a program that listens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename = "served")]
pub struct Served {
    /// Sessions that began.
    pub sessions: u64,
    /// Of these, sessions that failed.
    pub failed: u64,
    /// Payload bytes of them all.
    pub bytes: u64,
    /// Connections that were closed before they became part of a session.
    pub turned_away: u64,
}
