//! What a plan expects of itself, by the noise that it was made with.

use serde::{Deserialize, Serialize};

use super::RoundVariance;

/// How far the ratio of two cells varies from block to block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RatioNoise {
    /// The standard deviation of the logarithm of such a ratio.
    pub deviation: f64,
    /// Degrees of freedom that comparisons lend each other for it.
    pub lent: f64,
    /// The run that measured it; none where it is assumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The variance between rounds that is typical of the primary comparisons; none where the plan
    /// reckons with none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub between: Option<RoundVariance>,
}

impl RatioNoise {
    /// What is assumed of an unknown machine: trials vary by a tenth, and a ratio is of two.
    pub const ASSUMED: RatioNoise = RatioNoise {
        deviation: 0.15,
        lent: 0.0,
        run: None,
        between: None,
    };
}

/// The effects that a plan expects to find at the noise by which its cells were chosen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Expectation {
    /// The noise that the plan was made with.
    pub noise: RatioNoise,
    /// Primary comparisons, which are corrected together.
    pub primaries: u32,
    /// Blocks that the budget is taken to pay for, of the cells of these.
    pub blocks: u32,
    /// The smallest effect that so many blocks find in a primary comparison 80 % of the time at the
    /// corrected level, as a share: 0.05 is 5 %. None where nothing is primary.
    pub smallest_effect: Option<f64>,
}
