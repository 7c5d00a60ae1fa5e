//! `findings.json` and its schema.

use bytecost_analysis::Analysis;

use crate::explanations::explanations;
use crate::json_lines::by_lines;
use crate::text::pretty;

/// Renders a result as `findings.json`: fields in the order of [`Analysis`], one cell, comparison or
/// other element of a list a line; numbers have five digits, and one that is not finite is `null`.
pub fn findings_json(a: &Analysis) -> String {
    by_lines(a)
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
        ("findings", schemars::schema_for!(Analysis)),
        ("hosts", schemars::schema_for!(crate::hosts::HostTable)),
        ("profile", schemars::schema_for!(crate::ProfileReport)),
    ];
    schemas.map(|(file, mut schema)| {
        schema.insert("title".to_owned(), format!("bytecost {file}.json").into());
        (file, pretty(&schema))
    })
}
