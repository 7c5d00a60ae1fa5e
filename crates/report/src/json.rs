//! `findings.json` and its schema.

use bytecost_analysis::Analysis;

/// Renders a result as `findings.json`: indented, fields in the order of [`Analysis`].
///
/// A number that is not finite is written as `null`: JSON has no other word for it.
///
/// # Panics
/// Never: every map of an analysis has text as its keys, which is all that could fail.
#[must_use]
pub fn findings_json(a: &Analysis) -> String {
    pretty(a)
}

/// The explanations of a result and its crossovers, with the run and the study that they are of.
///
/// # Panics
/// Never, for the reason that [`findings_json`] does not.
#[must_use]
pub fn explain_json(a: &Analysis) -> String {
    pretty(&serde_json::json!({
        "run": a.run.id,
        "study": a.study.name,
        "explanations": a.explanations,
        "crossovers": a.crossovers,
    }))
}

/// The JSON Schema (draft 2020-12) of what [`findings_json`] writes.
#[cfg(feature = "schema")]
#[must_use]
pub fn schema_json() -> String {
    let mut schema = schemars::schema_for!(Analysis);
    schema.insert(
        "title".to_owned(),
        "bytecost findings.json".to_owned().into(),
    );
    pretty(&schema)
}

pub(crate) fn pretty(value: &impl serde::Serialize) -> String {
    let mut text = serde_json::to_string_pretty(value).expect("keys are text");
    text.push('\n');
    text
}
