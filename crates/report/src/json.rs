//! `findings.json` and its schema.

use bytecost_analysis::Analysis;

/// Renders a result as `findings.json`: indented, fields in the order of [`Analysis`].
///
/// A number that is not finite is written as `null`: JSON has no other word for it.
#[must_use]
pub fn findings_json(a: &Analysis) -> String {
    pretty(a)
}

/// The explanations of a result and its crossovers, with the run and the study that they are of.
#[must_use]
pub fn explain_json(a: &Analysis) -> String {
    pretty(&serde_json::json!({
        "run": a.run.id,
        "study": a.study.name,
        "explanations": a.explanations,
        "crossovers": a.crossovers,
    }))
}

/// What has a JSON Schema.
#[cfg(feature = "schema")]
pub const SCHEMAS: &[JsonSchemaRow] = &[
    JsonSchemaRow::of("findings", || schemars::schema_for!(Analysis)),
    JsonSchemaRow::of("hosts", || schemars::schema_for!(crate::hosts::HostTable)),
];

/// A file for programs, and the schema (JSON Schema, draft 2020-12) that the types of it give.
#[cfg(feature = "schema")]
#[derive(Debug)]
pub struct JsonSchemaRow {
    /// The file's name without its ending.
    pub file: &'static str,
    of_types: fn() -> schemars::Schema,
}

#[cfg(feature = "schema")]
impl JsonSchemaRow {
    const fn of(file: &'static str, of_types: fn() -> schemars::Schema) -> JsonSchemaRow {
        JsonSchemaRow { file, of_types }
    }

    /// The schema as JSON.
    #[must_use]
    pub fn json(&self) -> String {
        let mut schema = (self.of_types)();
        let title = format!("bytecost {}.json", self.file);
        schema.insert("title".to_owned(), title.into());
        pretty(&schema)
    }
}

pub(crate) fn pretty(value: &impl serde::Serialize) -> String {
    let mut text = serde_json::to_string_pretty(value).expect("keys are text");
    text.push('\n');
    text
}

/// A line of JSON, with its line feed.
pub(crate) fn line(value: &impl serde::Serialize) -> String {
    let mut text = serde_json::to_string(value).expect("keys are text");
    text.push('\n');
    text
}
