//! What is best, and from where on.

use std::collections::BTreeSet;

use super::group::FindingGroup;
use super::{Clause, joined};
use crate::phrases;
use crate::result::{AnswerSentence, Finding, Verdict};

/// A stretch of the range with one winner, or none.
struct Run<'v> {
    first: usize,
    last: usize,
    /// The winner's finding at each place of the stretch; empty where nothing is better.
    winner: Vec<&'v Finding>,
    /// Others whose interval touches the best one's all along.
    level: Vec<String>,
}

/// Sentences on what is best in a group, and on what does about as well; none for an empty one.
pub(super) fn sentences(group: &FindingGroup<'_>) -> Vec<AnswerSentence> {
    let mut answers = headline(group);
    answers.extend(level(group, &runs(group)));
    answers
}

/// What is best in a group alone.
pub(super) fn headline(group: &FindingGroup<'_>) -> Vec<AnswerSentence> {
    let runs = runs(group);
    if runs.is_empty() {
        return Vec::new();
    }
    if runs.iter().all(|r| r.winner.is_empty()) {
        return vec![nothing_better(group)];
    }
    let clauses = runs.iter().map(|run| clause(group, run)).collect();
    joined(clauses, &group.place)
}

/// Those at one place that are better and cannot be told from the best: their intervals touch.
fn winners<'v>(findings: &[&'v Finding]) -> Vec<&'v Finding> {
    let better = || {
        findings
            .iter()
            .copied()
            .filter(|f| f.verdict == Verdict::Better)
    };
    let gain = |f: &Finding| f.ratio.ln().abs();
    let Some(best) = better().max_by(|a, b| gain(a).total_cmp(&gain(b))) else {
        return Vec::new();
    };
    better()
        .filter(|f| f.low <= best.high && best.low <= f.high)
        .collect()
}

/// Cuts the range into stretches: as long as some mover is among the winners all along.
fn runs<'v>(group: &FindingGroup<'v>) -> Vec<Run<'v>> {
    let winners: Vec<Vec<&Finding>> = group.at.iter().map(|at| winners(at)).collect();
    let names =
        |at: usize| -> BTreeSet<&'v str> { winners[at].iter().map(|f| f.value.as_str()).collect() };
    let mut runs = Vec::new();
    let mut first = 0;
    while first < winners.len() {
        let mut common = names(first);
        let mut last = first;
        while last + 1 < winners.len() {
            let next = names(last + 1);
            let still: BTreeSet<&str> = common.intersection(&next).copied().collect();
            let both_empty = common.is_empty() && next.is_empty();
            if !both_empty && still.is_empty() {
                break;
            }
            common = still;
            last += 1;
        }
        runs.push(run(&winners, first, last, &common));
        first = last + 1;
    }
    runs
}

fn run<'v>(
    winners: &[Vec<&'v Finding>],
    first: usize,
    last: usize,
    common: &BTreeSet<&str>,
) -> Run<'v> {
    let of = |name: &str| -> Vec<&'v Finding> {
        winners[first..=last]
            .iter()
            .filter_map(|at| at.iter().copied().find(|f| f.value == name))
            .collect()
    };
    let gain = |name: &str| of(name).iter().map(|f| f.ratio.ln().abs()).sum::<f64>();
    let best = common
        .iter()
        .copied()
        .max_by(|a, b| gain(a).total_cmp(&gain(b)));
    Run {
        first,
        last,
        winner: best.map_or_else(Vec::new, of),
        level: common
            .iter()
            .filter(|name| Some(**name) != best)
            .map(|name| (*name).to_owned())
            .collect(),
    }
}

fn clause(group: &FindingGroup<'_>, run: &Run<'_>) -> Clause {
    let span = group.span(run.first, run.last);
    let span = if span.is_empty() {
        span
    } else {
        format!("{span} ")
    };
    let Some(start) = run.winner.first() else {
        return nothing_there(group, run, &span);
    };
    let told = phrases::factor(start);
    let times = format!("{}×", told.value);
    let mut figures = format!(" (95 % interval {})", told.interval);
    // What differs most further along, stronger or weaker, if it is surely another than the first.
    let apart = |f: &Finding| f.low > start.high || f.high < start.low;
    let distance = |f: &Finding| (f.ratio / start.ratio).ln().abs();
    let most = run
        .winner
        .iter()
        .enumerate()
        .filter(|(_, f)| apart(f))
        .max_by(|a, b| distance(a.1).total_cmp(&distance(b.1)));
    if let (Some((at, most)), Some(axis)) = (most, group.range) {
        let there = axis.circumstance(&group.xs[run.first + at]);
        let value = phrases::factor(most).value;
        figures.push_str(&format!(" and {there} {value}×"));
    }
    let name = start.axis.subject(&start.value);
    Clause {
        begins: format!(
            "{span}{name} {}{figures}",
            phrases::predicate(start, &times)
        ),
        goes_on: format!(
            "{span}{name} {}{figures}",
            phrases::short_predicate(start, &times)
        ),
        findings: run.winner.iter().map(|f| f.id.clone()).collect(),
    }
}

/// What can be said where nothing is better: more, where everything there is decided.
fn nothing_there(group: &FindingGroup<'_>, run: &Run<'_>, span: &str) -> Clause {
    let there = || group.at[run.first..=run.last].iter().flatten();
    let open = there().any(|f| f.verdict == Verdict::NotDecided);
    let verb = if open { "was shown to beat" } else { "beats" };
    let (base, noun) = there().next().map_or_else(Default::default, |f| {
        (f.axis.subject(&f.baseline_value), phrases::metric(f.metric))
    });
    Clause {
        begins: format!("{span}nothing {verb} {base} in {noun}"),
        goes_on: format!("{span}nothing {verb} {base}"),
        findings: there().map(|f| f.id.clone()).collect(),
    }
}

fn nothing_better(group: &FindingGroup<'_>) -> AnswerSentence {
    let whole = Run {
        first: 0,
        last: group.xs.len() - 1,
        winner: Vec::new(),
        level: Vec::new(),
    };
    let clause = nothing_there(group, &whole, "");
    let open = group
        .findings()
        .filter(|f| f.verdict == Verdict::NotDecided)
        .count();
    let span = group.span(whole.first, whole.last);
    let span = match span.as_str() {
        "" => span,
        "at every size" => " at any size".to_owned(),
        other => format!(" {other}"),
    };
    let open = if open == 0 {
        String::new()
    } else {
        let verb = if open == 1 { "is" } else { "are" };
        let n = phrases::count(group.findings().count(), "comparison");
        format!("; {open} of {n} {verb} not decided")
    };
    let place = if group.place.is_empty() {
        phrases::capital(&clause.begins)
    } else {
        format!("{}: {}", phrases::capital(&group.place), clause.begins)
    };
    AnswerSentence {
        sentence: format!("{place}{span}{open}."),
        findings: clause.findings,
    }
}

/// One sentence for each stretch in which others do about as well as the winner.
fn level(group: &FindingGroup<'_>, runs: &[Run<'_>]) -> Vec<AnswerSentence> {
    let mut answers = Vec::new();
    for run in runs {
        let (Some(winner), false) = (run.winner.first(), run.level.is_empty()) else {
            continue;
        };
        let others: Vec<String> = run.level.iter().map(|v| winner.axis.subject(v)).collect();
        let verb = if others.len() == 1 { "does" } else { "do" };
        let span = group.span(run.first, run.last);
        let place = [group.place.as_str(), span.as_str()]
            .into_iter()
            .filter(|p| !p.is_empty())
            .map(|p| format!(" {p}"))
            .collect::<Vec<_>>()
            .join(",");
        let of_others = |f: &&Finding| run.level.contains(&f.value);
        let there = group.at[run.first..=run.last].iter().flatten().copied();
        answers.push(AnswerSentence {
            sentence: format!(
                "{} {verb} about as well as {}{place}: their intervals overlap.",
                phrases::capital(&phrases::list(&others)),
                winner.axis.subject(&winner.value)
            ),
            findings: there.filter(of_others).map(|f| f.id.clone()).collect(),
        });
    }
    answers
}
