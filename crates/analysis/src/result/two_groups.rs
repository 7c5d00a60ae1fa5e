//! Two groups into which the trials of a cell fall, as findings.json has them.

use bytecost_spec::{Metric, units};
use serde::{Deserialize, Serialize};

/// Factor between the means of two groups from which no single number describes both.
const FAR_APART: f64 = 1.5;

/// One of two groups of trials.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TrialGroup {
    /// Its share of the trials.
    pub share: f64,
    /// The mean of its trials on a log scale, in the metric's unit.
    pub value: f64,
    /// The 10 % quantile of its trials.
    pub low: f64,
    /// Their 90 % quantile.
    pub high: f64,
}

/// The reading of timed trials that differs most clearly between two groups of trials.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PartedBy {
    /// Its name, with its unit: `segments a message`.
    pub reading: String,
    /// 10 % and 90 % quantile in the lower group.
    pub lower: [f64; 2],
    /// 10 % and 90 % quantile in the upper group.
    pub upper: [f64; 2],
}

/// Two groups into which the trials of a cell fall by a metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TwoGroups {
    /// The metric.
    pub metric: Metric,
    /// The group of the smaller values.
    pub lower: TrialGroup,
    /// The group of the larger values.
    pub upper: TrialGroup,
    /// The reading that differs between them; none where none does clearly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parted_by: Option<PartedBy>,
}

impl TwoGroups {
    /// Larger values as a factor of the smaller ones.
    pub(crate) fn factor(&self) -> f64 {
        self.upper.value / self.lower.value
    }

    /// Returns true if no single number stands for both groups.
    pub fn are_far_apart(&self) -> bool {
        self.factor() >= FAR_APART
    }

    /// The means of both: `16.1 or 49.8`.
    pub fn values_in_words(&self) -> String {
        let [low, high] = [self.lower, self.upper].map(|g| units::number(g.value));
        format!("{low} or {high}")
    }

    /// `13–20 or 42–60 s/GB, about half each: segments a message 0.1–0.27 or 1`.
    pub fn in_words(&self) -> String {
        let [low, high] = [self.lower, self.upper].map(|group| range(group.low, group.high));
        let unit = self.metric.measure.row().unit;
        let [fewer, more] = [self.lower, self.upper].map(|g| units::percent(percent(g.share)));
        let shares = if (0.4..=0.6).contains(&self.upper.share) {
            "about half each".to_owned()
        } else {
            format!("{fewer} and {more} of the trials")
        };
        let parted_by = self.parted_by.as_ref().map(|by| {
            let [low, high] = [by.lower, by.upper].map(|[low, high]| range(low, high));
            format!(": {} {low} or {high}", by.reading)
        });
        format!(
            "{low} or {high} {unit}, {shares}{}",
            parted_by.unwrap_or_default()
        )
    }
}

fn percent(share: f64) -> f64 {
    (100.0 * share).round() / 100.0
}

/// `13–20`, or one number where both read alike.
fn range(low: f64, high: f64) -> String {
    match [low, high].map(units::short_number) {
        [low, high] if low == high => low,
        [low, high] => format!("{low}–{high}"),
    }
}
