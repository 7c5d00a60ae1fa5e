//! The prediction of a study in a form that is compared with its findings.

use serde::{Deserialize, Serialize};

use crate::axis::{Axis, CellFacts, Value};
use crate::metric::Metric;

/// A predicted outcome of a comparison, and the cells that it is predicted for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Expect {
    /// The compared metric.
    pub metric: Metric,
    /// The axis in which the two cells differ.
    pub axis: Axis,
    /// The value that the other is compared with.
    pub baseline: Value,
    /// The value that the prediction is about.
    pub value: Value,
    /// The cells: the values of other axes in them. An axis that is not named may have any value.
    #[serde(default, rename = "where")]
    pub at: Vec<(Axis, Vec<Value>)>,
    /// The predicted outcome.
    pub outcome: Outcome,
}

words! {
    /// A predicted outcome of a comparison.
    pub enum Outcome {
        /// The value is better than the baseline.
        Better,
        /// The value is worse than the baseline.
        Worse,
        /// The difference is smaller than the smallest effect that matters.
        #[strum(serialize = "no difference")]
        NoDifference,
    }
}

impl Expect {
    /// Returns true if the prediction is about the cell; axes that do not apply to it are ignored.
    pub fn holds_at(&self, cell: &CellFacts<'_>) -> bool {
        cell.lies_at(&self.at)
    }
}
