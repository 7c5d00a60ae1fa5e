//! The values that other results are made of: numbers with their intervals, verdicts, and the reasons for
//! which there is no number.

use bytecost_spec::evidence::{CountedEvent, Kind};
use bytecost_spec::{Counter, Metric, Transport};
use bytecost_stats::Location;
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

/// A number with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Uncertain {
    /// The estimate.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// Arithmetic of numbers that are known independently of each other.
impl Uncertain {
    pub(crate) fn from_location(location: Location, level: f64) -> Option<Uncertain> {
        let interval = location.interval(level)?;
        Some(Uncertain {
            value: location.value,
            low: interval.low,
            high: interval.high,
        })
    }

    pub(crate) fn exact(value: f64) -> Uncertain {
        Uncertain {
            value,
            low: value,
            high: value,
        }
    }

    /// The product with a positive number that is known independently.
    pub(crate) fn times(self, by: Uncertain) -> Uncertain {
        let value = self.value * by.value;
        let (mut below, mut above) = (by.value - by.low, by.high - by.value);
        if value < 0.0 {
            std::mem::swap(&mut below, &mut above);
        }
        let reach = |end: f64, other: f64| (end * by.value).hypot(self.value * other);
        Uncertain {
            value,
            low: value - reach(self.value - self.low, below),
            high: value + reach(self.high - self.value, above),
        }
    }

    /// The quotient by a positive number that is known independently.
    pub(crate) fn over(self, by: Uncertain) -> Uncertain {
        self.times(by.inverse())
    }

    /// One over a positive number: of a ratio that of the two the other way round.
    pub fn inverse(self) -> Uncertain {
        Uncertain {
            value: 1.0 / self.value,
            low: 1.0 / self.high,
            high: 1.0 / self.low,
        }
    }

    /// The value with its interval extended to cover that of another.
    pub(crate) fn up_to(self, other: Uncertain) -> Uncertain {
        Uncertain {
            low: self.low.min(other.low),
            high: self.high.max(other.high),
            ..self
        }
    }

    pub(crate) fn sum(all: impl Iterator<Item = Uncertain>) -> Option<Uncertain> {
        all.reduce(|a, b| Uncertain {
            value: a.value + b.value,
            low: a.value + b.value - (a.value - a.low).hypot(b.value - b.low),
            high: a.value + b.value + (a.high - a.value).hypot(b.high - b.value),
        })
    }
}

/// The decision of a comparison.
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
    /// None of these is shown. [`super::Finding::blocks_needed`] has the blocks that would decide.
    NotDecided,
    /// No verdict, since the comparison is exploratory. Its interval is not corrected.
    NotJudged,
}

/// The name of a caveat in the table of caveats: `zero-copy-copied`, `pacing`, …
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CaveatKind(pub &'static str);

impl PartialEq<&str> for CaveatKind {
    fn eq(&self, name: &&str) -> bool {
        self.0 == *name
    }
}

/// A quantity in which the messages of two ways can differ: copies, an event or a kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum CauseOf {
    /// Copies of each of its bytes.
    Copies,
    /// An event.
    Event(CountedEvent),
    /// A kind of work that CPU samples show.
    Work(Kind),
}

/// The reason for which a metric of a cell, a counter of a role or the footprint at a cache level has no
/// value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum NoValue {
    /// A reason that the run's records have, in their words.
    Recorded(String),
    /// A trial did not read this counter.
    NotRead(Counter),
    /// No trial counted the events.
    NotCounted,
    /// The readings give a negative or an infinite value, or none.
    NoNumber,
    /// The transport frees packets as they leave, so that nobody receives them.
    PacketsFreed,
    /// The trial has no receiver.
    NoReceiver,
    /// The trial has no server.
    NoServer,
    /// The cell has no connections.
    NoConnection,
    /// No message was sent within the window.
    NoMessage,
    /// No byte or message was moved within the window.
    NothingMoved,
    /// No request received a right response within the window.
    NoResponse,
    /// Half of the connections received no response within the window.
    HalfUnserved,
    /// The sides used no CPU time within the window.
    NoCpuTime,
    /// No zero-copy buffer was completed within the window.
    NoCompletion,
    /// The trial recorded no latencies.
    NoLatency,
    /// The latency histogram cannot be decoded.
    UnreadableHistogram,
    /// Hardware counters were multiplexed with others on the CPU's registers.
    SharedCounters,
    /// The window of a side or of the machine has no length.
    EmptyWindow,
    /// The window of a flow has no length.
    EmptyFlowWindow,
    /// The window of the clients has no length.
    EmptyClientsWindow,
    /// Lines of the cache take no longer when they miss than when they hit.
    IndistinctMisses,
    /// Fewer rounds of prime and probe came to an end than an interval needs.
    FewRounds {
        /// The rounds that came to an end.
        ended: usize,
        /// The fewest that an interval needs.
        needed: usize,
    },
}

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

/// A reading of timed trials that can differ between two groups of trials.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum PartingReading {
    /// TCP segments with data, for each message.
    SegmentsPerMessage,
    /// Delayed acknowledgements, for each message.
    DelayedAcksPerMessage,
    /// Context switches, for each message.
    ContextSwitchesPerMessage,
    /// System calls, for each message.
    CallsPerMessage,
    /// Page faults, for each message.
    PageFaultsPerMessage,
    /// The share of zero-copy buffers that were copied.
    CopiedShare,
    /// The time of a message from core to core, in ns.
    CoreToCoreNs,
    /// Migrations of threads between CPUs, for each second.
    MigrationsPerS,
    /// The share of the machine's CPU time that other processes used.
    NeighbourShare,
    /// The share of the machine's CPU time that the hypervisor stole.
    StealShare,
}

/// The reading of timed trials that differs most clearly between two groups of trials.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PartedBy {
    /// The reading.
    pub reading: PartingReading,
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
}

/// Windows of a cell in which its flow stood still for a timer of TCP. They have no bytes and next to
/// no CPU time, so that the mean rate over the time of all windows is lower by their share of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StoodStill {
    /// The number of these windows.
    pub windows: usize,
    /// Their total length, in ms.
    pub ms: f64,
    /// Their share of the time of all windows of the cell and its twin.
    pub share: f64,
}

/// CPUs that processes of others used, where they were more than the study allows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OthersLoad {
    /// The least and the most, of the blocks or cells with more than the bound.
    pub cpus: [f64; 2],
    /// The bound.
    pub bound: f64,
    /// The processes that used most, in descending order; empty where they are not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

/// Share of copied buffers above which a zero-copy mover counts as copied.
const COPIED: f64 = 0.01;

/// A zero-copy mover whose buffers the kernel copied, over one transport.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CopiedMover {
    /// The mover.
    pub mover: String,
    /// The transport.
    pub transport: Transport,
    /// One copied share for each cell.
    pub shares: Vec<f64>,
    /// True if all shares were counted, false if one was derived from a flag.
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

/// The operation whose highest rate a ceiling gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum CeilingKind {
    /// One core's memcpy from memory to memory.
    UserCopy,
    /// One core's copy within the kernel, out of a memory file.
    KernelRead,
    /// One core's copy within the kernel, into a memory file.
    KernelWrite,
    /// The disk past the page cache, one large request after the other in its order.
    DiskSequential,
    /// The disk past the page cache, small requests in random order.
    DiskRandom,
}

/// The highest measured rate of an operation, with the request that reached it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CeilingRate {
    /// The operation.
    pub kind: CeilingKind,
    /// The mover that reached it.
    pub mover: String,
    /// Bytes of a request.
    pub size_bytes: u64,
    /// Bytes of memory or of a file that the requests pass through repeatedly.
    pub working_set_bytes: u64,
    /// Requests in flight.
    pub depth: u32,
    /// The rate, in Gbit/s.
    pub gbit_per_s: Estimate,
}

/// The highest rates of a machine, as one run measured them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ceiling {
    /// The run's name.
    pub run: String,
    /// Its start, RFC 3339.
    pub started: String,
    /// The directory of the files with which the disk was measured.
    pub dir: Option<String>,
    /// The device of that directory (`st_dev` of stat(2)).
    pub device: Option<u64>,
    /// The CPU use of other processes during the run, where it was above the study's bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disturbed: Option<OthersLoad>,
    /// The rates, by kind and working set.
    pub rates: Vec<CeilingRate>,
}

/// A cell's throughput as a share of a ceiling.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CeilingShare {
    /// The ceiling that it is compared with.
    pub ceiling: CeilingRate,
    /// The cell's throughput over it: 0.62 is 62 %. Absent where it would be above 1, so that the cell
    /// does not pass each byte through the operation, or the ceiling was measured too low.
    pub share: Option<f64>,
    /// Lower end of the 95 % interval; absent where either has none.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
}
