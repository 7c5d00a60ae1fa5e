//! The results of trials for evidence, and the books of all CPUs, as findings.json has them.

use bytecost_spec::Side;
use bytecost_spec::evidence::{
    CopyMeans, CopyPlace, CountedEvent, CpuAccounts, CpuUser, Kind, Party,
};
use serde::{Deserialize, Serialize};

use super::{CauseOf, Estimate, NoValue, Uncertain};

/// The CPU time of one user in the books of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BookLine {
    /// The user of the CPU time. A side's own clocks do not separate workers from children.
    pub user: CpuUser,
    /// Its share of the time of all CPUs in the windows, in the mean over trials.
    pub share: f64,
    /// Standard error of the share.
    pub error: f64,
}

/// The size of what is left over in the books of a cell, compared with 3 % of the cell's own CPU time.
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

/// The books of a cell: the time of all CPUs by user, in lines that add up to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CellBooks {
    /// [`bytecost_spec::Cell::id`].
    pub cell: String,
    /// Trials whose windows they cover.
    pub trials: usize,
    /// The lines.
    pub lines: Vec<BookLine>,
    /// Time that is left over, as a share of the cell's own CPU time (both sides with all that works
    /// for them): the sum over blocks. Negative where time was counted twice.
    pub left_over: f64,
    /// Lower end of its 95 % interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// CPU time of the whole machine less that of others, of the background load and of bytecost,
    /// over the cell's own: the sum over blocks. 1 where a cell's cost is all that the machine did for it.
    pub machine_over_own: f64,
    /// The comparison of what is left over with 3 %.
    pub closed: Closed,
    /// Interrupts on idle CPUs and kernel threads that handle interrupts, above the idle rate of the
    /// run, as a share of the cell's own CPU time; none where the kernel's accounts do not show them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupts: Option<Uncertain>,
    /// True if that share is added to the CPU time of both sides together, with its error: in all cells
    /// of a run, or in none. A share below 0 adds nothing.
    #[serde(default)]
    pub interrupts_charged: bool,
    /// CPU time by user in one trial for evidence, counted by tracepoints of the kernel; none where it
    /// was not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<CpuAccounts>,
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

/// A quantity in which two ways differ, with its part of the difference in time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cause {
    /// The quantity.
    pub of: CauseOf,
    /// Its number for a message of the baseline. Of copies: for each byte. Of work: the ns for each
    /// message.
    pub from: f64,
    /// Its number for a message of the other way.
    pub to: f64,
    /// The cost of the difference for each message of the way that takes more time, in ns; negative
    /// where that way has less of the quantity. None where the cost of one such event was not measured
    /// on the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_ns: Option<Uncertain>,
    /// The cost as a share of the difference; none where the costs do not add.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<Uncertain>,
}

/// The causes of the difference that a decided finding shows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FindingCauses {
    /// [`super::Finding::number`].
    pub finding: usize,
    /// The means by which the causes are known.
    pub by: CauseMeans,
    /// The additional time for a message of the cell that takes more, in ns.
    pub difference_ns: Uncertain,
    /// The causes, the most costly first. Empty where the counts do not explain the difference.
    pub causes: Vec<Cause>,
    /// The share of the difference that all causes explain, less what the cell that takes more time
    /// saves; none where the costs do not add.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explained: Option<Uncertain>,
}

/// The copies of each byte of a cell, by place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CellCopies {
    /// [`bytecost_spec::Cell::id`].
    pub cell: String,
    /// The copies at each place that the cell's data pass, in the order of their path.
    pub legs: Vec<LegCopies>,
    /// Parts of the kernel that could not be hooked, in sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<String>,
}

/// The copies of each byte at one place of the path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LegCopies {
    /// The place.
    pub leg: CopyPlace,
    /// The means by which the number is known; none where it is not known.
    pub means: Option<CopyMeans>,
    /// Copies of each byte there, on average.
    pub per_byte: Option<f64>,
    /// Reason for which the number is not known; none where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent: Option<String>,
}

/// The events for each message of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CellCounts {
    /// [`bytecost_spec::Cell::id`].
    pub cell: String,
    /// The rates, one for each event and side.
    pub events: Vec<EventRate>,
}

/// The rate of an event on one side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventRate {
    /// The event.
    pub event: CountedEvent,
    /// The side on which it happened; both for an event of the connection.
    pub side: Side,
    /// The number of events for each message sent.
    pub per_message: Option<f64>,
    /// Reason for which the number is not known; none where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent: Option<String>,
}

/// The cost for a mover of reading hardware counters, by trials with and without them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CountersCost {
    /// The mover.
    pub mover: String,
    /// CPU time of both sides per message, in ns, without them.
    pub without_ns_per_message: Estimate,
    /// CPU time of both sides per message, in ns, with them.
    pub with_ns_per_message: Estimate,
}

/// The cost of counting copies and events.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CountingCost {
    /// Time of all trials with counting, in s.
    pub took_s: f64,
    /// Cells that were counted.
    pub cells: usize,
    /// Cells in which counting was possible.
    pub of_cells: usize,
    /// Message rate with counting over that of the timed trials: the median cell's.
    pub rate: Option<f64>,
}

/// The CPU time of a cell by kind of work and by function, from CPU samples in a trial of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CellTime {
    /// [`bytecost_spec::Cell::id`].
    pub cell: String,
    /// The unit of work that the times are for.
    pub per: TimePer,
    /// CPU samples that found one of the two sides on a CPU.
    pub looks: u64,
    /// The times by kind of work: the sender's, the receiver's, then those of all else that ran, which
    /// no sum includes; each in the order of the table of kinds. Kinds without a sample are left out.
    pub kinds: Vec<KindTime>,
    /// Kernel functions with the most time, both sides together.
    pub functions: Vec<FunctionTime>,
    /// Share of the two sides' samples in functions that the map does not know.
    pub unattributed: f64,
    /// Share of the two sides' samples that were attributed to the caller of a function, because it
    /// works for its caller or enables interrupts again.
    pub moved: f64,
    /// Share of all samples of busy CPUs that found neither side.
    pub rest: f64,
    /// Share of samples that were lost.
    pub lost: f64,
}

/// A unit of work for which CPU time is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum TimePer {
    /// Each KiB sent, of both sides together.
    Kib,
    /// Each request with a response, of the server alone: its clients belong to the instrument.
    Request,
}

impl TimePer {
    /// Returns true if the sums include the party's time.
    pub(crate) fn counts(self, party: Party) -> bool {
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
    /// The party that used the time.
    pub party: Party,
    /// The kind.
    pub kind: Kind,
    /// CPU samples that found it.
    pub looks: u64,
    /// CPU time for each unit of work ([`CellTime::per`]), in ns.
    pub ns_per_unit: f64,
    /// Lower end of its 95 % interval, for samples with a Poisson distribution.
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
    /// The kind of work that it counts as.
    pub kind: Kind,
    /// Share of the two sides' time.
    pub share: f64,
}

/// The data that moving a cell's messages displaced from the caches of the sending CPU, found by timing
/// primed lines in a trial of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CellFootprint {
    /// [`bytecost_spec::Cell::id`].
    pub cell: String,
    /// The displaced data of each cache, nearest first.
    pub levels: Vec<LevelFootprint>,
}

/// The part of a primed working set that was displaced from one cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LevelFootprint {
    /// The level of the cache: 1, 2, 3 …
    pub level: u32,
    /// The cache's size.
    pub size_bytes: u64,
    /// The size of the primed working set: the most that can be displaced.
    pub primed_bytes: u64,
    /// Payload that was moved in a round, median.
    pub moved_bytes: u64,
    /// KiB of the set that were displaced in a round: trimmed mean over rounds. The time of a round's
    /// lines is compared with those of a set that is all cached and of one that is all displaced.
    pub displaced_kib: Option<Estimate>,
    /// KiB of the set that were displaced in as much time in which nothing was moved.
    pub idle_kib: Option<Estimate>,
    /// Ticks for a cached line, median over rounds, the cost of timing included.
    pub hit_ticks: f64,
    /// Ticks for a displaced line.
    pub miss_ticks: f64,
    /// Reason for which the displaced data are not known; none where they are.
    pub missing: Option<NoValue>,
}

/// The counters of a server, or of its clients, for each request with a response, threads and children
/// included: the columns of a published table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RoleCounters {
    /// [`bytecost_spec::Cell::id`].
    pub cell: String,
    /// The server or its clients.
    pub role: Side,
    /// Typical length of the window, in ms.
    pub window_ms: f64,
    /// Typical number of requests with a response in the window.
    pub requests: f64,
    /// The counters, in the order of the published table.
    pub counters: Vec<RoleCounter>,
}

/// A counter for each request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RoleCounter {
    /// Its name in the published table, with its unit.
    pub name: String,
    /// The number for each request: trimmed mean over trials.
    pub per_request: Option<f64>,
    /// Reason for which there is no number; none where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent: Option<NoValue>,
}
