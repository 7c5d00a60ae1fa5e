//! The variance of ratios between rounds on a machine, as known before a run.

use serde::{Deserialize, Serialize};

use crate::Metric;

/// The variance between rounds (τ²), which is added to the sampling variance of every printed interval.
///
/// A round is a group of consecutive blocks; a pause, or another run, begins the next. All variances
/// are of the natural logarithm of a ratio. A report reads them from the manifest alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RoundNoise {
    /// Names of the earlier runs of this machine that the variances come from, oldest first; none where the
    /// variances are assumed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<String>,
    /// The variance of a comparison whose metric is not in `metrics`.
    pub assumed: RoundVariance,
    /// The variance of each metric's comparisons, for those that are not in `comparisons`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<MetricRounds>,
    /// Comparisons that at least three earlier rounds measured, each shrunk towards its metric's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub comparisons: Vec<ComparisonRounds>,
}

/// A variance between rounds, and how well it is known.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RoundVariance {
    /// τ², of the natural logarithm of the ratio.
    pub variance: f64,
    /// Degrees of freedom of that variance; need not be whole.
    pub degrees: f64,
}

/// The variance between rounds that is typical of a metric's comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MetricRounds {
    /// The metric.
    pub metric: Metric,
    /// Its variance.
    #[serde(flatten)]
    pub between: RoundVariance,
}

/// The variance between rounds of one comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComparisonRounds {
    /// The metric.
    pub metric: Metric,
    /// Id of the baseline cell.
    pub baseline: String,
    /// Id of the other cell.
    pub cell: String,
    /// Number of rounds that measured it.
    pub rounds: u32,
    /// Its variance, shrunk towards that of its metric.
    #[serde(flatten)]
    pub between: RoundVariance,
}

impl RoundNoise {
    /// The assumption about a machine without three earlier rounds: the result of `make bench-noise` over
    /// an hour on a virtual machine with two CPUs, for six ways to send at three sizes.
    pub const ASSUMED: RoundNoise = RoundNoise {
        runs: Vec::new(),
        assumed: RoundVariance {
            variance: 0.035 * 0.035,
            degrees: 3.0,
        },
        metrics: Vec::new(),
        comparisons: Vec::new(),
    };

    /// The variance between rounds of a comparison of two cells, in either order: its own, else its
    /// metric's, else the assumed one.
    pub fn between(&self, metric: Metric, one: &str, other: &str) -> RoundVariance {
        let is_pair = |c: &&ComparisonRounds| {
            c.metric == metric && [[one, other], [other, one]].contains(&[&*c.baseline, &*c.cell])
        };
        let known = self.comparisons.iter().find(is_pair).map(|c| c.between);
        known.unwrap_or_else(|| self.typical(metric))
    }

    /// The variance between rounds that is typical of a metric, else the assumed one.
    pub fn typical(&self, metric: Metric) -> RoundVariance {
        let known = self.metrics.iter().find(|m| m.metric == metric);
        known.map_or(self.assumed, |m| m.between)
    }
}

impl Default for RoundNoise {
    fn default() -> RoundNoise {
        RoundNoise::ASSUMED
    }
}
