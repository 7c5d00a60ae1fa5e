//! A claim and its figures in words, as printers and files have them.

use std::fmt;

use bytecost_analysis::Ruling;
use serde::{Deserialize, Serialize};

/// A claim compared with the results, in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Audited"))]
pub struct AuditText {
    /// The claim's id.
    pub id: String,
    /// Source of the claim.
    pub source: String,
    /// The published claim.
    pub claim: String,
    /// The ruling.
    pub ruling: Ruling,
    /// The ruling in words, with cells where they differ: `confirmed in 3 of 4 cells, 1 undecided`.
    pub words: String,
    /// Reason of the ruling, in a sentence or two; for a claim that is confirmed for another
    /// reason, that reason.
    pub because: String,
    /// True if the run is of a study that settles the claim.
    pub of_study: bool,
    /// Published next to measured, a row each.
    pub figures: Vec<AuditFigure>,
    /// [`bytecost_analysis::Finding::number`]s behind it.
    pub findings: Vec<usize>,
}

/// A published figure with the measured one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AuditFigure {
    /// The cell or quantity of the figure: `send-fields, 256 B fields, 1 thread`; `as published` for the
    /// published text.
    #[serde(rename = "what")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub subject: FigureSubject,
    /// The published value; none where none was published.
    pub published: Option<String>,
    /// The value measured here; none where it was not measured.
    pub measured: Option<String>,
}

/// The subject of a figure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum FigureSubject {
    /// The published text as a whole.
    AsPublished,
    /// A cell or quantity, in words.
    Quantity(String),
}

const AS_PUBLISHED: &str = "as published";

impl From<String> for FigureSubject {
    fn from(text: String) -> FigureSubject {
        if text == AS_PUBLISHED {
            FigureSubject::AsPublished
        } else {
            FigureSubject::Quantity(text)
        }
    }
}

impl From<FigureSubject> for String {
    fn from(subject: FigureSubject) -> String {
        subject.to_string()
    }
}

impl fmt::Display for FigureSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FigureSubject::AsPublished => AS_PUBLISHED,
            FigureSubject::Quantity(words) => words,
        })
    }
}

impl AuditText {
    /// Returns true if the run has neither a figure nor a finding for the claim.
    pub fn is_silent(&self) -> bool {
        self.ruling == Ruling::Undecided && self.findings.is_empty() && !self.is_measured()
    }

    /// Returns true if the run has a figure for it.
    pub fn is_measured(&self) -> bool {
        self.figures.iter().any(|f| f.measured.is_some())
    }
}
