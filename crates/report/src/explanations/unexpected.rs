//! Expectations of the study that the results meet or contradict, in words.

use bytecost_analysis::{Expected, Explanation, Fact};
use bytecost_spec::study::Outcome;
use itertools::Itertools as _;

use super::causes;
use super::why::{AnswerParts, MOST_ROWS, Why};
use crate::phrases;

fn expected(explanation: &Explanation) -> impl Iterator<Item = &Expected> {
    explanation.facts.iter().filter_map(|fact| match fact {
        Fact::Expected(expected) => Some(expected),
        _ => None,
    })
}

/// The numbers of the findings that came out otherwise.
pub(super) fn findings(explanation: &Explanation) -> impl Iterator<Item = usize> {
    expected(explanation).flat_map(|e| e.otherwise.iter().copied())
}

pub(super) fn answer(why: &Why<'_>) -> AnswerParts {
    let all = expected(why.explanation).collect_vec();
    let sum = |of: fn(&Expected) -> usize| all.iter().copied().map(of).sum::<usize>();
    let (met, open, otherwise) = (sum(|e| e.met), sum(|e| e.open), sum(|e| e.otherwise.len()));
    let unmeasured = sum(|e| usize::from(e.met + e.otherwise.len() + e.open == 0));
    let decided = phrases::count(met + otherwise, "finding");
    let undecided = match open {
        0 => String::new(),
        1 => "; 1 more is not decided".to_owned(),
        n => format!("; {n} more are not decided"),
    };
    let answer = if otherwise == 0 {
        format!(
            "nothing so far: {decided} that the prediction speaks of came out as expected{undecided}."
        )
    } else {
        let clauses = all.iter().filter_map(|e| clause(why, e)).join("; ");
        format!(
            "the prediction fell in {otherwise} of {decided} that it speaks of: {clauses}{undecided}."
        )
    };
    let fallen = all.iter().flat_map(|e| {
        let numbers = e.otherwise.iter();
        let findings = numbers.filter_map(|number| why.a.findings.get(*number));
        findings.map(|f| format!("expected {}: {}", e.outcome, causes::amount(why, f)))
    });
    AnswerParts {
        answer,
        numbers: fallen.take(MOST_ROWS).collect(),
        evidence: vec![format!(
            "{met} as expected, {otherwise} otherwise, {open} not decided; {} without a finding",
            phrases::count(unmeasured, "expectation")
        )],
    }
}

fn clause(why: &Why<'_>, expected: &Expected) -> Option<String> {
    let first = why.a.findings.get(*expected.otherwise.first()?)?;
    let outcome = match expected.outcome {
        Outcome::NoDifference => "no different from",
        Outcome::Better => "better than",
        Outcome::Worse => "worse than",
    };
    let [way, base] = [&first.value, &first.baseline_value].map(|v| first.axis.subject(v));
    let (noun, n) = (why.metric(first.metric), expected.otherwise.len());
    let all = phrases::count(n + expected.met, "place");
    Some(format!(
        "{way} was expected to be {outcome} {base} in {noun} and was not in {n} of {all}"
    ))
}
