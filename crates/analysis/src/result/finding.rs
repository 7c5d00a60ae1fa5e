//! Findings, and results of several of them together: main effects, crossovers, and the noise floor of twins.

use bytecost_spec::study::{Compare, Family};
use bytecost_spec::{Axis, Metric, Value};
use serde::{Deserialize, Serialize};

use super::{CaveatKind, Uncertain, Verdict};

/// The number and the error rate of the comparisons of a family.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FamilyFacts {
    /// The family: primary, secondary or exploratory.
    pub family: Family,
    /// Its comparisons in this run.
    pub comparisons: usize,
    /// The error rate. For the primary family: the chance of one false better or worse, or more. For
    /// the secondary one: the mean over tables of the share of false ones among these verdicts, and the
    /// chance of one or more where nothing differs. None for the exploratory family, which has no
    /// verdicts.
    pub rate: Option<f64>,
}

/// A comparison of two cells that differ in one axis, with its ratio, interval and verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// Its index among the findings, from 0, by which other parts of the result refer to it.
    pub number: usize,
    /// The metric that is compared.
    pub metric: Metric,
    /// The axis in which the two cells differ.
    pub axis: Axis,
    /// [`Cell::id`](bytecost_spec::Cell::id) of the baseline.
    pub baseline: String,
    /// The baseline's value on the axis.
    pub baseline_value: Value,
    /// [`Cell::id`](bytecost_spec::Cell::id) of the other.
    pub cell: String,
    /// The other's value on the axis.
    pub value: Value,
    /// True if the metric is the first of its comparison.
    pub first: bool,
    /// The family of comparisons within which its p value is corrected.
    pub family: Family,
    /// The other's metric over the baseline's: geometric trimmed mean over blocks; of p99 and p99.9
    /// latency the ratio of the quantiles of all trials together, of the maximum the geometric mean.
    pub ratio: f64,
    /// Lower end of the 95 % interval of the ratio, which covers the variance within the run and from
    /// round to round.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Lower end of the interval from the variance within this run alone.
    #[serde(default)]
    pub within_low: f64,
    /// Upper end.
    #[serde(default)]
    pub within_high: f64,
    /// Standard deviation between rounds of the logarithm of the ratio (τ), over the root of the
    /// run's own rounds.
    #[serde(default)]
    pub between_deviation: f64,
    /// Degrees of freedom of that standard deviation.
    #[serde(default)]
    pub between_degrees: f64,
    /// Blocks in which both were measured.
    pub blocks: usize,
    /// Two-sided p value.
    pub p: f64,
    /// The p value corrected within its family: Holm's over all primary comparisons, Benjamini and
    /// Bogomolov's over the tables of secondary ones. None where it is not judged, and where a caveat
    /// withholds it and so takes it out of its family.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p_corrected: Option<f64>,
    /// The level that the correction asks of it: of a primary one that of the first of them, of a
    /// secondary one that of the next of its table to be decided. None of what is not judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<f64>,
    /// The verdict.
    pub verdict: Verdict,
    /// The caveat that withholds its verdict; none where none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withheld: Option<CaveatKind>,
    /// The caveat that withholds its amount, so that only the direction of its verdict stands; none where
    /// the amount stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amount_withheld: Option<CaveatKind>,
    /// The smallest difference that this many blocks detect 80 % of the time at `level`, or at 5 %
    /// where there is none, as a share.
    pub detectable: f64,
    /// Blocks that it would take to decide, at `level` and 80 % of the time if the ratio stays,
    /// where it is not decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks_needed: Option<u32>,
    /// True if more blocks would decide it but for the variance from round to round.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rounds_prevent: bool,
}

impl Finding {
    /// The metric, the cell and the baseline's value, which identify the finding in every run of its study.
    pub fn key(&self) -> (Metric, &str, &Value) {
        (self.metric, &self.cell, &self.baseline_value)
    }

    /// Returns true if it compares these two cells in this metric, either of them as the baseline.
    pub fn compares(&self, metric: Metric, one: &str, other: &str) -> bool {
        let own = [self.baseline.as_str(), self.cell.as_str()];
        self.metric == metric && (own == [one, other] || own == [other, one])
    }

    /// Returns true if it is of that comparison of the study.
    pub(crate) fn is_of(&self, compare: &Compare) -> bool {
        let is_of_axis = self.axis == compare.axis && self.baseline_value == compare.baseline;
        is_of_axis && compare.compares(&self.value) && compare.metrics.contains(&self.metric)
    }

    /// The ratio with its interval.
    pub(crate) fn uncertain_ratio(&self) -> Uncertain {
        Uncertain {
            value: self.ratio,
            low: self.low,
            high: self.high,
        }
    }

    /// Half the width of its interval within the run, as a share of its ratio. More blocks make it smaller.
    pub(crate) fn half_width(&self) -> f64 {
        (self.within_high / self.within_low).sqrt() - 1.0
    }

    /// Returns true if it has a verdict that no caveat withholds.
    pub fn is_decided(&self) -> bool {
        let has_verdict = !matches!(self.verdict, Verdict::NotDecided | Verdict::NotJudged);
        has_verdict && self.withheld.is_none()
    }

    /// Returns true if it is exploratory: its interval is not corrected, and it has no verdict.
    pub fn is_exploratory(&self) -> bool {
        self.verdict == Verdict::NotJudged && self.withheld.is_none()
    }

    /// Returns true if more blocks could decide it: it is neither exploratory nor withheld.
    pub fn is_undecided(&self) -> bool {
        self.verdict == Verdict::NotDecided && self.withheld.is_none()
    }

    /// Returns true if the verdict is better or worse.
    pub fn is_apart(&self) -> bool {
        matches!(self.verdict, Verdict::Better | Verdict::Worse)
    }
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

/// A comparison of two ways along an axis, with the values at which the better one changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Crossover {
    /// The metric that is compared.
    pub metric: Metric,
    /// The axis in which the two differ.
    pub axis: Axis,
    /// The baseline's value on it.
    pub baseline: Value,
    /// The other's value on it.
    pub value: Value,
    /// The axis along which they cross: numbers, taken by their logarithm.
    pub along: Axis,
    /// The least and the greatest value along it that both were measured at.
    pub range: (Value, Value),
    /// The values that both have on the other axes that vary in the study.
    pub place: Vec<(Axis, Value)>,
    /// The outcome along the axis.
    pub outcome: Crossing,
    /// [`Finding::number`]s behind it.
    pub findings: Vec<usize>,
    /// The values along it at which the two are not decided, or have no verdict.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open: Vec<Value>,
}

/// The outcome of a comparison along an axis, by the values at which a finding decides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Crossing {
    /// The other is better than the baseline at every value.
    AlwaysBetter,
    /// The other is better at no value.
    NeverBetter,
    /// It is better at some values. The points are where that begins and ends, in the order of the axis.
    At(Vec<CrossingPoint>),
    /// It is better at no decided value, and not every value is decided.
    Undecided,
}

/// Two consecutive decided values along the axis between which the other begins or ceases to be better.
/// One is absent where that is before the first decided value or after the last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CrossingPoint {
    /// True if the other is better above this place, false if it is better below.
    pub better_above: bool,
    /// True if there is no difference that matters on the other side of the place, false if the other
    /// is worse there.
    #[serde(default)]
    pub fades: bool,
    /// The last decided value below the place; absent where none is decided below.
    pub low: Option<Value>,
    /// The first decided value above the place; absent where none is decided above.
    pub high: Option<Value>,
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
