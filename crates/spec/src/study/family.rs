//! What a comparison is for, which says what error rate its verdicts have.

use serde::{Deserialize, Serialize};

use crate::axis::{Axis, CellFacts, Value};
use crate::metric::Metric;

/// The chance of even one false verdict among comparisons that are tested together.
pub const ERROR_RATE: f64 = 0.05;
/// The share of the decided secondary comparisons of a table that is false, in the mean at most.
pub const FALSE_DISCOVERY_RATE: f64 = 0.05;

choice! {
    /// The family of a comparison: what is tested together with it.
    pub enum Family {
        /// What the first sentence of the study needs: all of these together have one error rate.
        #[default]
        Primary,
        /// What else is judged, a table at a time, at a rate of false discoveries.
        Secondary,
        /// What is shown with its interval and not judged.
        Exploratory,
    }
}

/// A part of a comparison that is primary.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PrimaryPart {
    /// The metric; none is the first of the comparison.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<Metric>,
    /// The values that are compared, where not all are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<Value>,
    /// Where: the values that other axes have there. An axis that is not named may have any.
    #[serde(default, rename = "where", skip_serializing_if = "Vec::is_empty")]
    pub at: Vec<(Axis, Vec<Value>)>,
}

impl Family {
    /// The error rate of its verdicts; none of what is not judged.
    pub fn rate(self) -> Option<f64> {
        match self {
            Family::Primary => Some(ERROR_RATE),
            Family::Secondary => Some(FALSE_DISCOVERY_RATE),
            Family::Exploratory => None,
        }
    }
}

impl PrimaryPart {
    /// Whether a cell that differs from its baseline in an axis is in it.
    pub(super) fn holds_at(&self, axis: Axis, cell: &CellFacts<'_>) -> bool {
        let value = cell.cell().value(axis);
        (self.values.is_empty() || self.values.contains(&value)) && cell.lies_at(&self.at)
    }
}
