//! What a number, a comparison and several of them together come to.

use bytecost_spec::{Axis, Metric, Value};
use serde::{Deserialize, Serialize};

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

/// What a comparison comes to.
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
    /// Neither; the finding says what it would take.
    NotDecided,
    /// It is exploratory: its interval stands for itself, and nothing corrects it.
    NotJudged,
}

/// A main effect: one value of an axis against another over all values of a second axis.
///
/// In each block the log ratios of all places are averaged, so that all cells speak to it at once.
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
    /// What else the cells have in common, of the axes that vary in the study.
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
    /// The same corrected over all main effects that the study asks for; none of one that it does
    /// not ask for, which then has an interval and no verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p_corrected: Option<f64>,
    /// What was decided of it: of one that the study does not ask for, and of one whose places
    /// disagree, nothing is.
    pub verdict: Verdict,
    /// The ratio at each place by itself, in the order of the axis.
    pub places: Vec<PlaceEffect>,
    /// The place whose ratio is furthest from the mean of all.
    pub furthest: PlaceDeviation,
    /// Whether one place is shown to be better and another to be worse, so that a mean says nothing.
    pub turns: bool,
    /// Why it has no verdict and is not told, where a caveat withholds that of one of its places.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withheld: Option<String>,
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

/// How far a place is from the mean of all places: the interaction of the two axes.
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
