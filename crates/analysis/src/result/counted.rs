//! What was counted in trials of their own, as findings.json tells it.

use bytecost_spec::Side;
use bytecost_spec::evidence::{CopyMeans, CopyPlace, CountedEvent};
use serde::{Deserialize, Serialize};

use super::Estimate;

/// How often each byte of a cell was copied, and where.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CellCopies {
    /// [`bytecost_spec::Cell::id`].
    pub cell: String,
    /// Each place that the cell has, in the order of the way.
    pub legs: Vec<LegCopies>,
    /// What could not be hooked in the kernel, in sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<String>,
}

/// Copies at one place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LegCopies {
    /// Where.
    pub leg: CopyPlace,
    /// By what means it is known; none where it is not.
    pub means: Option<CopyMeans>,
    /// How often each byte was copied there, on average.
    pub per_byte: Option<f64>,
    /// Why that is not known, where it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent: Option<String>,
}

/// What else a message of a cell took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CellCounts {
    /// [`bytecost_spec::Cell::id`].
    pub cell: String,
    /// Each event of each side.
    pub events: Vec<EventRate>,
}

/// How often something happened for each message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventRate {
    /// What.
    pub event: CountedEvent,
    /// On which side; both for what is the connection's.
    pub side: Side,
    /// How often for each message sent.
    pub per_message: Option<f64>,
    /// Why that is not known, where it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent: Option<String>,
}

/// What reading hardware counters costs a mover, by trials with and without them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CountersCost {
    /// The mover.
    pub mover: String,
    /// CPU time of both sides per message, in ns, without them.
    pub without_ns_per_message: Estimate,
    /// The same with them.
    pub with_ns_per_message: Estimate,
}

/// What counting itself cost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CountingCost {
    /// Time of all trials in which it was counted, in s.
    pub took_s: f64,
    /// Cells that were counted.
    pub cells: usize,
    /// Cells that could have been.
    pub of_cells: usize,
    /// Message rate while it was counted, over that of the timed trials: the median cell's.
    pub rate: Option<f64>,
}
