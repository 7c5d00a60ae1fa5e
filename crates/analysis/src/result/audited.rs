//! Published claims compared with the results, as findings.json gives them.

use bytecost_spec::claim::Claim;
use bytecost_spec::{Published, Table};
use serde::{Deserialize, Serialize};

/// Claims with all that they are judged by besides the run.
#[derive(Clone, Debug, Default)]
pub struct Grounds {
    /// The claims.
    pub claims: Vec<Claim>,
    /// Published tables, for calculations on them.
    pub tables: Vec<Table>,
    /// Published cells by their source, to stand next to measured ones.
    pub published: Vec<Published>,
    /// Names of studies that can be run.
    pub studies: Vec<&'static str>,
}

/// What becomes of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Ruling {
    /// It is so here.
    Confirmed,
    /// It is so in most of the cells; in the others it is not, or that is not decided.
    ConfirmedInPart,
    /// It is so here, by a difference that is smaller than what matters.
    ConfirmedByLessThanMatters,
    /// The effect is there, but not for the reason that was given.
    ConfirmedForAnotherReason,
    /// It is not so.
    Refuted,
    /// Neither is decided here.
    Undecided,
}

/// A claim compared with the results.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Audited {
    /// The claim's id.
    pub id: String,
    /// Where it was made.
    pub source: String,
    /// What was claimed.
    pub claim: String,
    /// The ruling.
    pub ruling: Ruling,
    /// It in words, with cells where they differ: `confirmed in 3 of 4 cells, 1 undecided`.
    pub words: String,
    /// Why, in a sentence or two; where it is confirmed for another reason, that reason.
    pub because: String,
    /// Whether the run is of a study that settles the claim.
    pub of_study: bool,
    /// Published next to measured, a row each.
    pub figures: Vec<AuditFigure>,
    /// [`crate::Finding::number`]s behind it.
    pub findings: Vec<usize>,
}

/// A published figure beside the measured one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AuditFigure {
    /// Of what: `send-fields, 256 B fields, 1 thread`.
    pub what: String,
    /// As it was published; none where it was not.
    pub published: Option<String>,
    /// As it was measured here; none where it was not.
    pub measured: Option<String>,
}
