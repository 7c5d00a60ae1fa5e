//! What was unexpected: the study's expectations held against the findings.

use std::collections::BTreeMap;

use bytecost_spec::Cell;
use bytecost_spec::axis::CellFacts;
use bytecost_spec::study::{Expect, Outcome};

use super::{Explained, MOST_ROWS, Why};
use crate::phrases;
use crate::result::{Finding, Verdict};

/// An expectation with the findings that it speaks of.
struct Held<'v> {
    expect: &'v Expect,
    as_expected: Vec<&'v Finding>,
    otherwise: Vec<&'v Finding>,
    open: usize,
}

pub(super) fn ask(why: &Why<'_>) -> Option<Explained> {
    let expects = &why.view.input.manifest.study.expects;
    let held: Vec<Held<'_>> = expects.iter().map(|e| hold(why, e)).collect();
    let sum = |of: fn(&Held<'_>) -> usize| held.iter().map(of).sum::<usize>();
    let (met, otherwise, open) = (
        sum(|h| h.as_expected.len()),
        sum(|h| h.otherwise.len()),
        sum(|h| h.open),
    );
    let unmeasured = held
        .iter()
        .filter(|h| h.as_expected.is_empty() && h.otherwise.is_empty() && h.open == 0);
    let unmeasured = phrases::count(unmeasured.count(), "expectation");
    let mut told = Explained {
        answer: Err(String::new()),
        numbers: Vec::new(),
        evidence: vec![format!(
            "{met} as expected, {otherwise} otherwise, {open} not decided; {unmeasured} without a finding"
        )],
        would_change: "another machine, a path that leaves it, or conditions that the prediction did not speak of",
        findings: Vec::new(),
    };
    if expects.is_empty() {
        told.answer = Err("the study states no expectation in a form that findings can be held against: needs rows of [[expect]]".to_owned());
        told.evidence.clear();
        return Some(told);
    }
    if met + otherwise == 0 {
        told.answer = Err(if open > 0 {
            format!(
                "all {open} findings that the prediction speaks of are not decided: needs more blocks (--budget)"
            )
        } else {
            "no finding that the prediction speaks of: its cells were not measured".to_owned()
        });
        return Some(told);
    }
    let decided = phrases::count(met + otherwise, "finding");
    for h in held.iter().filter(|h| !h.otherwise.is_empty()) {
        told.numbers.extend(
            h.otherwise
                .iter()
                .map(|f| format!("expected {}: {}", h.expect.outcome, f.sentence)),
        );
        told.findings
            .extend(h.otherwise.iter().map(|f| f.id.clone()));
    }
    told.numbers.truncate(MOST_ROWS);
    let lines: Vec<String> = held.iter().filter_map(clause).collect();
    told.answer = Ok(if lines.is_empty() {
        format!("nothing: all of the {decided} that the prediction speaks of came out as expected.")
    } else {
        format!(
            "{otherwise} of {decided} that the prediction speaks of came out otherwise: {}.",
            lines.join("; ")
        )
    });
    Some(told)
}

fn hold<'v>(why: &Why<'v>, expect: &'v Expect) -> Held<'v> {
    let cells: BTreeMap<&str, &Cell> = why
        .view
        .cells
        .iter()
        .map(|c| (c.id.as_str(), &c.cell))
        .collect();
    let survey = &why.view.input.manifest.survey;
    let is_there = |id: &String| {
        let cell = cells.get(id.as_str());
        cell.is_some_and(|c| expect.holds_at(&CellFacts::of(c, survey)))
    };
    let speaks = |f: &&Finding| {
        f.metric == expect.metric
            && f.axis == expect.axis
            && f.baseline_value == expect.baseline
            && f.value == expect.value
            && [&f.cell, &f.baseline].into_iter().all(is_there)
            // What waits for a timer says nothing of the ways.
            && !why.view.stalls.touch(f)
    };
    let mut held = Held {
        expect,
        as_expected: Vec::new(),
        otherwise: Vec::new(),
        open: 0,
    };
    for finding in why.view.findings.iter().filter(speaks) {
        let came = match finding.verdict {
            Verdict::Better => Outcome::Better,
            Verdict::Worse => Outcome::Worse,
            Verdict::NoDifferenceThatMatters => Outcome::NoDifference,
            Verdict::NotDecided => {
                held.open += 1;
                continue;
            }
        };
        if came == expect.outcome {
            held.as_expected.push(finding);
        } else {
            held.otherwise.push(finding);
        }
    }
    held
}

/// What came otherwise of one expectation, in a few words.
fn clause(held: &Held<'_>) -> Option<String> {
    let first = held.otherwise.first()?;
    let outcome = match held.expect.outcome {
        Outcome::NoDifference => "no different",
        Outcome::Better => "better",
        Outcome::Worse => "worse",
    };
    let all = held.otherwise.len() + held.as_expected.len();
    Some(
        format!(
            "{} was expected to be {outcome} than {} in {} and in {} of {} was not",
            first.axis.subject(&first.value),
            first.axis.subject(&first.baseline_value),
            phrases::metric(first.metric),
            held.otherwise.len(),
            phrases::count(all, "place")
        )
        .replace("no different than", "no different from"),
    )
}
