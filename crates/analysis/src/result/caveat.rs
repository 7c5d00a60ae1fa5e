//! What weakens findings, as facts.

use bytecost_spec::host::Obstacle;
use bytecost_spec::manifest::Difference;
use bytecost_spec::{Counter, Metric, PacketSocket};
use serde::{Deserialize, Serialize};

use super::{CopiedMover, Uncertain};

/// What a caveat does to the verdicts of the findings that it affects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum CaveatEffect {
    /// It is said beside them.
    #[default]
    Annotates,
    /// Findings of some metrics have no verdict.
    WithholdsMetric,
    /// Findings have no amount, and none but those that first attempts confirm has a verdict.
    WithholdsUnconfirmed,
    /// No finding has a verdict.
    WithholdsAll,
}

/// What weakens a finding.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Caveat {
    /// Its name in the table of caveats: `zero-copy-copied`, `pacing`, …
    pub kind: &'static str,
    /// What it does to verdicts.
    pub effect: CaveatEffect,
    /// Returns true if something from outside disturbed the run, which the first screen names.
    pub disturbs: bool,
    /// The mover, server, receiver or host that it is about; none where its cells or the run are.
    pub subject: Option<String>,
    /// What it rests on, beside what the result has of its cells.
    pub facts: Vec<CaveatFact>,
    /// [`bytecost_spec::Cell::id`]s that it affects; none is the whole run.
    pub cells: Vec<String>,
}

/// What a caveat rests on. Two numbers are the least and the most over its cells, trials or blocks.
#[derive(Clone, Debug, PartialEq)]
pub enum CaveatFact {
    /// The share, or the ratio, that it is about.
    Share([f64; 2]),
    /// The share that it is beyond.
    Bound(f64),
    /// What a counter read, in its unit: of a cell, or in sum.
    Reading(Counter, [f64; 2]),
    /// A metric of a cell.
    Metric(Metric, [f64; 2]),
    /// By what share a metric changed.
    Change(Metric, [f64; 2]),
    /// A metric by which trials fall into two groups.
    Groups(Metric),
    /// A metric where something was high over the same where it was low, from so many blocks.
    Ratio {
        /// The metric.
        metric: Metric,
        /// The ratio with its 95 % interval.
        ratio: Uncertain,
        /// Blocks with both.
        blocks: usize,
    },
    /// How many trials, cells or comparisons it is about.
    Count(usize),
    /// How many it is about, and of how many.
    Part {
        /// These.
        some: usize,
        /// All.
        all: usize,
    },
    /// A time of the run, in s.
    Seconds(f64),
    /// Why, in words of what failed, of the kernel or of the tables.
    Reason(String),
    /// The packet sockets that took packets too.
    Sockets(Vec<PacketSocket>),
    /// What is in the way.
    Obstacle(Obstacle),
    /// What processes of others used of the CPUs.
    Others(OthersLoad),
    /// A part of the run under other conditions.
    Leg {
        /// Its first block.
        first_block: u32,
        /// What is not as it was in the part before.
        differences: Vec<Difference>,
    },
    /// A way without a copy that was copied.
    Copied(CopiedMover),
    /// A sign of a wait for the timer of delayed acknowledgements.
    Sign(StallSign, [f64; 2]),
    /// The blocks of a comparison, and those that the study asks for at least.
    Blocks {
        /// The least and the most.
        measured: [usize; 2],
        /// The bound.
        asked: usize,
    },
    /// How long a run would have to be, in s; none where more time alone would hardly do.
    LongerRun(Option<u64>),
    /// The largest packet that the way to the other host took, in so many trials.
    PathMtu {
        /// Its bytes.
        bytes: u64,
        /// The trials.
        trials: usize,
    },
    /// The bytes of a segment of the baseline of a finding, and of the other cell.
    Segments {
        /// [`super::Finding::number`].
        finding: usize,
        /// The bytes.
        bytes: [f64; 2],
    },
    /// The least and the most memory of the payload of all flows.
    Payload {
        /// Returns true if it is that of files.
        of_files: bool,
        /// The bytes.
        bytes: [u64; 2],
    },
    /// In how many cells CPU time was read by which means, where the kernel leaves interrupts out.
    CpuClock {
        /// Interrupts of the cell's CPUs were added.
        with_interrupts: usize,
        /// By the task clock of perf.
        by_task_clock: usize,
        /// By none.
        without: usize,
    },
}

/// CPUs that processes of others used, where they were more than the study allows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OthersLoad {
    /// The least and the most, of the blocks or cells with more than the bound.
    pub cpus: [f64; 2],
    /// The bound.
    pub bound: f64,
    /// Those processes that used most, these first; empty where they are not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

/// A sign of a wait for the timer of delayed acknowledgements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StallSign {
    /// Delayed acknowledgements a message.
    DelayedAcks,
    /// The share of the round trips that took as long as the timer.
    Clustered,
    /// The share of the time that went into these.
    Waited,
    /// The median round trip, in µs.
    Latency,
    /// The smoothed round-trip time of the socket, in µs.
    Rtt,
    /// Its least, in µs.
    MinRtt,
    /// The share of the time with data in flight.
    Busy,
    /// System calls a message.
    Calls,
}

/// A caveat of something from outside that can bend a ranking, with what it did to verdicts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Disturbance {
    /// Its place among [`super::Analysis::caveats`].
    pub caveat: usize,
    /// Judged findings that have no verdict for it.
    pub verdicts_withheld: usize,
    /// Findings of which the direction alone stands.
    pub amounts_withheld: usize,
}
