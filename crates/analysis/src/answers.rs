//! The answer in plain sentences, built from findings and never beyond their verdicts.

use bytecost_spec::study::Compare;
use bytecost_spec::{Axis, Metric};

use crate::caveats::copied;
use crate::ceiling;
use crate::phrases;
use crate::result::{AnswerSentence, Finding, Verdict};
use crate::view::View;

mod alternatives;
mod best;
mod group;
mod stalled;
mod undecided;

use group::{FindingGroup, groups, withheld};

/// The longest sentence, in characters; a clause that would make it longer starts a new one.
const LONGEST: usize = 190;
/// Groups beyond the first whose best is told; more are in the tables.
const FURTHER_GROUPS: usize = 3;

/// The sentences of the answer; the first is the headline.
pub(crate) fn all(view: &View<'_>, varied: &[Axis]) -> Vec<AnswerSentence> {
    let compares = &view.input.manifest.study.compare;
    let stalls = stalled::all(view, varied);
    let lead = stalled::leads(view);
    let mut answers = if lead { stalls.clone() } else { Vec::new() };
    for (place, compare) in compares.iter().enumerate() {
        let Some(&metric) = compare.metrics.first() else {
            continue;
        };
        let mut groups = groups(view, compare, metric, varied);
        // What no further comparison decided is counted at the end.
        groups.retain(|g| place == 0 || g.findings().any(|f| f.verdict != Verdict::NotDecided));
        answers.extend(bests(&groups));
        answers.extend(limited(view, compare, metric).filter(|_| place == 0));
        if place == 0 {
            answers.extend(groups.first().map_or_else(Vec::new, alternatives::all));
            if !lead {
                answers.extend(stalls.iter().cloned());
            }
            answers.extend(zero_copy(view));
            answers.extend(second(view, compare, varied));
        }
    }
    answers.extend(ceiling::answers(view, varied));
    if view.findings.is_empty() {
        answers.splice(0..0, undecided::nothing_compared(view, varied));
    } else {
        answers.extend(undecided::not_decided(view));
    }
    answers
}

/// What is best in each group, the first group's first; the others say where they are.
fn bests(groups: &[FindingGroup<'_>]) -> Vec<AnswerSentence> {
    let mut answers = Vec::new();
    for group in groups.iter().take(1 + FURTHER_GROUPS) {
        answers.extend(best::sentences(group));
    }
    let more = groups.len().saturating_sub(1 + FURTHER_GROUPS);
    if more > 0 {
        let sentence = format!("The tables hold {} more.", phrases::count(more, "group"));
        answers.push(AnswerSentence {
            sentence,
            findings: Vec::new(),
        });
    }
    answers
}

/// The second metric of the comparison, in the first group alone.
fn second(view: &View<'_>, compare: &Compare, varied: &[Axis]) -> Vec<AnswerSentence> {
    let Some(&metric) = compare.metrics.get(1) else {
        return Vec::new();
    };
    let groups = groups(view, compare, metric, varied);
    let best = groups.first().map_or_else(Vec::new, best::headline);
    best.into_iter()
        .chain(limited(view, compare, metric))
        .collect()
}

/// What is not said, since something else than what is compared sets these figures.
fn limited(view: &View<'_>, compare: &Compare, metric: Metric) -> Option<AnswerSentence> {
    let withheld = withheld(view, compare, metric);
    let all = view.findings.iter().filter(|f| belongs(f, compare, metric));
    let sentence = format!(
        "{}: no verdict in {} of {}, since something other than what is compared sets it there; the caveats name it.",
        phrases::capital(&phrases::metric(metric)),
        withheld.len(),
        phrases::count(all.count(), "comparison"),
    );
    let findings: Vec<String> = withheld.iter().map(|f| f.id.clone()).collect();
    (!findings.is_empty()).then_some(AnswerSentence { sentence, findings })
}

fn zero_copy(view: &View<'_>) -> Vec<AnswerSentence> {
    let told = copied(view).into_iter().map(|c| AnswerSentence {
        sentence: c.sentence(),
        findings: view
            .findings
            .iter()
            .filter(|f| f.primary && c.cells.contains(&f.cell))
            .map(|f| f.id.clone())
            .collect(),
    });
    told.collect()
}

/// A part of a sentence, as its beginning and as its continuation.
struct Clause {
    begins: String,
    goes_on: String,
    findings: Vec<String>,
}

/// Joins clauses into sentences that are not too long. `place` comes before each sentence.
fn joined(clauses: Vec<Clause>, place: &str) -> Vec<AnswerSentence> {
    let mut answers: Vec<AnswerSentence> = Vec::new();
    for clause in clauses {
        let length = clause.goes_on.chars().count() + 3;
        match answers.last_mut() {
            Some(last) if last.sentence.chars().count() + length <= LONGEST => {
                last.sentence.push_str("; ");
                last.sentence.push_str(&clause.goes_on);
                last.findings.extend(clause.findings);
            }
            _ => answers.push(AnswerSentence {
                sentence: if place.is_empty() {
                    phrases::capital(&clause.begins)
                } else {
                    format!("{}: {}", phrases::capital(place), clause.begins)
                },
                findings: clause.findings,
            }),
        }
    }
    for answer in &mut answers {
        answer.sentence.push('.');
    }
    answers
}

/// Whether a finding belongs to a comparison and metric.
fn belongs(finding: &Finding, compare: &Compare, metric: Metric) -> bool {
    finding.axis == compare.axis
        && finding.baseline_value == compare.baseline
        && finding.metric == metric
}
