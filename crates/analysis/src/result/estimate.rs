//! What a number comes to, and a comparison.

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
