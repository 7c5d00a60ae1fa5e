//! What a turn costs between each two CPUs.

use bytecost_spec::{Axis, Metric, Nearness};
use serde::{Deserialize, Serialize};

use super::Point;

/// One way to take turns, over pairs of CPUs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MatrixData {
    /// The mover.
    pub mover: String,
    /// What all pairs hold constant, of the other axes that vary in the study.
    pub panel: Vec<(Axis, String)>,
    /// What is told of each pair.
    pub metric: Metric,
    /// The CPUs, in their order.
    pub cpus: Vec<u32>,
    /// The pairs, from near to far. One that is not among them was measured the other way round,
    /// or not at all.
    pub pairs: Vec<PairPoint>,
    /// What they come to, a sentence each.
    pub words: Vec<String>,
}

/// A pair of CPUs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PairPoint {
    /// The CPU of the thread that asks.
    pub from: u32,
    /// The CPU of the one that answers.
    pub to: u32,
    /// How near they are, where the kernel tells enough.
    pub nearness: Option<Nearness>,
    /// What they have in common, in words: `same L3 of 32 MiB`.
    pub shared: String,
    /// What was measured, or why nothing was.
    pub point: Point,
}

impl MatrixData {
    /// The pair of two CPUs, measured this way round or the other.
    #[must_use]
    pub fn pair(&self, from: u32, to: u32) -> Option<&PairPoint> {
        let found = |a, b| self.pairs.iter().find(|p| p.from == a && p.to == b);
        found(from, to).or_else(|| found(to, from))
    }
}
