//! What was unexpected: the study's expectations compared with the findings.

use bytecost_spec::axis::CellFacts;
use bytecost_spec::study::{Expect, Outcome};
use itertools::Itertools as _;

use super::{Answered, Answers, Explained, MOST_ROWS, Question};
use crate::phrases;
use crate::result::{Finding, Verdict};

pub(super) const QUESTION: Question = Question {
    key: "unexpected",
    text: "What was unexpected?",
    asks: |run| !run.input.manifest.study.expects.is_empty(),
    answers: Answers::Own(ask),
    would_change: "another machine, a path that leaves it, or conditions that the prediction did not speak of",
};

struct Compared<'v> {
    expect: &'v Expect,
    as_expected: usize,
    otherwise: Vec<&'v Finding>,
    open: usize,
}

fn ask(run: &Explained<'_>) -> Option<Answered> {
    let expects = &run.input.manifest.study.expects;
    let all: Vec<Compared<'_>> = expects.iter().map(|e| compare(run, e)).collect();
    let sum = |of: fn(&Compared<'_>) -> usize| all.iter().map(of).sum::<usize>();
    let (met, open) = (sum(|c| c.as_expected), sum(|c| c.open));
    let otherwise = sum(|c| c.otherwise.len());
    let unmeasured = sum(|c| usize::from(c.as_expected + c.otherwise.len() + c.open == 0));
    let decided = phrases::count(met + otherwise, "finding");
    let undecided = match open {
        0 => String::new(),
        1 => "; 1 more is not decided".to_owned(),
        n => format!("; {n} more are not decided"),
    };
    let answer = match (met + otherwise, open) {
        (0, 0) => {
            Err("no finding that the prediction speaks of: its cells were not measured".into())
        }
        (0, _) => {
            let open = phrases::count(open, "finding");
            let why = format!("not decided in {open} that the prediction speaks of");
            Err(why)
        }
        _ if otherwise == 0 => Ok(format!(
            "nothing so far: {decided} that the prediction speaks of came out as expected{undecided}."
        )),
        _ => Ok(format!(
            "the prediction fell in {otherwise} of {decided} that it speaks of: {}{undecided}.",
            all.iter().filter_map(|c| c.clause(run)).join("; ")
        )),
    };
    let fallen = all
        .iter()
        .flat_map(|c| c.otherwise.iter().map(move |f| (c, f)));
    Some(Answered {
        numbers: (fallen.clone().take(MOST_ROWS))
            .map(|(c, f)| format!("expected {}: {}", c.expect.outcome, run.sentence(f)))
            .collect(),
        evidence: vec![format!(
            "{met} as expected, {otherwise} otherwise, {open} not decided; {} without a finding",
            phrases::count(unmeasured, "expectation")
        )],
        findings: fallen.map(|(_, f)| f.id.clone()).collect(),
        ..Answered::of(answer)
    })
}

fn compare<'v>(run: &'v Explained<'v>, expect: &'v Expect) -> Compared<'v> {
    let survey = &run.input.manifest.survey;
    let is_there = |id: &String| {
        let cell = run.result(id).map(|c| &c.cell);
        cell.is_some_and(|c| expect.holds_at(&CellFacts::of(c, survey)))
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
    let spoken_of = run.findings.iter().filter(speaks);
    let (open, decided): (Vec<_>, Vec<_>) =
        spoken_of.partition(|f| f.verdict == Verdict::NotDecided);
    let (met, otherwise): (Vec<_>, _) = decided.into_iter().partition(|f| f.verdict == expected);
    Compared {
        expect,
        as_expected: met.len(),
        otherwise,
        open: open.len(),
    }
}

impl Compared<'_> {
    fn clause(&self, run: &Explained<'_>) -> Option<String> {
        let first = self.otherwise.first()?;
        let outcome = match self.expect.outcome {
            Outcome::NoDifference => "no different from",
            Outcome::Better => "better than",
            Outcome::Worse => "worse than",
        };
        let [way, base] = [&first.value, &first.baseline_value].map(|v| first.axis.subject(v));
        let (noun, n) = (run.words(first.metric), self.otherwise.len());
        let all = phrases::count(n + self.as_expected, "place");
        Some(format!(
            "{way} was expected to be {outcome} {base} in {noun} and was not in {n} of {all}"
        ))
    }
}
