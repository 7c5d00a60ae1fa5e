//! Figures, matrices and speed-ups, with their points and gaps.

use bytecost_spec::{Axis, Metric, Nearness, Value};
use serde::{Deserialize, Serialize};

use super::{CaveatKind, CeilingKind, Estimate, NoValue, TwoGroups};

/// A figure: panels, one for each choice of the axes that are neither across nor a line.
#[derive(Clone, Debug, PartialEq)]
pub struct FigureData {
    /// Its heading, without the values of the panel.
    pub title: String,
    /// The values that all cells of the panel have, of the axes that vary in the study.
    pub panel: Vec<(Axis, Value)>,
    /// The horizontal axis.
    pub x: Axis,
    /// The values across, in order, as text.
    pub x_values: Vec<Value>,
    /// The values across as numbers (bytes, threads); none where they are words.
    pub x_numbers: Option<Vec<f64>>,
    /// The metric of the vertical axis.
    pub y: Metric,
    /// The value of the series axis that points are ratios to; none where they are not ratios.
    pub relative_to: Option<Value>,
    /// The lines, one for each value of the series axis.
    pub series: Vec<Series>,
    /// The metric that the study asks for, where no cell has it and the figure shows another one.
    pub replaced: Option<AbsentMetric>,
    /// The highest rates of this machine, for a figure of throughput and where they were measured.
    pub ceiling: Option<CeilingLine>,
}

/// A metric that no cell of a figure has.
#[derive(Clone, Debug, PartialEq)]
pub struct AbsentMetric {
    /// The metric.
    pub metric: Metric,
    /// The reason of one of the cells.
    pub why: Gap,
}

/// The line of a ceiling in a figure.
#[derive(Clone, Debug, PartialEq)]
pub struct CeilingLine {
    /// The operation whose highest rate it is; none where that differs between points.
    pub kind: Option<CeilingKind>,
    /// The rate at each value across, in Gbit/s; none at a value without a ceiling.
    pub points: Vec<Option<f64>>,
}

/// A line of a figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its value on the series axis.
    pub name: String,
    /// One point for each value across.
    pub points: Vec<Point>,
}

/// A point of a line, or the gap with its reason.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Point {
    /// The estimate of the cell or comparison.
    Measured(Estimate),
    /// The reason for which there is no estimate.
    Gap(Gap),
}

/// Reason for a gap in a line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Gap {
    /// The machine refuses the cell, with the reason.
    Refused(String),
    /// The metric is not available in the cell, with the reason.
    Absent(NoValue),
    /// The trials of the cell fall into two groups that lie far apart.
    TwoGroups(TwoGroups),
    /// The metric has no meaning for the cell.
    WithoutMeaning(Metric),
    /// Trials failed, one of them with this reason.
    Failed(String),
    /// The run ended before it, with the reason.
    EndedEarly(String),
    /// No trial reached it.
    NotReached,
    /// Fewer blocks have both cells than an interval needs.
    FewBlocks,
    /// This caveat withholds it.
    Withheld(CaveatKind),
    /// The budget did not reach the cell. The option that includes it, where there is one.
    LeftOut(Option<String>),
    /// It is no cell of the study.
    NotInStudy,
    /// The study has no two cells that differ in nothing else.
    NoPair,
    /// The mover has one request in flight, so that depth 1 stands for all.
    OneInFlight,
    /// Nothing is there to compare the cell with.
    NoBaseline,
    /// The publication has no number.
    NotPublished,
    /// The publication has this number, which cannot be drawn.
    PublishedAs(f64),
}

impl Point {
    /// The estimate; none for a gap.
    pub fn measured(&self) -> Option<&Estimate> {
        match self {
            Point::Measured(estimate) => Some(estimate),
            Point::Gap(_) => None,
        }
    }
}

/// A metric of a mover whose two threads take turns, over pairs of CPUs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MatrixData {
    /// The mover.
    pub mover: String,
    /// The values that all pairs have on the other axes that vary in the study.
    pub panel: Vec<(Axis, Value)>,
    /// The metric of each pair.
    pub metric: Metric,
    /// The CPUs, in their order.
    pub cpus: Vec<u32>,
    /// The pairs, from near to far. One that is not among them was measured the other way round,
    /// or not at all.
    pub pairs: Vec<PairPoint>,
}

/// A pair of CPUs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PairPoint {
    /// The CPU of the thread that sends the request.
    pub from: u32,
    /// The CPU of the thread that sends the response.
    pub to: u32,
    /// The nearness of the two CPUs; none where the kernel does not report enough of their topology.
    pub nearness: Option<Nearness>,
    /// Index of their kind of distance among those of the matrix, from near to far.
    #[serde(default)]
    pub class: usize,
    /// The nearest hardware that they share.
    pub shared: SharedHardware,
    /// The estimate, or the reason for which there is none.
    pub point: Point,
}

/// The nearest hardware that two CPUs share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SharedHardware {
    /// They are one CPU.
    Cpu,
    /// They are two hardware threads of a core.
    Core,
    /// A cache.
    Cache {
        /// Its level: 1, 2, 3 …
        level: u32,
        /// Its bytes.
        size_bytes: u64,
    },
    /// Nothing: they are on these two NUMA nodes.
    Nodes(u32, u32),
    /// No cache, though they are on one NUMA node.
    NoCache,
    /// The kernel does not report enough of their topology.
    Unknown,
}

impl MatrixData {
    /// The pair of two CPUs, measured this way round or the other.
    pub fn pair(&self, from: u32, to: u32) -> Option<&PairPoint> {
        let found = |a, b| self.pairs.iter().find(|p| p.from == a && p.to == b);
        found(from, to).or_else(|| found(to, from))
    }
}

/// A pair of ways of the study, and its speed-up wherever both were measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SpeedUp {
    /// Its heading.
    pub title: String,
    /// The metric of their speed.
    pub metric: Metric,
    /// The axis in which the two differ.
    pub axis: Axis,
    /// The value that others are compared with.
    pub against: Value,
    /// The published speed-up, as a factor; none where none was published.
    pub published: Option<f64>,
    /// A note to readers.
    pub note: Option<String>,
    /// One row for each two cells that differ in nothing else; one gap where there are none.
    pub rows: Vec<SpeedUpRow>,
}

/// A speed-up at one place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SpeedUpRow {
    /// The value on the axis whose speed-up this is.
    pub value: Value,
    /// The values on other axes that distinguish this row from the others.
    pub place: Vec<(Axis, Value)>,
    /// [`bytecost_spec::Cell::id`] of the cell with that value; empty where no cell was planned.
    pub cell: String,
    /// [`bytecost_spec::Cell::id`] of the cell that it is compared with; empty where no cell was planned.
    pub baseline: String,
    /// The speed-up as a factor, above 1 where the cell is faster, with the blocks that measured both
    /// as its trials; or the reason for which there is none.
    pub point: Point,
}
