//! The reasons for which values are absent.

use bytecost_spec::Counter;
use serde::{Deserialize, Serialize};

/// The reason for which a metric of a cell, a counter of a role or the footprint at a cache level has no
/// value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum NoValue {
    /// A reason that the run's records have, in their words.
    Recorded(String),
    /// A trial did not read this counter.
    NotRead(Counter),
    /// No trial counted the events.
    NotCounted,
    /// The readings give a negative or an infinite value, or none.
    NoNumber,
    /// The transport frees packets as they leave, so that nobody receives them.
    PacketsFreed,
    /// The trial has no receiver.
    NoReceiver,
    /// The trial has no server.
    NoServer,
    /// The cell has no connections.
    NoConnection,
    /// No message was sent within the window.
    NoMessage,
    /// No byte or message was moved within the window.
    NothingMoved,
    /// No request received a right response within the window.
    NoResponse,
    /// Half of the connections received no response within the window.
    HalfUnserved,
    /// The sides used no CPU time within the window.
    NoCpuTime,
    /// No zero-copy buffer was completed within the window.
    NoCompletion,
    /// The trial recorded no latencies.
    NoLatency,
    /// The latency histogram cannot be decoded.
    UnreadableHistogram,
    /// Hardware counters were multiplexed with others on the CPU's registers.
    SharedCounters,
    /// The window of a side or of the machine has no length.
    EmptyWindow,
    /// The window of a flow has no length.
    EmptyFlowWindow,
    /// The window of the clients has no length.
    EmptyClientsWindow,
    /// Lines of the cache take no longer when they miss than when they hit.
    IndistinctMisses,
    /// Fewer rounds of prime and probe came to an end than an interval needs.
    FewRounds {
        /// The rounds that came to an end.
        ended: usize,
        /// The fewest that an interval needs.
        needed: usize,
    },
}
