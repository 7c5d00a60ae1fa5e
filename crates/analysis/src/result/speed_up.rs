//! How many times as fast one way is as another: what the overview of a study shows.

use bytecost_spec::{Axis, Metric};
use serde::{Deserialize, Serialize};

use super::Point;

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
    pub against: String,
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
    pub value: String,
    /// What tells the place from those of the other rows.
    pub place: Vec<(Axis, String)>,
    /// [`bytecost_spec::Cell::id`] of the one; empty where no cell was planned.
    pub cell: String,
    /// The same of the other, which it is held against.
    pub baseline: String,
    /// How many times as fast: above 1 it is faster; its trials are blocks in which both were
    /// measured. Or why there is none.
    pub point: Point,
}
