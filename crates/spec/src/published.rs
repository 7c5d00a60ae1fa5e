//! Published measurements: the cells of a published table, for comparison with one's own.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::axis::Axis;
use crate::cell::Cell;
use crate::metric::Metric;

/// A published table as cells and metrics.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Published {
    /// Name of the publication: `pa02-a`.
    pub source: String,
    /// Its cells, in their order.
    pub cells: Vec<PublishedCell>,
    /// Conversions of its numbers into metrics, and facts that it does not state: a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The axes that it specifies; empty for all. On the other axes its cells have defaults that mean
    /// nothing, and are compared with every cell of one's own.
    #[serde(default, rename = "tells", skip_serializing_if = "Vec::is_empty")]
    pub named: Vec<Axis>,
}

/// One point of a published table with its numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PublishedCell {
    /// [`Cell::id`].
    pub id: String,
    /// The cell, as far as the publication specifies it.
    pub cell: Cell,
    /// The published metrics as single numbers; publications give no intervals.
    pub values: BTreeMap<Metric, f64>,
}
