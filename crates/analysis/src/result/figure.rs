//! What is drawn: figures with their lines, points and gaps.

use bytecost_spec::{Axis, Metric};
use serde::{Deserialize, Serialize};

use super::CeilingLine;
use super::Estimate;

/// A figure: panels, one for each choice of the axes that are neither across nor a line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FigureData {
    /// Its heading, with what the panel shows.
    pub title: String,
    /// What the panel holds constant, of the axes that vary in the study.
    pub panel: Vec<(Axis, String)>,
    /// Across.
    pub x: Axis,
    /// The values across, in order, as text.
    pub x_values: Vec<String>,
    /// The same as numbers, where they are numbers (bytes, threads).
    pub x_numbers: Option<Vec<f64>>,
    /// Up.
    pub y: Metric,
    /// Where the points are ratios: the value of the series axis that they are ratios to.
    #[serde(default)]
    pub relative_to: Option<String>,
    /// One line each.
    pub series: Vec<Series>,
    /// What a reader must know of it: that it shows another metric than was asked for, and why.
    #[serde(default)]
    pub note: Option<String>,
    /// What this machine reaches at most, for throughput, where that was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<CeilingLine>,
}

/// A line of a figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    Gap(String),
}
