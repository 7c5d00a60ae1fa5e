//! The questions of a report, with the answers of the results, as facts.

use bytecost_spec::HugePages;
use bytecost_spec::study::Outcome;
use serde::{Deserialize, Serialize};

use super::{CaveatKind, CopiedMover, NoValue, Uncertain};

/// A question that reports answer, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Question {
    /// The causes of one way being better than another.
    WhyOneWayWins,
    /// The copies of each byte and their places.
    CopiesPerByte,
    /// The causes of zero-copy not always being fastest.
    ZeroCopyNotFastest,
    /// The message size from which zero-copy is better than copying.
    ZeroCopyAgainstCopying,
    /// The message sizes at which one call is better than one for each field.
    OneCallAgainstSeveral,
    /// The effect of several threads on caches.
    ThreadsAndCaches,
    /// The cache level that gains most from sending without a copy.
    CacheLevel,
    /// The cases in which asynchronous is slower than synchronous.
    AsynchronousSlower,
    /// The savings of sendfile.
    SendfileSaves,
    /// The best server for each number of connections.
    WhichServer,
    /// The servers that become slower with idle connections.
    IdleConnections,
    /// The clients' share of the work for a request.
    ClientsShare,
    /// The memory of a thread or process for each connection.
    MemoryPerConnection,
    /// The claim that a server of one connection after the other has the least latency.
    SingleSoonest,
    /// The findings that differ from the study's expectation.
    Unexpected,
    /// The core of two CPUs: shared or not, by measurement.
    SharedCore,
    /// The effect of pinning threads to CPUs.
    Pinning,
    /// The cause of two threads slowing each other: a shared core, or turns on one CPU.
    TakingTurns,
    /// The working sets at which an access becomes more expensive.
    CacheSteps,
    /// The working set from which huge pages are better.
    HugePages,
    /// The scheduling class or control group that protects work from background load.
    IsolationProtects,
    /// The effects of a class, a weight and a quota on wake-ups.
    IsolationWakes,
    /// The share of the machine's ceiling that is reached.
    CeilingShare,
}

/// The answer to a question: comparisons of the run and further facts, or what is missing for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Explanation {
    /// The question.
    pub question: Question,
    /// The part that is missing for an answer; none where there is an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<Missing>,
    /// The comparisons that it is about, in the direction of the question.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pairs: Vec<PairSeen>,
    /// Further facts of the answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<Fact>,
}

/// A comparison, seen from either of its two cells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PairSeen {
    /// [`super::Finding::number`].
    pub finding: usize,
    /// True if the baseline is compared with the other cell here, opposite to the finding's direction.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_turned: bool,
}

/// A part of an answer that the run does not have.
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
    /// Verdicts, which this caveat withholds.
    Verdicts(CaveatKind),
    /// Amounts, which a caveat withholds.
    Amounts,
    /// A measurement that was refused, with the reason.
    Refused(String),
    /// A trial for evidence that came to its end.
    Evidence,
    /// Two counted cells that are decided to differ.
    Difference,
    /// A saved copy: the kernel copied for the zero-copy way after all.
    SavedCopy,
    /// A completion that the kernel flagged, or a count.
    Completions,
    /// Misses of a cache level, which no counter of this machine gives for this reason.
    Misses {
        /// The level.
        level: CacheLevel,
        /// The reason for which they are not counted.
        why: NoValue,
    },
    /// Misses of a cache level that were neither counted nor timed.
    MissesAndTiming {
        /// The level.
        level: CacheLevel,
        /// The reason for which they are not counted.
        why: NoValue,
        /// The reason for which they are not timed.
        timing: NotTimed,
    },
    /// A cache level whose hits and misses differ in time.
    Level,
    /// Levels whose intervals do not overlap.
    LevelsApart,
}

/// Reason for which caches were not timed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum NotTimed {
    /// The run did not ask for timing.
    Unasked,
    /// No pair of a zero-copy and a copying cell was timed.
    NoPair,
    /// The timing was refused, with the reason.
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

/// The ratio of one way to another at a cache level.
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

/// A fact of an answer that is not a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Fact {
    /// CPU samples were asked for and refused for this reason.
    NoCpuSamples(String),
    /// The kernel copied the buffers of a zero-copy mover.
    Copied(CopiedMover),
    /// No zero-copy way saved a copy in any cell.
    NoCopySaved,
    /// The ratio of one way to another at each cache level.
    Levels {
        /// The one, a mover.
        way: String,
        /// The other.
        baseline: String,
        /// True if the ratios are from timing, false if they are from counters.
        by_timing: bool,
        /// True if the one is shown to have less at some level.
        is_shown: bool,
        /// The levels at which the ratio is known.
        levels: Vec<LevelRatio>,
    },
    /// The data that zero-copy and copying displace from a cache level; no ratio where copying
    /// displaces hardly more than time alone does.
    Displaced {
        /// The level.
        level: u32,
        /// [`super::CellFootprint::cell`]s: of the way without a copy, and of the copying one.
        cells: Vec<[String; 2]>,
        /// The data that zero-copy displaces over those that copying displaces.
        ratio: Option<Uncertain>,
        /// Reason for which the level was not timed; none where it was.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        missing: Option<NoValue>,
    },
    /// The work of clients in a closed loop for a request, over cells with so many connections.
    ClientWork {
        /// The connections.
        connections: u32,
        /// The least and the most CPU time for a request, in µs.
        cpu_us: [f64; 2],
        /// The least and the largest share of the window in which they were busy.
        busy: [f64; 2],
    },
    /// The memory of a further connection.
    ConnectionMemory {
        /// The server.
        server: String,
        /// The memory, in KiB.
        kib: f64,
        /// True if each connection has a thread or process.
        has_tasks: bool,
    },
    /// The result of an expectation of the study that one finding or more test.
    Expected(Expected),
    /// The placement of two CPUs, with the result whether they share a core.
    Core {
        /// The placement.
        placement: String,
        /// True if they share a core; none where that is not decided.
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

/// An expectation of the study and the findings that test it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Expected {
    /// The expected outcome.
    pub outcome: Outcome,
    /// The number of findings with that outcome.
    pub met: usize,
    /// [`super::Finding::number`]s of the findings with another outcome.
    pub otherwise: Vec<usize>,
    /// The number of findings that are not decided.
    pub open: usize,
}
