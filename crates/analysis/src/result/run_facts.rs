//! The run and the study of a result, in a few facts.

use bytecost_spec::{
    Axis, CompetingLoad, Host, Manifest, NetworkCard, PeerSide, Placement, Unit, Value,
};
use serde::{Deserialize, Serialize, Serializer};

/// Serializes a host without its checks, which manifest.json has.
pub(super) fn without_checks<S: Serializer>(host: &Host, to: S) -> Result<S::Ok, S::Error> {
    let host = Host {
        checks: Vec::new(),
        ..host.clone()
    };
    host.serialize(to)
}

/// The run, in a few facts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunFacts {
    /// Its name.
    pub id: String,
    /// Its start, RFC 3339.
    pub started: String,
    /// Version that measured.
    pub bytecost_version: String,
    /// The command line.
    pub command: Vec<String>,
    /// Seed of the order.
    pub seed: u64,
    /// Time from the start of the first trial to the end of the last, in s.
    pub measured_s: f64,
    /// The budget, in s, where that was clearly longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over_budget_s: Option<f64>,
    /// Blocks that every remaining cell completed.
    pub blocks: u32,
    /// Trials that gave a sample, repeats included.
    pub trials: usize,
    /// Trials among these that do not count, because their block was measured again.
    pub repeated: usize,
    /// Trials that failed.
    pub failed: usize,
    /// Half the width of the widest interval of a primary finding, as a share.
    pub widest_interval: Option<f64>,
    /// The precision that the plan expected and that of the run; none for a run whose plan expected
    /// none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanFacts>,
    /// The deviation of ratios from round to round; none for a run without findings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<RoundFacts>,
    /// Notes on the course of the run: a time above the budget, longer windows, resumptions.
    #[serde(default)]
    pub notes: Vec<RunNote>,
    /// The version of Java that carried movers out, where it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub java: Option<String>,
    /// The files that were read and written; none where there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<FileFacts>,
    /// The CPUs to which threads were pinned and what else ran there, as the kernel reported it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<PlaceFacts>,
    /// Reason for the early end of the run; none where it ended as planned.
    pub ended_early: Option<String>,
}

/// The precision of the primary comparisons, as a plan expects it or as a run has reached it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Precision {
    /// The number of blocks; of a run the median over the comparisons.
    pub blocks: u32,
    /// The standard deviation of a log ratio between blocks.
    pub noise: f64,
    /// The smallest effect that is detected 80 % of the time, as a share; none where it is not known.
    pub detectable: Option<f64>,
}

/// The precision that a plan expected of its primary comparisons, and the precision of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlanFacts {
    /// The expected precision.
    pub expected: Precision,
    /// The run whose noise the plan expected; none where the noise is assumed.
    pub noise_run: Option<String>,
    /// The precision of the run; none with too few blocks.
    pub reached: Option<Precision>,
    /// Primary comparisons.
    pub comparisons: usize,
    /// Those of them that have a verdict.
    pub decided: usize,
}

/// The deviation of ratios from round to round.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RoundFacts {
    /// The standard deviation of a log ratio between rounds: the median over the findings.
    pub deviation: f64,
    /// The source of this number.
    pub source: RoundSource,
}

/// The measurements by which the deviation between rounds is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum RoundSource {
    /// None: fewer than three earlier runs of this machine measured it.
    Assumed,
    /// So many earlier runs of this machine.
    EarlierRuns(usize),
    /// So many rounds of this run.
    OwnRounds(usize),
}

/// A note on the course of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum RunNote {
    /// Measuring took longer than the budget.
    OverBudget {
        /// Time from the start of the first trial to the end of the last, in ms.
        measured_ms: u64,
        /// The budget, in ms.
        budget_ms: u64,
        /// The fewest blocks of the study, which are measured in any case.
        min_blocks: u32,
    },
    /// A flow moved nothing in its window, so that the windows of its cell became longer.
    LongerWindows {
        /// [`bytecost_spec::Cell::id`] of the cell.
        cell: String,
        /// The first block with longer windows, from 1.
        first_block: u32,
        /// Their length as a factor of the study's.
        times: u32,
        /// The earlier trials of the cell, which do not count.
        dropped: usize,
    },
    /// The run ended and was resumed, so that its earlier verdicts spent a part of the error rate.
    Resumed {
        /// The number of earlier ends.
        times: usize,
        /// The blocks at the last of them.
        last_blocks: u32,
        /// The error rate of the verdicts of now.
        rate: f64,
        /// The error rate of all reports of the run together.
        total_rate: f64,
    },
}

/// The files of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FileFacts {
    /// The user's file, or the directory of bytecost's own files.
    pub path: String,
    /// True if the file is the user's.
    pub is_of_user: bool,
    /// Type of the file system: `ext4`.
    pub file_system: String,
}

/// The CPUs of the threads of a placement or of a background load. Each list has the CPUs that a thread
/// was allowed to run on, once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum PlaceFacts {
    /// The threads of all cells with a placement.
    Threads {
        /// The placement.
        placement: Placement,
        /// The NUMA node of the memory, where the cells set one.
        mem_node: Option<u32>,
        /// True if `own` has the threads of a sender alone; false if it has those of a mover without
        /// another end.
        has_peer: bool,
        /// CPUs of the sender's threads, or of all threads.
        own: Vec<Vec<u32>>,
        /// CPUs of the receiver's threads.
        receiver: Vec<Vec<u32>>,
    },
    /// The threads of a background load.
    Background {
        /// The load.
        load: CompetingLoad,
        /// Their CPUs.
        cpus: Vec<Vec<u32>>,
        /// Their CPU time as a share of the windows; none where it is not known.
        busy_share: Option<f64>,
    },
}

/// The study of the run: its question, its precision, its windows and its axes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StudyFacts {
    /// Its name.
    pub name: String,
    /// The name of the design, where it is not the study's own: `as-published`.
    #[serde(default)]
    pub design: Option<String>,
    /// Its heading.
    pub title: String,
    /// The question.
    pub question: String,
    /// The outcome that the study predicts.
    pub prediction: String,
    /// The smallest difference that matters, as a share.
    pub smallest_effect: f64,
    /// The precision that was asked for, as a share.
    pub precision: f64,
    /// Confidence level of every interval: 0.95.
    pub level: f64,
    /// Time before the window, in ms.
    pub warmup_ms: u64,
    /// Length of the window, in ms.
    pub window_ms: u64,
    /// Axes with one value in all cells: axis and value.
    pub constants: Vec<(Axis, Value)>,
    /// Axes with several values, in their order.
    pub varied: Vec<Axis>,
    /// Axes of which the study names several values, or the command line any, with those values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<(Axis, Vec<Value>)>,
    /// The word for one message: a request, a step.
    #[serde(default)]
    pub unit: Unit,
}

/// The other host of a run on two hosts, and the path to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PeerFacts {
    /// The name of the other host.
    pub name: String,
    /// Round-trip time of the path at the start, in µs.
    pub round_trip_us: u64,
    /// The largest packet on the path, in bytes; none where the kernel reports none.
    pub path_mtu: Option<u64>,
    /// The side that ran there.
    pub side: PeerSide,
    /// The facts of that machine, without its checks.
    #[serde(serialize_with = "without_checks")]
    pub host: Host,
    /// Its network cards on the path.
    pub cards: Vec<NetworkCard>,
    /// This machine's network cards on the path.
    pub own_cards: Vec<NetworkCard>,
}

impl PeerFacts {
    /// The other host of a run; none for a run on one host.
    pub(crate) fn from_manifest(manifest: &Manifest) -> Option<PeerFacts> {
        let peer = manifest.peer.as_ref()?;
        Some(PeerFacts {
            name: peer.name.clone(),
            round_trip_us: peer.round_trip_us,
            path_mtu: peer.path_mtu,
            side: peer.side,
            host: peer.host.clone(),
            cards: peer.cards.clone(),
            own_cards: manifest.own_cards.clone(),
        })
    }
}
