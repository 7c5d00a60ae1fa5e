//! What a cell displaced from the caches, as findings.json tells it.

use serde::{Deserialize, Serialize};

use super::Estimate;

/// What moving a cell's messages displaced from the caches of the sending CPU, found by timing
/// lines that were primed, in a trial of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CellFootprint {
    /// [`bytecost_spec::Cell::id`].
    pub cell: String,
    /// One for each cache, nearest first.
    pub levels: Vec<LevelFootprint>,
}

/// What was displaced from one cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LevelFootprint {
    /// 1, 2, 3 …
    pub level: u32,
    /// The cache's size.
    pub size_bytes: u64,
    /// The working set that was primed, which is the most that can be displaced.
    pub primed_bytes: u64,
    /// Payload that was moved in a round, median.
    pub moved_bytes: u64,
    /// KiB of the set that were displaced in a round, by how long its lines took between what they
    /// take where all are there and where none is: trimmed mean over rounds.
    pub displaced_kib: Option<Estimate>,
    /// The same after as much time in which nothing was moved.
    pub idle_kib: Option<Estimate>,
    /// Ticks of a line that is there, median over rounds, the cost of looking included.
    pub hit_ticks: f64,
    /// Ticks of a line that was displaced.
    pub miss_ticks: f64,
    /// Why nothing can be said, where that is so.
    pub missing: Option<String>,
}
