//! What is drawn: figures, matrices and speed-ups, with their points and gaps.

use bytecost_spec::{Axis, Metric, Nearness, Value};
use serde::{Deserialize, Serialize};

use super::{CeilingLine, Estimate};

/// A figure: panels, one for each choice of the axes that are neither across nor a line.
#[derive(Clone, Debug, PartialEq)]
pub struct FigureData {
    /// Its heading, with what the panel shows.
    pub title: String,
    /// What the panel holds constant, of the axes that vary in the study.
    pub panel: Vec<(Axis, Value)>,
    /// Across.
    pub x: Axis,
    /// The values across, in order, as text.
    pub x_values: Vec<Value>,
    /// The same as numbers, where they are numbers (bytes, threads).
    pub x_numbers: Option<Vec<f64>>,
    /// Up.
    pub y: Metric,
    /// Where the points are ratios: the value of the series axis that they are ratios to.
    pub relative_to: Option<Value>,
    /// One line each.
    pub series: Vec<Series>,
    /// What a reader must know of it: that it shows another metric than was asked for, and why.
    pub note: Option<String>,
    /// What this machine reaches at most, for throughput, where that was measured.
    pub ceiling: Option<CeilingLine>,
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
    /// Measured.
    Measured(Estimate),
    /// Not measured, and why.
    Gap(Gap),
}

/// Why there is no point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Gap {
    /// The machine refuses the cell, with the reason.
    Refused(String),
    /// The metric is not available in the cell, with the reason.
    Absent(String),
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
    /// A caveat withholds it, with the reason.
    Withheld(String),
    /// The budget did not reach the cell; with the option that brings it in, where there is one.
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
    /// What was measured, where anything was.
    pub fn measured(&self) -> Option<&Estimate> {
        match self {
            Point::Measured(estimate) => Some(estimate),
            Point::Gap(_) => None,
        }
    }
}

/// One way to take turns, over pairs of CPUs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MatrixData {
    /// The mover.
    pub mover: String,
    /// What all pairs hold constant, of the other axes that vary in the study.
    pub panel: Vec<(Axis, Value)>,
    /// What is told of each pair.
    pub metric: Metric,
    /// The CPUs, in their order.
    pub cpus: Vec<u32>,
    /// The pairs, from near to far. One that is not among them was measured the other way round,
    /// or not at all.
    pub pairs: Vec<PairPoint>,
    /// What they come to, a sentence each.
    pub words: Vec<String>,
}

/// A pair of CPUs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PairPoint {
    /// The CPU of the thread that asks.
    pub from: u32,
    /// The CPU of the one that answers.
    pub to: u32,
    /// How near they are, where the kernel tells enough.
    pub nearness: Option<Nearness>,
    /// What they have in common, in words: `same L3 of 32 MiB`.
    pub shared: String,
    /// What was measured, or why nothing was.
    pub point: Point,
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
    /// What tells how fast they are.
    pub metric: Metric,
    /// The axis in which the two differ.
    pub axis: Axis,
    /// The value that others are held against.
    pub against: Value,
    /// How many times as fast someone else published it to be.
    pub published: Option<f64>,
    /// What a reader must know of it.
    pub note: Option<String>,
    /// One for each two cells that differ in nothing else; one gap where there are none.
    pub rows: Vec<SpeedUpRow>,
}

/// A speed-up at one place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SpeedUpRow {
    /// The value on the axis whose speed is told.
    pub value: Value,
    /// What tells the place from those of the other rows.
    pub place: Vec<(Axis, Value)>,
    /// [`bytecost_spec::Cell::id`] of the one; empty where no cell was planned.
    pub cell: String,
    /// The same of the other, which it is held against.
    pub baseline: String,
    /// How many times as fast: above 1 it is faster; its trials are blocks in which both were
    /// measured. Or why there is none.
    pub point: Point,
}
