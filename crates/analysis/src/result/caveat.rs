//! Caveats of findings, as facts.

use bytecost_spec::host::Obstacle;
use bytecost_spec::manifest::Difference;
use bytecost_spec::{Counter, Metric, PacketSocket};
use serde::{Deserialize, Serialize};

use super::{CaveatKind, CopiedMover, OthersLoad, Uncertain};

/// The effect of a caveat on the verdicts of the findings that it affects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum CaveatEffect {
    /// Their verdicts stand, and reports show the caveat next to them.
    #[default]
    Annotates,
    /// Findings of some metrics have no verdict.
    WithholdsMetric,
    /// Findings have no amount, and none but those that first attempts confirm has a verdict.
    WithholdsUnconfirmed,
    /// No finding has a verdict.
    WithholdsAll,
}

/// A circumstance that limits what the findings of a run show.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Caveat {
    /// Its name.
    pub kind: CaveatKind,
    /// Its effect on verdicts.
    pub effect: CaveatEffect,
    /// True if it is a disturbance of the run from outside, which the first screen states.
    pub disturbs: bool,
    /// The mover, server, receiver or host that it is about; none where it is about its cells or the run.
    pub subject: Option<String>,
    /// The facts that it rests on, in addition to the results of its cells.
    pub facts: Vec<CaveatFact>,
    /// [`bytecost_spec::Cell::id`]s that it affects; none is the whole run.
    pub cells: Vec<String>,
}

/// A fact that a caveat rests on. Two numbers are the least and the greatest over its cells, trials or
/// blocks.
#[derive(Clone, Debug, PartialEq)]
pub enum CaveatFact {
    /// The share, or the ratio, that it is about.
    Share([f64; 2]),
    /// The share that it is beyond.
    Bound(f64),
    /// The reading of a counter in its unit: of a cell, or in sum.
    Reading(Counter, [f64; 2]),
    /// A metric of a cell.
    Metric(Metric, [f64; 2]),
    /// The relative change of a metric, as a share.
    Change(Metric, [f64; 2]),
    /// A metric by which trials fall into two groups.
    Groups(Metric),
    /// The ratio of a metric where a circumstance is high to the same metric where it is low, over the
    /// blocks with both.
    Ratio {
        /// The metric.
        metric: Metric,
        /// The ratio with its 95 % interval.
        ratio: Uncertain,
        /// Blocks with both.
        blocks: usize,
    },
    /// The number of trials, cells or comparisons that it is about.
    Count(usize),
    /// The number of those that it is about, out of a larger number.
    Part {
        /// The number that it is about.
        some: usize,
        /// The larger number.
        all: usize,
    },
    /// A time of the run, in s.
    Seconds(f64),
    /// The reason, as an error message, the kernel or a table states it.
    Reason(String),
    /// The packet sockets that also received packets.
    Sockets(Vec<PacketSocket>),
    /// A circumstance of the host that disturbs measurements.
    Obstacle(Obstacle),
    /// The CPU use of other processes.
    Others(OthersLoad),
    /// A part of the run under other conditions.
    Leg {
        /// Its first block.
        first_block: u32,
        /// The differences from the part before.
        differences: Vec<Difference>,
    },
    /// A way without a copy that was copied.
    Copied(CopiedMover),
    /// A reading that shows a wait for the timer of delayed acknowledgements, with its value.
    Sign(StallSign, [f64; 2]),
    /// The blocks of a comparison, and the least number that the study requires.
    Blocks {
        /// The least and the greatest number of blocks.
        measured: [usize; 2],
        /// The bound.
        asked: usize,
    },
    /// The duration of a run that would be long enough, in s; none where more time alone would hardly
    /// suffice.
    LongerRun(Option<u64>),
    /// The largest packet that passed the path to the other host, in so many trials.
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
        /// True if the payload is that of files.
        of_files: bool,
        /// The bytes.
        bytes: [u64; 2],
    },
    /// The number of cells by the source of their CPU time, on a kernel that leaves interrupts out of it.
    CpuClock {
        /// Cells whose CPU time includes added interrupts of their CPUs.
        with_interrupts: usize,
        /// Cells with the task clock of perf.
        by_task_clock: usize,
        /// Cells with neither.
        without: usize,
    },
}

/// A reading that can show a wait for the timer of delayed acknowledgements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StallSign {
    /// Delayed acknowledgements for each message.
    DelayedAcks,
    /// The share of the round trips that took as long as the timer.
    Clustered,
    /// The share of the time that these round trips took.
    Waited,
    /// The median round trip, in µs.
    Latency,
    /// The smoothed round-trip time of the socket, in µs.
    Rtt,
    /// The least round-trip time of the socket, in µs.
    MinRtt,
    /// The share of the time with data in flight.
    Busy,
    /// System calls for each message.
    Calls,
}

/// A caveat of something from outside that can bend a ranking, with what it did to verdicts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Disturbance {
    /// Its index in [`super::Analysis::caveats`].
    pub caveat: usize,
    /// Judged findings whose verdict it withholds.
    pub verdicts_withheld: usize,
    /// Findings whose amount it withholds, so that their direction alone stands.
    pub amounts_withheld: usize,
}
