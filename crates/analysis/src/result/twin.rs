//! What baselines and their twins say of the noise, as findings.json tells it.

use bytecost_spec::Metric;
use serde::{Deserialize, Serialize};

/// A baseline compared with its twin: the same cell, measured a second time in each block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Twin {
    /// [`bytecost_spec::Cell::id`] of the baseline.
    pub cell: String,
    /// The first metric of a comparison that the cell is the baseline of.
    pub metric: Metric,
    /// The twin's metric over the baseline's: geometric trimmed mean over blocks.
    pub ratio: f64,
    /// Lower end of the 95 % interval of the ratio.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Blocks in which both were measured.
    pub blocks: usize,
    /// Two-sided p value, not corrected.
    pub p: f64,
    /// Whether it is below 5 %, which it is of one twin in twenty by chance.
    pub different: bool,
}

/// How far apart this machine put equal things while the run went on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NoiseFloor {
    /// The twin whose interval is the widest.
    pub widest: Twin,
    /// Twins that were looked at.
    pub twins: usize,
    /// Of these, twins that came out different.
    pub different: usize,
    /// The chance that so many or more do where nothing is different.
    pub chance: f64,
    /// It in one sentence.
    pub sentence: String,
}
