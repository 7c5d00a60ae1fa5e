//! Pairs of ways for the speed-ups in the overview of a study.

use serde::{Deserialize, Serialize};

use crate::axis::{Axis, Value};
use crate::metric::Metric;

/// A pair of ways whose speed-up is shown wherever both were measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pair {
    /// Its heading.
    pub title: String,
    /// The metric of speed.
    pub metric: Metric,
    /// The axis in which the two differ.
    pub axis: Axis,
    /// The values whose speed is shown; several if machines differ in which they have.
    pub values: Vec<Value>,
    /// The value that they are compared with.
    pub against: Value,
    /// The cells: the values of other axes in them.
    #[serde(default, rename = "where")]
    pub at: Vec<(Axis, Vec<Value>)>,
    /// The published speed-up, as a factor.
    pub published: Option<f64>,
    /// A fact that a reader must know.
    pub note: Option<String>,
}
