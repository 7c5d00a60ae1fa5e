//! Questions about why, with what these results say to each, as facts.

use bytecost_spec::study::Outcome;
use bytecost_spec::{HugePages, Transport};
use serde::{Deserialize, Serialize};

use super::Uncertain;

/// A question about why that a run is asked, in the order of answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Question {
    /// Why one way is better than another.
    WhyOneWayWins,
    /// How often each byte is copied, and where.
    CopiesPerByte,
    /// Why zero-copy is not always fastest.
    ZeroCopyNotFastest,
    /// From what size zero-copy is better than copying.
    ZeroCopyAgainstCopying,
    /// From what size one call is better than one for each field.
    OneCallAgainstSeveral,
    /// How threads interact with caches.
    ThreadsAndCaches,
    /// Which cache level gains most from sending without a copy.
    CacheLevel,
    /// When asynchronous is slower than synchronous.
    AsynchronousSlower,
    /// What sendfile saves.
    SendfileSaves,
    /// Which server for how many connections.
    WhichServer,
    /// Where servers lose with idle connections.
    IdleConnections,
    /// How much of a request was the clients' own work.
    ClientsShare,
    /// What a thread or process for each connection costs in memory.
    MemoryPerConnection,
    /// Whether a server of one connection after the other has the least latency.
    SingleSoonest,
    /// What was unexpected.
    Unexpected,
    /// Whether two CPUs share a core.
    SharedCore,
    /// What it changes to hold threads on CPUs.
    Pinning,
    /// Whether two threads share a core or take turns on a CPU.
    TakingTurns,
    /// Where an access becomes more expensive over the working set.
    CacheSteps,
    /// From which working set huge pages are better.
    HugePages,
    /// Which class or control group protects work.
    IsolationProtects,
    /// What a class, a weight and a quota do to wake-ups.
    IsolationWakes,
    /// What share of the machine's ceiling is reached.
    CeilingShare,
}

/// A question and what these results say to it: comparisons of the run, further facts, or what is
/// missing for an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Explanation {
    /// The question.
    pub question: Question,
    /// What is missing for an answer; none where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<Missing>,
    /// The comparisons that it is about, as the question sees them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pairs: Vec<PairSeen>,
    /// What else bears on it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<Fact>,
}

/// A comparison, seen from either of its two cells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PairSeen {
    /// [`super::Finding::number`].
    pub finding: usize,
    /// Returns true if the finding's baseline is compared with its other cell here.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_turned: bool,
}

/// What is missing for an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Missing {
    /// Cells that the question is about.
    Cells,
    /// A comparison of them, which the study does not make.
    Comparison,
    /// A judgement of them, which the study does not ask for.
    Judgement,
    /// A decision, in so many comparisons.
    Decision(usize),
    /// Verdicts, which a caveat withholds for this reason.
    Verdicts(String),
    /// Amounts, which a caveat withholds.
    Amounts,
    /// What was refused for this reason.
    Refused(String),
    /// A trial for evidence that came to its end.
    Evidence,
    /// Two counted cells that are decided to differ.
    Difference,
    /// The copy that a way without one was to save: the kernel copied after all.
    SavedCopy,
    /// A completion that the kernel flagged, or a count.
    Completions,
    /// Misses of a cache level, which no counter of this machine gives for this reason.
    Misses {
        /// The level.
        level: CacheLevel,
        /// Why they are not counted.
        why: String,
    },
    /// The same where timing could tell them.
    MissesAndTiming {
        /// The level.
        level: CacheLevel,
        /// Why they are not counted.
        why: String,
        /// Why they are not timed either.
        timing: NotTimed,
    },
    /// A cache level whose hits and misses are apart.
    Level,
    /// Levels whose intervals do not overlap.
    LevelsApart,
}

/// Why caches were not timed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum NotTimed {
    /// Nobody asked for it.
    Unasked,
    /// No pair of zero-copy and copying was.
    NoPair,
    /// This was refused.
    Refused(String),
}

/// A level of the caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum CacheLevel {
    /// The first level, of data.
    L1Data,
    /// The last level.
    Last,
    /// The level of that number.
    Number(u32),
}

/// Share of copied buffers from which a zero-copy mover is said to copy.
const COPIED: f64 = 0.01;

/// A zero-copy mover that the kernel made a copying one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CopiedMover {
    /// The mover.
    pub mover: String,
    /// Over what.
    pub transport: Transport,
    /// One copied share for each cell.
    pub shares: Vec<f64>,
    /// Returns true if all of them were counted, rather than flagged.
    pub is_counted: bool,
    /// [`bytecost_spec::Cell::id`]s.
    pub cells: Vec<String>,
}

impl CopiedMover {
    /// Returns true if the kernel copied in some cell.
    pub(crate) fn is_copied(&self) -> bool {
        self.shares.iter().any(|share| *share > COPIED)
    }

    /// Returns true if the kernel copied in each cell.
    pub fn is_always_copied(&self) -> bool {
        self.shares.iter().all(|share| *share > COPIED)
    }
}

/// What one way has at a cache level, over what another has.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LevelRatio {
    /// The level.
    pub level: CacheLevel,
    /// The ratio of load misses, or of displaced lines.
    pub ratio: Uncertain,
}

/// The cost of an access at a working set.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AccessCost {
    /// The working set.
    pub bytes: u64,
    /// CPU time of an access, in ns.
    pub ns: Uncertain,
}

/// What bears on a question beside comparisons.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Fact {
    /// CPU samples were asked for and refused for this reason.
    NoCpuSamples(String),
    /// A way without a copy was copied.
    Copied(CopiedMover),
    /// None of the ways without a copy saved one anywhere.
    NoCopySaved,
    /// What one way has at each cache level over another.
    Levels {
        /// The one, a mover.
        way: String,
        /// The other.
        baseline: String,
        /// Returns true if it is by timing, and not by counters.
        by_timing: bool,
        /// Returns true if the one is shown to have less at some level.
        is_shown: bool,
        /// Each level where that is known.
        levels: Vec<LevelRatio>,
    },
    /// What is displaced from a level by ways without a copy and with one; no ratio where copying
    /// displaces hardly more than time alone does.
    Displaced {
        /// The level.
        level: u32,
        /// [`super::CellFootprint::cell`]s: of the way without a copy, and of the copying one.
        cells: Vec<[String; 2]>,
        /// What is displaced by the one over what is by the other.
        ratio: Option<Uncertain>,
        /// Why it was not timed, where it was not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        missing: Option<String>,
    },
    /// What clients of a closed loop took for a request, over cells with so many connections.
    ClientWork {
        /// The connections.
        connections: u32,
        /// The least and the most CPU time for a request, in µs.
        cpu_us: [f64; 2],
        /// The least and the largest share of the window in which they were busy.
        busy: [f64; 2],
    },
    /// What a further connection takes of memory.
    ConnectionMemory {
        /// The server.
        server: String,
        /// How much, in KiB.
        kib: f64,
        /// Returns true if each connection has a thread or process.
        has_tasks: bool,
    },
    /// What became of an expectation of the study, of which some finding speaks.
    Expected(Expected),
    /// Where two CPUs were held, and whether they share a core; none where that is not decided.
    Core {
        /// The placement.
        placement: String,
        /// The answer.
        is_shared: Option<bool>,
    },
    /// The cost of an access over the working set, with the steps that it makes.
    Steps {
        /// The kind of pages.
        pages: HugePages,
        /// The costs, by rising working set.
        costs: Vec<AccessCost>,
        /// The first and the last of the costs of each step.
        steps: Vec<[usize; 2]>,
    },
}

/// An expectation of the study and the findings that speak to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Expected {
    /// What was expected.
    pub outcome: Outcome,
    /// Findings that came out so.
    pub met: usize,
    /// [`super::Finding::number`]s of those that did not.
    pub otherwise: Vec<usize>,
    /// Findings that are not decided.
    pub open: usize,
}
