//! Estimates, verdicts, and results of several comparisons together: main effects and the noise floor.

use bytecost_spec::{Axis, Metric, Value};
use serde::{Deserialize, Serialize};

use super::CaveatKind;

/// A number with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Estimate {
    /// The estimate: the 20 % trimmed mean over trials on a log scale, taken back; of p99 and p99.9
    /// latency the quantile of all trials together, of the maximum the mean on a log scale.
    pub value: f64,
    /// Lower end of the 95 % interval; absent with fewer trials than an interval needs.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Trials that it rests on.
    pub trials: usize,
}

impl Estimate {
    /// A number without an interval.
    pub(crate) fn bare(value: f64, trials: usize) -> Estimate {
        Estimate {
            value,
            low: None,
            high: None,
            trials,
        }
    }
}

/// The decision of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Better than the baseline, at the error rate of the comparison's family.
    Better,
    /// Worse than the baseline.
    Worse,
    /// The whole interval lies within the smallest difference that matters.
    NoDifferenceThatMatters,
    /// None of these is shown. [`super::Finding::blocks_needed`] has the blocks that would decide.
    NotDecided,
    /// No verdict, since the comparison is exploratory. Its interval is not corrected.
    NotJudged,
}

/// A main effect: one value of an axis against another over all values of a second axis.
///
/// In each block the log ratios of all places are averaged, so that all cells contribute to the estimate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MainEffect {
    /// The first metric of the comparison.
    pub metric: Metric,
    /// The axis that is compared.
    pub axis: Axis,
    /// The value that the other is compared with.
    pub baseline_value: Value,
    /// The other value.
    pub value: Value,
    /// The axis over which is averaged.
    pub over: Axis,
    /// The values that the cells have in common on the other axes that vary in the study.
    pub place: Vec<(Axis, Value)>,
    /// The mean ratio over the places: geometric, and trimmed over blocks.
    pub ratio: f64,
    /// Lower end of its 95 % interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Blocks in which every place was measured.
    pub blocks: usize,
    /// Two-sided p value of there being no effect, not corrected.
    pub p: f64,
    /// The p value corrected over all main effects that the study asks for. None for others, which have
    /// an interval and no verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p_corrected: Option<f64>,
    /// The verdict. Nothing is decided where the study does not ask for it, and where its places disagree.
    pub verdict: Verdict,
    /// The ratio at each place by itself, in the order of the axis.
    pub places: Vec<PlaceEffect>,
    /// The place whose ratio is furthest from the mean of all.
    pub furthest: PlaceDeviation,
    /// True if one place is shown to be better and another to be worse, so that the mean has no meaning.
    pub turns: bool,
    /// The caveat that withholds the verdict of one of its places, so that it has none and reports omit
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withheld: Option<CaveatKind>,
}

/// A ratio at one place of a main effect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlaceEffect {
    /// The value on the axis over which is averaged.
    pub value: Value,
    /// The ratio over the same blocks.
    pub ratio: f64,
    /// Lower end of its 95 % interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// The deviation of a place from the mean of all places: the interaction of the two axes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlaceDeviation {
    /// The value on the axis over which is averaged.
    pub value: Value,
    /// Its ratio over the mean of all places.
    pub ratio: f64,
    /// Lower end of an interval that holds for all places together in 95 % of runs.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// The p value of all places being alike, corrected for their number.
    pub p: f64,
}

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
    /// True if the p value is below 5 %, as by chance it is for one twin in twenty.
    pub different: bool,
}

/// The difference between equal cells, baselines and their twins, that this machine showed during the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NoiseFloor {
    /// The twin whose interval is the widest.
    pub widest: Twin,
    /// The number of twins.
    pub twins: usize,
    /// The number of twins that differ from their baseline.
    pub different: usize,
    /// The probability of so many different twins or more where nothing differs.
    pub chance: f64,
    /// The axis of the study's first comparison.
    pub axis: Axis,
    /// The baseline's value on it.
    pub value: Value,
}
