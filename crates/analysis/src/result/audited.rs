//! Claims of others, held against the results, as findings.json tells them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What becomes of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Ruling {
    /// It holds here.
    Holds,
    /// It does not.
    DoesNotHold,
    /// The effect is there, but not for the reason that was given.
    HoldsForAnotherReason,
    /// It cannot be settled here.
    CannotBeSettled,
}

/// A claim held against the results.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Audited {
    /// The claim's id.
    pub id: String,
    /// Where it was made.
    pub source: String,
    /// What was claimed.
    pub claim: String,
    /// The ruling.
    pub ruling: Ruling,
    /// Why, in a sentence or two; where it holds for another reason, that reason.
    pub because: String,
    /// Published beside measured, a row each.
    pub figures: Vec<AuditFigure>,
    /// [`crate::Finding::id`]s behind it.
    pub findings: Vec<String>,
}

/// A published figure beside the measured one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditFigure {
    /// Of what: `send-fields, 256 B fields, 1 thread`.
    pub what: String,
    /// As it was published; none where it was not.
    pub published: Option<String>,
    /// As it was measured here; none where it was not.
    pub measured: Option<String>,
}
