//! How each of the others stands against the baseline, along the range.

use super::LONGEST;
use super::group::FindingGroup;
use crate::phrases;
use crate::result::{AnswerSentence, Finding, Verdict};
use itertools::Itertools as _;

/// One sentence for each value that is held against the baseline; none where there is but one
/// finding, which the headline told.
pub(super) fn all(group: &FindingGroup<'_>) -> Vec<AnswerSentence> {
    let names: Vec<&str> = (group.findings().map(|f| f.value.as_str()))
        .unique()
        .collect();
    if group.findings().count() < 2 {
        return Vec::new();
    }
    let alike = |verdict: Verdict| -> Vec<&str> {
        let always = |name: &str| {
            let mut own = group.findings().filter(|f| f.value == name);
            own.all(|f| f.verdict == verdict)
        };
        names.iter().copied().filter(|name| always(name)).collect()
    };
    let mut together = [Verdict::NoDifferenceThatMatters, Verdict::NotDecided].map(alike);
    together
        .iter_mut()
        .filter(|t| t.len() < 2)
        .for_each(Vec::clear);
    let alone = names
        .iter()
        .copied()
        .filter(|n| !together.iter().flatten().any(|t| t == n));
    let mut answers: Vec<AnswerSentence> = alone.filter_map(|name| sentence(group, name)).collect();
    answers.extend(together.iter().filter_map(|names| shared(group, names)));
    answers
}

/// One sentence for several that have one and the same verdict all along.
fn shared(group: &FindingGroup<'_>, names: &[&str]) -> Option<AnswerSentence> {
    let of_them = |f: &&Finding| names.contains(&f.value.as_str());
    let findings: Vec<&Finding> = group.findings().filter(of_them).collect();
    let first = *findings.first()?;
    let subjects: Vec<String> = names.iter().map(|n| first.axis.subject(n)).collect();
    let place = [group.place.clone(), group.span(0, group.xs.len() - 1)];
    let place: String = place
        .iter()
        .filter(|p| !p.is_empty())
        .map(|p| format!(" {p}"))
        .collect();
    Some(AnswerSentence {
        sentence: format!(
            "{} against {} in {}{place}: {}.",
            phrases::capital(&phrases::list(&subjects)),
            first.axis.subject(&first.baseline_value),
            phrases::metric(first.metric),
            clause(&findings)
        ),
        findings: findings.iter().map(|f| f.id.clone()).collect(),
    })
}

fn sentence(group: &FindingGroup<'_>, name: &str) -> Option<AnswerSentence> {
    let places: Vec<(usize, &Finding)> = group
        .at
        .iter()
        .enumerate()
        .filter_map(|(at, findings)| Some((at, *findings.iter().find(|f| f.value == name)?)))
        .collect();
    let (_, first) = places.first()?;
    let head = format!(
        "{} against {} in {}",
        phrases::capital(&first.axis.subject(name)),
        first.axis.subject(&first.baseline_value),
        phrases::metric(first.metric)
    );
    let place = if group.place.is_empty() {
        String::new()
    } else {
        format!(" {}", group.place)
    };
    let forms = [
        by_run(group, &places, true),
        by_run(group, &places, false),
        by_verdict(group, &places),
    ];
    let mut sentences = forms
        .iter()
        .map(|f| format!("{head}{place}: {}.", f.join(", ")));
    let fits = |s: &String| s.chars().count() <= LONGEST + 10;
    let sentence = sentences
        .clone()
        .find(fits)
        .or_else(|| sentences.next_back())?;
    Some(AnswerSentence {
        sentence,
        findings: places.iter().map(|(_, f)| f.id.clone()).collect(),
    })
}

/// Neighbours along the range with one verdict, told together; a finding by itself with its
/// interval, where that is asked for.
fn by_run(group: &FindingGroup<'_>, places: &[(usize, &Finding)], intervals: bool) -> Vec<String> {
    places
        .chunk_by(|a, b| a.1.verdict == b.1.verdict && a.0 + 1 == b.0)
        .map(|run| {
            let findings: Vec<&Finding> = run.iter().map(|(_, f)| *f).collect();
            let span = group.span(run[0].0, run[run.len() - 1].0);
            let told = format!("{} {span}", clause(&findings))
                .trim_end()
                .to_owned();
            match (findings.as_slice(), intervals) {
                ([one], true) => {
                    format!("{told} (95 % interval {})", phrases::factor(one).interval)
                }
                _ => told,
            }
        })
        .collect()
}

/// Findings of one verdict in a few words: `1.4× to 3.3× as cheap`.
fn clause(findings: &[&Finding]) -> String {
    let Some(first) = findings.first() else {
        return String::new();
    };
    match first.verdict {
        Verdict::NoDifferenceThatMatters => "no difference that matters".to_owned(),
        Verdict::NotDecided => "not decided".to_owned(),
        Verdict::Better | Verdict::Worse => phrases::compared(first, &phrases::factors(findings)),
    }
}

/// The short form for a stand that changes often: how many places for each verdict.
fn by_verdict(group: &FindingGroup<'_>, places: &[(usize, &Finding)]) -> Vec<String> {
    let verdicts = [
        Verdict::Better,
        Verdict::Worse,
        Verdict::NoDifferenceThatMatters,
        Verdict::NotDecided,
    ];
    verdicts
        .into_iter()
        .filter_map(|verdict| {
            let of: Vec<&Finding> = places
                .iter()
                .map(|(_, f)| *f)
                .filter(|f| f.verdict == verdict)
                .collect();
            let all = group.places(places.len());
            (!of.is_empty()).then(|| format!("{} at {} of {all}", clause(&of), of.len()))
        })
        .collect()
}
