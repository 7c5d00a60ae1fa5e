//! Families of comparisons, which determine the error rates of verdicts.

use serde::{Deserialize, Serialize};

use crate::axis::{Axis, CellFacts, Value};
use crate::metric::Metric;

/// The probability of at least one false verdict among comparisons that are tested together.
pub const ERROR_RATE: f64 = 0.05;
/// The false discovery rate of the decided secondary comparisons of a table, at most.
pub const FALSE_DISCOVERY_RATE: f64 = 0.05;

choice! {
    /// The family of a comparison: the comparisons that are tested together with it.
    pub enum Family {
        /// Comparisons for the first sentence of the answer: all of them together have one error rate.
        #[default]
        Primary,
        /// Other comparisons with verdicts, a table at a time, at a false discovery rate.
        Secondary,
        /// Comparisons that are shown with intervals and have no verdict.
        Exploratory,
    }
}

/// A part of a comparison that is primary: a metric, some values, some cells.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PrimaryPart {
    /// The metric; none is the first of the comparison.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<Metric>,
    /// The compared values; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<Value>,
    /// The cells: the values of other axes in them. An axis that is not named may have any value.
    #[serde(default, rename = "where", skip_serializing_if = "Vec::is_empty")]
    pub at: Vec<(Axis, Vec<Value>)>,
}

impl Family {
    /// The error rate of its verdicts; none where there are no verdicts.
    pub fn rate(self) -> Option<f64> {
        match self {
            Family::Primary => Some(ERROR_RATE),
            Family::Secondary => Some(FALSE_DISCOVERY_RATE),
            Family::Exploratory => None,
        }
    }
}

impl PrimaryPart {
    /// Returns true if a cell that differs from its baseline in `axis` belongs to the part.
    pub(super) fn holds_at(&self, axis: Axis, cell: &CellFacts<'_>) -> bool {
        let value = cell.cell().value(axis);
        (self.values.is_empty() || self.values.contains(&value)) && cell.lies_at(&self.at)
    }
}
