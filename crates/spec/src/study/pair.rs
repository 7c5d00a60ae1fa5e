//! Two ways whose speed-up the overview of a study shows.

use serde::{Deserialize, Serialize};

use crate::axis::{Axis, Value};
use crate::metric::Metric;

/// A pair of ways: how many times as fast one is as the other, wherever both were measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pair {
    /// Its heading.
    pub title: String,
    /// What tells how fast they are.
    pub metric: Metric,
    /// The axis in which the two differ.
    pub axis: Axis,
    /// The values whose speed is told; several where machines differ in which there are.
    pub values: Vec<Value>,
    /// The value that they are held against.
    pub against: Value,
    /// Which cells: the values that other axes have there.
    #[serde(default, rename = "where")]
    pub at: Vec<(Axis, Vec<Value>)>,
    /// How many times as fast someone else published it to be.
    pub published: Option<f64>,
    /// What a reader must know of it.
    pub note: Option<String>,
}
