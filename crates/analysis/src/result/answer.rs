//! What a run advises, as facts: the first screen is made from these.

use bytecost_spec::study::Family;
use bytecost_spec::survey::Condition;
use bytecost_spec::{Axis, Metric, Unit, Value};
use serde::{Deserialize, Serialize};

use super::{CauseOf, Verdict};

/// What to use and what to avoid, and what is missing for more.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Advice {
    /// What was compared, one situation of a reader each, in the order of the study.
    pub situations: Vec<Situation>,
    /// Why nothing is compared, where nothing is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nothing: Option<String>,
    /// What is undecided, where something is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undecided: Option<Undecided>,
}

impl Advice {
    /// What is the same in all situations, of the path and of where a file's pages are: the first line
    /// says it once, and nothing below it again.
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
    /// Returns true if a reader is in both at once, by whatever their ways are compared with.
    pub fn is_alike(&self, other: &Situation) -> bool {
        let place = |s: &Situation| (s.axis, s.along, s.subject as u8);
        place(self) == place(other) && self.place == other.place
    }
}

/// What a reader has, and what is compared for it.
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
    /// A file to read where the data are thrown away.
    FileToNull,
    /// Several connections to serve, idle ones included.
    Connections,
    /// One connection to serve.
    OneConnection,
    /// Another choice, of a value of the compared axis.
    Choice,
    /// No choice: what a circumstance, such as a background load, changes.
    Circumstance,
}

impl Subject {
    /// Returns true if a reader chooses among what is compared. Nobody needs a file taken to where
    /// it is thrown away: that shows what one step of a way costs.
    pub fn is_choice(self) -> bool {
        !matches!(self, Subject::Circumstance | Subject::FileToNull)
    }
}

/// One place in which the values of an axis are compared, and what follows from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Situation {
    /// What the reader has.
    pub subject: Subject,
    /// What is constant here, of the axes that vary in the study, but for defaults; the path first.
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
    /// Whether the baseline serves another subject: it has data in memory already, for instance.
    pub baseline_is_apart: bool,
    /// What is compared: what the study asks for first of that of which anything is decided.
    pub metric: Metric,
    /// What one message of it is called.
    #[serde(default)]
    pub unit: Unit,
    /// What the study asks for first, where nothing of that is decided here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<NothingDecided>,
    /// The axis along which it was measured; none where there is one place only.
    pub along: Option<Axis>,
    /// The values along it.
    pub measured: Vec<Value>,
    /// What to use where anything is decided, in the order of the values along the axis; none for a
    /// circumstance.
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
    /// What circumstances change for the better.
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
    /// All of them.
    pub comparisons: usize,
    /// Why none has a verdict, each reason once; empty where some are merely undecided.
    pub withheld: Vec<String>,
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
    /// How much better it is than the baseline; none where it is the baseline, than which nothing
    /// was shown to be better.
    pub gain: Option<DecidedRange>,
    /// What other measures say against it.
    pub but: Vec<DecidedRange>,
    /// What must hold to use it, which holds for the baseline too. It is no advice then.
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
    /// Returns true if its direction alone stands, and no amount is said of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_no_amount: bool,
    /// [`super::Finding::number`].
    pub finding: usize,
}

/// A way that is better under conditions that the baseline has not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Conditional {
    /// All that must hold to use it.
    pub conditions: Vec<Condition>,
    /// Where it is better, and by how much.
    pub gain: DecidedRange,
}

/// A way that is worse.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Avoid {
    /// Where, and by how much.
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
    /// What carries at least half of the difference.
    Cause {
        /// What.
        of: CauseOf,
        /// How often for a message of the baseline, as [`super::Cause::from`].
        from: f64,
        /// How often for a message of its own.
        to: f64,
        /// The values along the range at which it does; empty where it does at all of them.
        at: Vec<Value>,
    },
}

/// What a run does not decide of a family of comparisons.
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

/// What the run does not decide, and what would.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Undecided {
    /// What is undecided of each family that is judged.
    pub by_family: Vec<UndecidedOf>,
    /// Comparisons that something withholds.
    pub withheld: usize,
    /// The family that the command is for: the first in which anything is undecided.
    pub asks: Family,
    /// How many of its undecided ones a longer run would decide, if the estimates stay.
    pub would_decide: usize,
    /// How many of them blocks would decide, did ratios not differ from round to round.
    #[serde(default)]
    pub rounds_prevent: usize,
    /// The typical standard deviation between rounds of these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub between_deviation: Option<f64>,
    /// How long the longer run would take, in s.
    pub seconds: Option<u64>,
    /// The command of the run that decides most: a longer one, or one of several rounds.
    pub command: Option<String>,
}
