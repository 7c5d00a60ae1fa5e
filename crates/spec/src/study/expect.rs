//! What a study expects of its findings, in a form that can be held against them.

use serde::{Deserialize, Serialize};

use crate::axis::{Axis, CellFacts, Value};
use crate::metric::Metric;

/// An expectation: how a value of an axis stands against another, and where.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Expect {
    /// What is compared.
    pub metric: Metric,
    /// The axis in which the two differ.
    pub axis: Axis,
    /// The value that the other is held against.
    pub baseline: Value,
    /// The other's value.
    pub value: Value,
    /// Where it is expected: the values that other axes have there. An axis that is not named
    /// may have any value.
    #[serde(default, rename = "where")]
    pub at: Vec<(Axis, Vec<Value>)>,
    /// What is expected.
    pub outcome: Outcome,
}

words! {
    /// What is expected of a comparison.
    pub enum Outcome {
        /// The other is better than the baseline.
        Better,
        /// It is worse.
        Worse,
        /// The difference does not matter.
        #[strum(serialize = "no difference")]
        NoDifference,
    }
}

impl Expect {
    /// Whether a cell lies where the expectation speaks of: what does not apply to it is no place.
    pub fn holds_at(&self, cell: &CellFacts<'_>) -> bool {
        cell.lies_at(&self.at)
    }
}
