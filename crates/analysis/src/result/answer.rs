//! The advice of a run, as facts. The first screen is made from these.

use bytecost_spec::study::Family;
use bytecost_spec::survey::Condition;
use bytecost_spec::{Axis, Metric, Unit, Value};
use serde::{Deserialize, Serialize};

use super::{CauseOf, CaveatKind, Verdict};

/// The advice of a run: the ways to use and to avoid, and the comparisons that are undecided.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Advice {
    /// The situations of readers in which ways are compared, in the order of the study.
    pub situations: Vec<Situation>,
    /// Reason for which the run has no comparison; none where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nothing: Option<NothingCompared>,
    /// The comparisons without a verdict; none where all have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undecided: Option<Undecided>,
}

/// Reason for which a run has no comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum NothingCompared {
    /// No cell of the study is available on this machine.
    NoCells,
    /// No trial was run.
    NoTrials,
    /// Every trial failed; the first for this reason.
    EveryTrialFailed(String),
    /// The run ended before a trial was complete, for this reason.
    EndedEarly(String),
    /// The study has no comparison.
    StudyComparesNothing,
    /// The baseline has no trial: a value of an axis.
    BaselineNotMeasured(Axis, Value),
    /// Nothing but the baseline was measured.
    BaselineAlone {
        /// The compared axis.
        axis: Axis,
        /// The baseline's value on it.
        baseline: Value,
        /// True if the budget did not reach others.
        is_over_budget: bool,
    },
    /// The run has fewer blocks than a comparison takes.
    FewBlocks {
        /// Its blocks.
        blocks: usize,
        /// The blocks that a comparison takes.
        needed: usize,
    },
    /// No metric of the study was measured in both cells of a comparison.
    NoCommonMetric,
}

impl Advice {
    /// The transport and the state of the page cache, where all situations have them in common. The
    /// first line states them, and no line below repeats them.
    pub fn shared_place(&self) -> Vec<(Axis, Value)> {
        let Some((first, others)) = self.situations.split_first() else {
            return Vec::new();
        };
        let is_shared = |at: &&(Axis, Value)| {
            let is_of_all = others.iter().all(|s| s.place.contains(at));
            matches!(at.0, Axis::Transport | Axis::Cache) && is_of_all
        };
        first.place.iter().filter(is_shared).cloned().collect()
    }
}

impl Situation {
    /// Returns true if both have the same subject, place, compared axis and range. Their baselines and
    /// metrics may differ.
    pub fn is_alike(&self, other: &Situation) -> bool {
        let place = |s: &Situation| (s.axis, s.along, s.subject as u8);
        place(self) == place(other) && self.place == other.place
    }
}

/// The task of a reader for which ways are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// Data in memory, for a socket.
    DataInMemory,
    /// Data in a file, for a socket.
    DataInFile,
    /// A file to read.
    ReadFile,
    /// A file to write.
    WriteFile,
    /// A file to copy into another.
    CopyFile,
    /// A file to read whose data are discarded.
    FileToNull,
    /// Several connections to serve, idle ones included.
    Connections,
    /// One connection to serve.
    OneConnection,
    /// Another choice, of a value of the compared axis.
    Choice,
    /// No choice: the effect of a circumstance, such as a background load.
    Circumstance,
}

impl Subject {
    /// Returns true if a reader chooses among the compared ways. Nobody needs to move a file to where
    /// it is discarded: that shows the cost of one step of a way.
    pub fn is_choice(self) -> bool {
        !matches!(self, Subject::Circumstance | Subject::FileToNull)
    }
}

/// One place in which the values of an axis are compared, and what follows from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Situation {
    /// The task of the reader.
    pub subject: Subject,
    /// The values that are constant here, of the axes that vary in the study, without defaults; the
    /// path first.
    pub place: Vec<(Axis, Value)>,
    /// The axis that is compared.
    pub axis: Axis,
    /// The value that the others are compared with.
    pub baseline: Value,
    /// The values that are compared with it here.
    #[serde(default)]
    pub values: Vec<Value>,
    /// The block of the baseline, in bytes as an option has it, where the others have none: a file read
    /// and written in small pieces costs more than in large ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline_block: Option<Value>,
    /// True if the baseline serves another subject: data that are in memory already, for instance.
    pub baseline_is_apart: bool,
    /// The metric that is compared: the study's first of those in which any comparison is decided.
    pub metric: Metric,
    /// The word for one message.
    #[serde(default)]
    pub unit: Unit,
    /// The study's first metric, where none of its comparisons here is decided; else none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<NothingDecided>,
    /// The axis along which it was measured; none where there is one place only.
    pub along: Option<Axis>,
    /// The values along it.
    pub measured: Vec<Value>,
    /// The ways to use where a comparison is decided, in the order of the values along the axis; none
    /// for a circumstance.
    pub uses: Vec<Use>,
    /// The cells of the ways without a condition, the baseline included, of which none is shown to be
    /// worse than another one at the same value along the axis (multiple comparisons with the best,
    /// Hsu 1996): the best one is among them in 95 % of runs, at all primary places together. None
    /// for a circumstance, and where all is withheld.
    #[serde(default)]
    pub may_be_best: Vec<String>,
    /// Ways that are better under a condition.
    pub conditional: Vec<Conditional>,
    /// Ways that are worse.
    pub avoid: Vec<Avoid>,
    /// The improvements by a circumstance.
    pub gains: Vec<DecidedRange>,
    /// The values along the axis at which nothing is decided.
    pub undecided: Vec<Value>,
    /// The values along the axis at which all is withheld.
    pub withheld: Vec<Value>,
}

/// Comparisons of a metric of which none is decided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NothingDecided {
    /// The metric.
    pub metric: Metric,
    /// The number of these comparisons.
    pub comparisons: usize,
    /// The caveats for which none has a verdict; empty where some are merely undecided.
    pub withheld: Vec<CaveatKind>,
    /// The blocks that the first of them would take, where that is known.
    pub blocks: Option<u32>,
}

/// A way to use over a part of the range.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Use {
    /// The way: a value of the compared axis.
    pub value: Value,
    /// The values along the range, of those that were measured.
    pub at: Vec<Value>,
    /// Its improvement over the baseline; none where the way is the baseline, and no other is shown to
    /// be better.
    pub gain: Option<DecidedRange>,
    /// Other metrics in which the way is worse than the baseline; for the baseline, those in which
    /// another way is better.
    pub but: Vec<DecidedRange>,
    /// Conditions of its use, which are conditions of the baseline too. With any, it is no advice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// Decided findings of one way and metric, all better or all worse than the baseline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DecidedRange {
    /// The way.
    pub value: Value,
    /// The metric.
    pub metric: Metric,
    /// Better or worse.
    pub verdict: Verdict,
    /// The findings, in the order of the range.
    pub points: Vec<DecidedPoint>,
}

/// One decided finding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DecidedPoint {
    /// The value along the range; none where there is no range.
    pub at: Option<Value>,
    /// The way's metric over the baseline's.
    pub ratio: f64,
    /// Lower end of its 95 % interval.
    #[serde(default)]
    pub low: f64,
    /// Upper end.
    #[serde(default)]
    pub high: f64,
    /// True if its amount is withheld and its direction alone stands.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_no_amount: bool,
    /// [`super::Finding::number`].
    pub finding: usize,
}

/// A way that is better under conditions that the baseline does not have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Conditional {
    /// All that must hold to use it.
    pub conditions: Vec<Condition>,
    /// The findings by which it is better.
    pub gain: DecidedRange,
}

/// A way that is worse.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Avoid {
    /// The findings by which it is worse.
    pub cost: DecidedRange,
    /// The property or count that goes with it, where one is known.
    pub with: Option<AvoidWith>,
}

/// A property or count that goes with a higher cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum AvoidWith {
    /// A zero-copy way whose buffers the kernel copied after all: the share that it did.
    Copied(f64),
    /// A cause of at least half of the difference.
    Cause {
        /// The copies, the event or the kind of work.
        of: CauseOf,
        /// Its number for a message of the baseline, as [`super::Cause::from`].
        from: f64,
        /// Its number for a message of the way, as [`super::Cause::to`].
        to: f64,
        /// The values along the range at which it does; empty where it does at all of them.
        at: Vec<Value>,
    },
}

/// The number of undecided comparisons in a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UndecidedOf {
    /// The family.
    pub family: Family,
    /// Its comparisons without a verdict that nothing withholds.
    pub undecided: usize,
    /// All of its comparisons.
    pub comparisons: usize,
}

/// The comparisons that the run does not decide, and the run that would decide most of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Undecided {
    /// The undecided comparisons of each family that is judged.
    pub by_family: Vec<UndecidedOf>,
    /// Comparisons whose verdict a caveat withholds.
    pub withheld: usize,
    /// The family that the command is for: the first in which anything is undecided.
    pub asks: Family,
    /// Number of its undecided comparisons that a longer run would decide, if the estimates stay.
    pub would_decide: usize,
    /// Number of its undecided comparisons that more blocks would decide but for the variance from
    /// round to round.
    #[serde(default)]
    pub rounds_prevent: usize,
    /// The median standard deviation between rounds of these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub between_deviation: Option<f64>,
    /// The duration of the longer run, in s.
    pub seconds: Option<u64>,
    /// The command of the run that decides most: a longer one, or one of several rounds.
    pub command: Option<String>,
}
