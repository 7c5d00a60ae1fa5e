//! What trials for evidence found, and the books of all CPUs, as findings.json tells it.

use bytecost_spec::Side;
use bytecost_spec::evidence::{
    CopyMeans, CopyPlace, CountedEvent, CpuAccounts, CpuUser, Kind, Party,
};
use serde::{Deserialize, Serialize};

use super::Estimate;

/// A line of a cell's books.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BookLine {
    /// Whose CPU time it is. What a side measures of itself does not tell workers and children apart.
    pub user: CpuUser,
    /// Its share of the time of all CPUs in the windows, in the mean over trials.
    pub share: f64,
    /// Standard error of that.
    pub error: f64,
}

/// Whether the books of a cell are closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Closed {
    /// The whole interval of what is left over lies within 3 % of the cell's own CPU time.
    Yes,
    /// A part of the interval lies beyond 3 %.
    NotToThreePercent,
    /// More is left over (or counted twice): the whole interval lies beyond 3 %.
    No,
}

/// The books of a cell: its lines add up to the time of all CPUs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CellBooks {
    /// [`bytecost_spec::Cell::id`].
    pub cell: String,
    /// Trials that they are of.
    pub trials: usize,
    /// The lines.
    pub lines: Vec<BookLine>,
    /// What is left over, as a share of the cell's own CPU time (both sides with all that works
    /// for them): the sum over blocks. Negative where time was counted twice.
    pub left_over: f64,
    /// Its 95 % interval.
    pub low: f64,
    /// The interval's other end.
    pub high: f64,
    /// CPU time of the whole machine less that of others, of the background load and of bytecost,
    /// over the cell's own: the sum over blocks. 1 where a cell's cost is all that the machine did for it.
    pub machine_over_own: f64,
    /// Whether the books are closed.
    pub closed: Closed,
    /// Interrupts on idle CPUs and kernel threads that handle interrupts, above the idle rate of the
    /// run, as a share of the cell's own CPU time; none where the kernel's accounts do not show them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupts: Option<Uncertain>,
    /// Whether that share is added to the CPU time of both sides together, with its error: in all
    /// cells of a run, or in none. A share below 0 adds nothing.
    #[serde(default)]
    pub interrupts_charged: bool,
    /// Who used the CPUs in one trial for evidence, as exactly as the kernel's tracepoints tell;
    /// none where nobody counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<CpuAccounts>,
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

/// What a message of one way takes more of than a message of another.
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

/// The means by which the causes of a finding are known, the strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum CauseMeans {
    /// CPU samples of trials of their own.
    Samples,
    /// Counts of trials of their own, times unit costs.
    Counts,
    /// Counts of timed trials, times unit costs.
    TimedTrials,
}

/// Something in which two ways differ, with its part of the difference in time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cause {
    /// What.
    pub of: CauseOf,
    /// How often for a message of the baseline, of copies for a byte; of work its ns a message.
    pub from: f64,
    /// How often for a message of the other.
    pub to: f64,
    /// What the difference costs the dearer way for each message, in ns; negative where that has
    /// less of it. None where the cost of one such event was not measured on the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_ns: Option<Uncertain>,
    /// The cost as a share of the difference; none where the costs do not add.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<Uncertain>,
}

/// Why the cells of a decided finding differ.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FindingCauses {
    /// [`super::Finding::number`].
    pub finding: usize,
    /// By what means that is known.
    pub by: CauseMeans,
    /// How much more time the dearer one takes for a message, in ns.
    pub difference_ns: Uncertain,
    /// What accounts for it, the most costly first. None where the counts do not explain it.
    pub causes: Vec<Cause>,
    /// How much of the difference all of them account for, less what the dearer way saves; none where
    /// the costs do not add.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explained: Option<Uncertain>,
}

/// Arithmetic of numbers that are known independently of each other.
impl Uncertain {
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
        self.times(Uncertain {
            value: 1.0 / by.value,
            low: 1.0 / by.high,
            high: 1.0 / by.low,
        })
    }

    /// The same with an interval that reaches to that of another.
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

/// How often each byte of a cell was copied, and where.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CellCopies {
    /// [`bytecost_spec::Cell::id`].
    pub cell: String,
    /// Each place that the cell has, in the order of the way.
    pub legs: Vec<LegCopies>,
    /// What could not be hooked in the kernel, in sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<String>,
}

/// Copies at one place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LegCopies {
    /// Where.
    pub leg: CopyPlace,
    /// By what means it is known; none where it is not.
    pub means: Option<CopyMeans>,
    /// How often each byte was copied there, on average.
    pub per_byte: Option<f64>,
    /// Why that is not known, where it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent: Option<String>,
}

/// What else a message of a cell took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CellCounts {
    /// [`bytecost_spec::Cell::id`].
    pub cell: String,
    /// Each event of each side.
    pub events: Vec<EventRate>,
}

/// How often something happened for each message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventRate {
    /// What.
    pub event: CountedEvent,
    /// On which side; both for what is the connection's.
    pub side: Side,
    /// How often for each message sent.
    pub per_message: Option<f64>,
    /// Why that is not known, where it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent: Option<String>,
}

/// What reading hardware counters costs a mover, by trials with and without them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CountersCost {
    /// The mover.
    pub mover: String,
    /// CPU time of both sides per message, in ns, without them.
    pub without_ns_per_message: Estimate,
    /// The same with them.
    pub with_ns_per_message: Estimate,
}

/// What counting itself cost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CountingCost {
    /// Time of all trials in which it was counted, in s.
    pub took_s: f64,
    /// Cells that were counted.
    pub cells: usize,
    /// Cells that could have been.
    pub of_cells: usize,
    /// Message rate while it was counted, over that of the timed trials: the median cell's.
    pub rate: Option<f64>,
}

/// Where the CPU time of a cell went, from looks at the CPUs in a trial of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CellTime {
    /// [`bytecost_spec::Cell::id`].
    pub cell: String,
    /// What the times are told for.
    pub per: TimePer,
    /// Looks that found one of the two sides at work.
    pub looks: u64,
    /// The sender's kinds of work, then the receiver's, then those of all else that ran, which no
    /// sum has in it; each in the order of the table of kinds. Those that no look found are left
    /// away.
    pub kinds: Vec<KindTime>,
    /// Functions of the kernel with most time, both sides together.
    pub functions: Vec<FunctionTime>,
    /// Share of the two sides' looks at functions that the map does not know.
    pub unattributed: f64,
    /// Share of the two sides' looks that landed in a function which works for its caller, or in
    /// which interrupts are switched on again, and that were given to the caller.
    pub moved: f64,
    /// Share of all looks at busy CPUs that found neither side.
    pub rest: f64,
    /// Share of looks that were lost.
    pub lost: f64,
}

/// What CPU time is told for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum TimePer {
    /// Each KiB sent, of both sides together.
    Kib,
    /// Each request answered, of the server alone: its clients are the instrument.
    Request,
}

impl TimePer {
    /// `for each KiB`.
    pub fn words(self) -> &'static str {
        match self {
            TimePer::Kib => "for each KiB",
            TimePer::Request => "for each request",
        }
    }

    /// Whether a party's time is told.
    pub fn tells(self, party: Party) -> bool {
        match self {
            TimePer::Kib => party != Party::Rest,
            TimePer::Request => party == Party::Receiver,
        }
    }
}

/// CPU time of one side, or of the rest of the machine, in one kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KindTime {
    /// Whose.
    pub party: Party,
    /// The kind.
    pub kind: Kind,
    /// Looks that found it.
    pub looks: u64,
    /// CPU time in ns for each of what [`CellTime::per`] says.
    pub ns_per_unit: f64,
    /// Lower end of its 95 % interval, were looks to fall by chance (Poisson).
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// CPU time of a function of the kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FunctionTime {
    /// Its name.
    pub function: String,
    /// The kind that it counts as.
    pub kind: Kind,
    /// Share of the two sides' time.
    pub share: f64,
}

/// What moving a cell's messages displaced from the caches of the sending CPU, found by timing
/// lines that were primed, in a trial of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CellFootprint {
    /// [`bytecost_spec::Cell::id`].
    pub cell: String,
    /// One for each cache, nearest first.
    pub levels: Vec<LevelFootprint>,
}

/// What was displaced from one cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LevelFootprint {
    /// 1, 2, 3 …
    pub level: u32,
    /// The cache's size.
    pub size_bytes: u64,
    /// The working set that was primed, which is the most that can be displaced.
    pub primed_bytes: u64,
    /// Payload that was moved in a round, median.
    pub moved_bytes: u64,
    /// KiB of the set that were displaced in a round, by how long its lines took between what they
    /// take where all are there and where none is: trimmed mean over rounds.
    pub displaced_kib: Option<Estimate>,
    /// The same after as much time in which nothing was moved.
    pub idle_kib: Option<Estimate>,
    /// Ticks of a line that is there, median over rounds, the cost of looking included.
    pub hit_ticks: f64,
    /// Ticks of a line that was displaced.
    pub miss_ticks: f64,
    /// Why nothing can be said, where that is so.
    pub missing: Option<String>,
}

/// Counters of a server, or of its clients, threads and children included, for each request that
/// was answered: the columns of a published table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RoleCounters {
    /// [`bytecost_spec::Cell::id`].
    pub cell: String,
    /// The server or its clients.
    pub role: Side,
    /// Length of the window, typically, in ms.
    pub window_ms: f64,
    /// Requests that were answered in it, typically.
    pub requests: f64,
    /// The counters, in the order of the published table.
    pub counters: Vec<RoleCounter>,
}

/// A counter for each request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RoleCounter {
    /// What it is called there, with its unit.
    pub name: String,
    /// Typically: the trimmed mean of the trials.
    pub per_request: Option<f64>,
    /// Why there is none, where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent: Option<String>,
}
