//! The precision that a plan expects to reach.

use serde::{Deserialize, Serialize};

use super::RoundVariance;

/// The variation of the ratio of two cells between blocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RatioNoise {
    /// The standard deviation of the logarithm of such a ratio.
    pub deviation: f64,
    /// Degrees of freedom that comparisons pool for it.
    pub lent: f64,
    /// The run that measured it; none where it is assumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The variance between rounds that is typical of the primary comparisons; none where the plan
    /// assumes none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub between: Option<RoundVariance>,
}

impl RatioNoise {
    /// The assumption about an unknown machine: trials vary by a tenth, and a ratio is of two trials.
    pub const ASSUMED: RatioNoise = RatioNoise {
        deviation: 0.15,
        lent: 0.0,
        run: None,
        between: None,
    };
}

/// The effects that a plan can detect, given the noise by which its cells were chosen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Expectation {
    /// The noise that the plan was made with.
    pub noise: RatioNoise,
    /// Primary comparisons, which are corrected together.
    pub primaries: u32,
    /// Number of blocks that the budget is expected to pay for, of the cells of these comparisons.
    pub blocks: u32,
    /// The smallest effect that this number of blocks detects in a primary comparison with 80 % power at
    /// the corrected level, as a share: 0.05 is 5 %. None if no comparison is primary.
    pub smallest_effect: Option<f64>,
}
