//! What others measured: the cells of a published table, to be held beside one's own.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::axis::Axis;
use crate::cell::Cell;
use crate::metric::Metric;

/// A published table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Published {
    /// Whose it is: `pa02-a`.
    pub source: String,
    /// Its cells, in their order.
    pub cells: Vec<PublishedCell>,
    /// How its numbers became metrics, and what it does not tell: a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The axes that it tells; without any, all of them. In the others its cells have defaults
    /// that say nothing, and stand beside every cell of one's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tells: Vec<Axis>,
}

/// A row of a published table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PublishedCell {
    /// [`Cell::id`].
    pub id: String,
    /// The cell, as nearly as the publication tells it.
    pub cell: Cell,
    /// What was published of it, as single numbers: publications without intervals have none.
    pub values: BTreeMap<Metric, f64>,
}
