//! Ways that wait for a timer: what is said of them instead of a comparison.

use bytecost_spec::study::Compare;
use bytecost_spec::{Axis, Cell};
use itertools::Itertools as _;

use super::belongs;
use crate::caveats::stall::remedied;
use crate::phrases;
use crate::result::{AnswerSentence, Finding, Verdict};
use crate::stalls::Waits;
use crate::trials::CellTrials;
use crate::view::View;

/// Share of the measured cells from which stalls are what the answer begins with.
const LEADS: f64 = 0.1;

/// Whether so many cells stall that nothing else should be said before.
pub(super) fn leads(view: &View<'_>) -> bool {
    let stalled = |c: &&CellTrials<'_>| view.stalls.waits(&c.id).is_some();
    let of = |n: usize| n as f64;
    of(view.measured().filter(stalled).count()) >= LEADS * of(view.measured().count())
}

/// For each value of a compared axis whose cells stall: that it does, and what remains of the
/// comparison without the stall; and which options end it.
pub(super) fn all(view: &View<'_>, varied: &[Axis]) -> Vec<AnswerSentence> {
    let compares = &view.input.manifest.study.compare;
    let (remedies, others): (Vec<&Compare>, Vec<&Compare>) =
        compares.iter().partition(|c| c.axis.is_switch());
    let answers = of_each(view, varied, &others);
    if answers.is_empty() {
        return of_each(view, varied, &remedies);
    }
    answers.into_iter().chain(ended(view, &remedies)).collect()
}

/// The values of options with which the same cells do not stall.
fn ended(view: &View<'_>, remedies: &[&Compare]) -> Option<AnswerSentence> {
    let mut values: Vec<String> = Vec::new();
    let mut findings = Vec::new();
    for compare in remedies {
        let of_axis = |f: &&Finding| f.axis == compare.axis && f.primary;
        for finding in view.findings.iter().filter(of_axis) {
            let waits = |id: &String| view.stalls.waits(id).is_some();
            let value = match (waits(&finding.baseline), waits(&finding.cell)) {
                (true, false) => &finding.value,
                (false, true) => &finding.baseline_value,
                _ => continue,
            };
            findings.push(finding.id.clone());
            values.push(compare.axis.subject(value));
        }
    }
    let values: Vec<String> = values.into_iter().unique().collect();
    (!values.is_empty()).then(|| AnswerSentence {
        sentence: format!(
            "With {} the same cells do not stall.",
            phrases::alternatives(&values)
        ),
        findings,
    })
}

fn of_each(view: &View<'_>, varied: &[Axis], compares: &[&Compare]) -> Vec<AnswerSentence> {
    let mut answers: Vec<AnswerSentence> = Vec::new();
    for compare in compares {
        let stalled = view
            .measured()
            .filter(|c| view.stalls.waits(&c.id).is_some());
        let values: Vec<String> = stalled
            .map(|c| c.cell.value(compare.axis))
            .unique()
            .collect();
        // Where every value stalls, it is not the axis that does it.
        let all = values.len() > 1
            && !view
                .measured()
                .any(|c| !values.contains(&c.cell.value(compare.axis)));
        let told = values.iter().filter(|_| !all);
        answers.extend(told.flat_map(|v| sentences(view, varied, compare, v)));
    }
    answers
        .into_iter()
        .unique_by(|a| a.sentence.clone())
        .collect()
}

fn sentences(
    view: &View<'_>,
    varied: &[Axis],
    compare: &Compare,
    value: &str,
) -> Vec<AnswerSentence> {
    let of_value = |cell: &Cell| cell.value(compare.axis) == value;
    let stalled: Vec<(&Cell, Waits)> = view
        .measured()
        .filter(|c| of_value(c.cell))
        .filter_map(|c| Some((c.cell, view.stalls.waits(&c.id)?)))
        .collect();
    let touched: Vec<&Finding> = view
        .findings
        .iter()
        .filter(|f| f.axis == compare.axis && f.primary && view.stalls.touch(f))
        .filter(|f| f.value == value || f.baseline_value == value)
        .collect();
    if touched.is_empty() {
        return Vec::new();
    }
    let waits = stalled.first().map_or(Waits::Message, |(_, w)| *w);
    let what = match waits {
        Waits::Message => {
            "the rest of each message waits for a delayed acknowledgement (Nagle's algorithm; a timer of 40 ms)"
        }
        Waits::Completion => "each buffer waits for a delayed acknowledgement (a timer of 40 ms)",
    };
    let name = compare.axis.subject(value);
    let n = phrases::count(stalled.len(), "cell");
    let place = phrases::circumstances(&shared(varied, compare.axis, &stalled));
    let n = if place.is_empty() {
        n
    } else {
        format!("{n} {place}")
    };
    let mut answers = vec![AnswerSentence {
        sentence: format!(
            "{} stalls in {n}: {what}, which is not the cost of copying, so it is not compared there.",
            phrases::capital(&name)
        ),
        findings: touched.iter().map(|f| f.id.clone()).collect(),
    }];
    answers.push(remains(view, compare, value, &stalled));
    answers
}

/// What the stalled cells have in common, of the axes that vary.
fn shared(varied: &[Axis], compared: Axis, stalled: &[(&Cell, Waits)]) -> Vec<(Axis, String)> {
    let held = varied.iter().filter(|axis| **axis != compared);
    let common = held.filter_map(|axis| {
        let mut values = stalled.iter().map(|(cell, _)| cell.value(*axis));
        let first = values.next()?;
        values.all(|v| v == first).then_some((*axis, first))
    });
    common.collect()
}

/// What the comparison comes to in the cells beside, where the same way does not stall.
fn remains(
    view: &View<'_>,
    compare: &Compare,
    value: &str,
    stalled: &[(&Cell, Waits)],
) -> AnswerSentence {
    let name = compare.axis.subject(value);
    let mut how: Vec<&str> = Vec::new();
    let mut left: Vec<&Finding> = Vec::new();
    for (cell, _) in stalled {
        let beside = remedied(view, cell);
        for (told, _, result) in beside
            .into_iter()
            .filter(|(_, axis, _)| *axis != compare.axis)
        {
            let here = |f: &&Finding| {
                let metric = compare.metrics.first() == Some(&f.metric);
                let of_pair = f.cell == result.id || f.baseline == result.id;
                metric && of_pair && belongs(f, compare, f.metric) && !view.stalls.touch(f)
            };
            for finding in view.findings.iter().filter(here) {
                how.push(told);
                left.push(finding);
            }
        }
    }
    let left: Vec<&Finding> = left.into_iter().unique_by(|f| &f.id).collect();
    if left.is_empty() {
        let remedy = match compare.axis {
            Axis::Nodelay | Axis::Cork | Axis::Quickack => "the other values of that axis do not",
            _ => "`--nodelay on,off` measures both",
        };
        return AnswerSentence {
            sentence: format!(
                "What {name} costs without the stall was not measured in this run: {remedy}."
            ),
            findings: Vec::new(),
        };
    }
    let verdicts = [
        Verdict::Better,
        Verdict::Worse,
        Verdict::NoDifferenceThatMatters,
        Verdict::NotDecided,
    ];
    let clauses: Vec<String> = verdicts
        .into_iter()
        .filter_map(|verdict| {
            let of: Vec<&Finding> = left
                .iter()
                .copied()
                .filter(|f| f.verdict == verdict)
                .collect();
            let first = *of.first()?;
            let clause = match verdict {
                Verdict::NoDifferenceThatMatters => "no difference that matters".to_owned(),
                Verdict::NotDecided => "not decided".to_owned(),
                _ => phrases::compared(first, &phrases::factors(&of)),
            };
            Some(if of.len() == left.len() {
                clause
            } else {
                format!("{clause} in {} of {} comparisons", of.len(), left.len())
            })
        })
        .collect();
    let how: Vec<String> = how.into_iter().unique().map(str::to_owned).collect();
    let noun = compare
        .metrics
        .first()
        .map_or_else(String::new, |m| phrases::metric(*m));
    let base = compare.axis.subject(&compare.baseline);
    let pair = if value == compare.baseline {
        format!("the others against {base}")
    } else {
        format!("{name} against {base}")
    };
    AnswerSentence {
        sentence: format!(
            "Without the stall ({}) {pair} in {noun}: {}.",
            phrases::list(&how),
            clauses.join(", ")
        ),
        findings: left.iter().map(|f| f.id.clone()).collect(),
    }
}
