//! Findings that contradict the study's expectations.

use bytecost_spec::axis::CellFacts;
use bytecost_spec::study::{Expect, Outcome};
use itertools::Itertools as _;

use super::pairs::Answer;
use crate::result::{Expected, Fact, Finding, Missing, Verdict};
use crate::stages::Explained;

pub(super) fn ask(run: &Explained<'_>) -> Option<Answer> {
    let expects = &run.measured.input.manifest.study.expects;
    let expected = expects.iter().map(|e| compare(run, e)).collect_vec();
    let decided: usize = expected.iter().map(|e| e.met + e.otherwise.len()).sum();
    let open: usize = expected.iter().map(|e| e.open).sum();
    let missing = match (decided, open) {
        (0, 0) => Some(Missing::Cells),
        (0, open) => Some(Missing::Decision(open)),
        _ => None,
    };
    Some(Answer {
        missing,
        pairs: Vec::new(),
        facts: expected.into_iter().map(Fact::Expected).collect(),
    })
}

fn compare(run: &Explained<'_>, expect: &Expect) -> Expected {
    let survey = &run.measured.input.manifest.survey;
    let is_there = |id: &String| {
        let cell = run.measured.result(id).map(|c| &c.cell);
        cell.is_some_and(|c| expect.holds_at(&CellFacts::new(c, survey)))
    };
    let speaks = |f: &&Finding| {
        f.verdict != Verdict::NotJudged
            && f.metric == expect.metric
            && f.axis == expect.axis
            && f.baseline_value == expect.baseline
            && f.value == expect.value
            && [&f.cell, &f.baseline].into_iter().all(is_there)
    };
    let expected = match expect.outcome {
        Outcome::Better => Verdict::Better,
        Outcome::Worse => Verdict::Worse,
        Outcome::NoDifference => Verdict::NoDifferenceThatMatters,
    };
    let spoken_of = run.judged.findings.iter().filter(speaks);
    let (open, decided): (Vec<_>, Vec<_>) =
        spoken_of.partition(|f| f.verdict == Verdict::NotDecided);
    let (met, otherwise): (Vec<_>, Vec<&Finding>) =
        decided.into_iter().partition(|f| f.verdict == expected);
    Expected {
        outcome: expect.outcome,
        met: met.len(),
        otherwise: otherwise.into_iter().map(|f| f.number).collect(),
        open: open.len(),
    }
}
