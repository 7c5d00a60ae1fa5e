//! `findings.json` and its schema.

use std::borrow::Cow;
use std::ops::Deref;

use bytecost_analysis::Analysis;
use serde::{Deserialize, Serialize};

use crate::audit::{self, AuditText};
use crate::caveats::{CaveatText, DisturbanceText, caveats, disturbances};
use crate::explanations::explanations;
use crate::json_lines::by_lines;
use crate::text::pretty;

/// The shape of `findings.json`: a result with its rulings and caveats in words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Findings<'a> {
    /// The result, without rulings and caveats.
    #[serde(flatten)]
    pub analysis: Cow<'a, Analysis>,
    /// Published claims, with the rulings that these results give.
    #[serde(default)]
    pub audit: Vec<AuditText>,
    /// Circumstances that can bend a ranking, with what they did to verdicts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disturbances: Vec<DisturbanceText>,
    /// Caveats of the findings, in words.
    pub caveats: Vec<CaveatText>,
}

impl Deref for Findings<'_> {
    type Target = Analysis;

    fn deref(&self) -> &Analysis {
        &self.analysis
    }
}

/// Renders a result as `findings.json`: fields in the order of [`Analysis`], then its rulings and caveats; one
/// cell, comparison or other element of a list a line. Numbers have five digits, and one that is not finite is
/// `null`.
pub fn findings_json(a: &Analysis) -> String {
    by_lines(&Findings {
        analysis: Cow::Borrowed(a),
        audit: audit::texts(a),
        disturbances: disturbances(a),
        caveats: caveats(a),
    })
}

/// The explanations of a result and its crossovers, with the run and the study that they are of.
pub fn explain_json(a: &Analysis) -> String {
    pretty(&serde_json::json!({
        "run": a.run.id,
        "study": a.study.name,
        "explanations": explanations(a),
        "crossovers": a.crossovers,
    }))
}

/// The files for programs, by their names without ending, each with the schema (JSON Schema, draft
/// 2020-12) that its types give.
#[cfg(feature = "schema")]
pub fn schemas() -> [(&'static str, String); 3] {
    let schemas = [
        ("findings", schemars::schema_for!(Findings<'static>)),
        ("hosts", schemars::schema_for!(crate::hosts::HostTable)),
        ("profile", schemars::schema_for!(crate::ProfileReport)),
    ];
    schemas.map(|(file, mut schema)| {
        schema.insert("title".to_owned(), format!("bytecost {file}.json").into());
        (file, pretty(&schema))
    })
}
