//! Where the CPU time goes, and what one way saves against another.

use std::collections::BTreeMap;

use bytecost_spec::evidence::{KINDS, Kind, Means, Party};
use bytecost_spec::units;

use super::{Answers, CUT_SHORT, Explained, MOST_ROWS, Question, Why};
use crate::causes::{greatest, is_worth_a_reason, place};
use crate::phrases;
use crate::result::{CellTime, Finding, TimePer};

/// How many standard errors apart two counts are to be, to be told as different.
const APART: f64 = 1.96;
/// Kinds that a difference is told in.
const MOST_KINDS: usize = 4;

/// Two watched cells that a finding compares.
struct Pair<'v> {
    finding: &'v Finding,
    baseline: &'v CellTime,
    other: &'v CellTime,
}

/// A kind in which two cells differ by more than chance, in ns for each of what is told.
struct Difference {
    kind: Kind,
    ns: f64,
}

pub(super) const QUESTION: Question = Question {
    key: "cpu-time-by-kind",
    text: "Where does the CPU time go, and what does one way save compared with another?",
    asks: |why| why.asked(Means::Time).is_some(),
    answers: Answers::Own(ask),
    would_change: "another size or transport; a kernel with other mitigations of its CPU's flaws, which make every entry and every indirect call more expensive",
};

fn ask(why: &Why<'_>) -> Option<Explained> {
    if let Some(refused) = &why.asked(Means::Time)?.refused {
        return Some(Explained::of(Err(refused.as_str().into())));
    }
    let pairs = pairs(why);
    let was_watched = why.view.input.evidence.iter().any(|e| e.time.is_some());
    let answer = match (pairs.first(), why.view.cpu_time.is_empty()) {
        (Some(first), _) => Ok(sentence(why, first)),
        (None, true) if was_watched => {
            Err("of no watched cell both bytes and work of its sides were seen".into())
        }
        (None, true) => Err(CUT_SHORT.into()),
        (None, false) => Err("no two watched cells are decided to differ".into()),
    };
    let shown = || pairs.iter().take(MOST_ROWS);
    Some(Explained {
        answer,
        numbers: shown().map(|p| row(why, p)).collect(),
        evidence: evidence(why),
        findings: shown().map(|p| p.finding.id.clone()).collect(),
    })
}

/// The comparisons that are told, of which both cells were watched.
fn pairs<'v>(why: &Why<'v>) -> Vec<Pair<'v>> {
    let is_told = |f: &&Finding| is_worth_a_reason(f, why.view.stalls) && pair(why, f).is_some();
    let told = greatest(why.view.findings.iter().filter(is_told), |_| true).into_iter();
    told.filter_map(|f| pair(why, f)).collect()
}

fn pair<'f>(why: &Why<'f>, finding: &'f Finding) -> Option<Pair<'f>> {
    let watched = |id: &str| why.view.cpu_time.iter().find(|c| c.cell == id);
    Some(Pair {
        finding,
        baseline: watched(&finding.baseline)?,
        other: watched(&finding.cell)?,
    })
}

/// What differs by kind of work between the cells of a finding, where both were watched: `of the
/// CPU time for each KiB, in ns: …`.
pub(super) fn between<'v>(why: &Why<'v>, finding: &'v Finding) -> Option<String> {
    let pair = pair(why, finding)?;
    let whose = match pair.other.per {
        TimePer::Kib => "of the CPU time",
        TimePer::Request => "of the server's CPU time",
    };
    Some(format!(
        "{whose} {}, in ns: {}",
        pair.other.per.words(),
        pair.told()
    ))
}

impl Pair<'_> {
    /// What differs by more than chance, greatest first.
    fn differences(&self) -> Vec<Difference> {
        let mut all: Vec<Difference> = KINDS
            .iter()
            .filter_map(|row| {
                let ns = self.other.of_kind(row.kind) - self.baseline.of_kind(row.kind);
                let spread = self.other.variance(row.kind) + self.baseline.variance(row.kind);
                (ns.abs() > APART * spread.sqrt()).then_some(Difference { kind: row.kind, ns })
            })
            .collect();
        all.sort_by(|a, b| b.ns.abs().total_cmp(&a.ns.abs()));
        all.truncate(MOST_KINDS);
        all
    }

    /// `data copy −102 (110 to 8)`, for each kind that differs.
    fn told(&self) -> String {
        let told: Vec<String> = self
            .differences()
            .iter()
            .map(|d| {
                let sign = if d.ns < 0.0 { "−" } else { "+" };
                format!(
                    "{} {sign}{} ({} to {})",
                    d.kind.row().title,
                    units::number(d.ns.abs()),
                    units::number(self.baseline.of_kind(d.kind)),
                    units::number(self.other.of_kind(d.kind)),
                )
            })
            .collect();
        if told.is_empty() {
            "no kind of work differs by more than chance".to_owned()
        } else {
            phrases::list(&told)
        }
    }
}

fn sentence(why: &Why<'_>, pair: &Pair<'_>) -> String {
    let of = match pair.other.per {
        TimePer::Kib => "on both sides together",
        TimePer::Request => "on the server's side",
    };
    format!("{of}, {}.", row(why, pair))
}

fn row(why: &Why<'_>, pair: &Pair<'_>) -> String {
    let finding = pair.finding;
    format!(
        "{} takes {} ns of CPU time {}{}, {} {}: {}",
        finding.axis.subject(&finding.value),
        units::number(pair.other.total()),
        pair.other.per.words(),
        place(why.view, finding, why.varied),
        finding.axis.subject(&finding.baseline_value),
        units::number(pair.baseline.total()),
        pair.told(),
    )
}

/// How far the looks can be trusted.
fn evidence(why: &Why<'_>) -> Vec<String> {
    let cells = why.view.cpu_time;
    let most = |share: fn(&CellTime) -> f64| {
        let shares = cells.iter().map(share);
        phrases::percent(shares.fold(0.0, f64::max))
    };
    let looks: u64 = cells.iter().map(|c| c.looks).sum();
    if looks == 0 {
        return Vec::new();
    }
    vec![
        format!(
            "{looks} CPU-clock samples in {}; at most {} of a cell's are of functions that the map does not know{}",
            phrases::count(cells.len(), "cell"),
            most(|c| c.unattributed),
            unknown(why)
        ),
        format!(
            "at most {} of a cell's samples landed where interrupts are switched on again, or in a function that serves all, and were given to their callers; what runs with interrupts off is not seen otherwise",
            most(|c| c.moved)
        ),
        format!(
            "at most {} of the busy samples of a cell were not attributed to either side, and {} were dropped{}",
            most(|c| c.rest),
            most(|c| c.lost),
            of_rest(cells)
        ),
    ]
}

/// The functions that the map does not know, of both sides of all cells, those with most samples.
fn unknown(why: &Why<'_>) -> String {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    let watched = why
        .view
        .input
        .evidence
        .iter()
        .filter_map(|e| e.time.as_ref());
    for look in watched.flat_map(|time| &time.looks) {
        let is_named = look.party != Party::Rest && !look.function.is_empty();
        if look.kind == Kind::Unattributed && is_named {
            *counts.entry(&look.function).or_default() += look.count;
        }
    }
    let named = |(name, _): (&str, u64)| format!("`{name}`");
    most(counts.into_iter().collect(), named)
        .map_or_else(String::new, |names| format!(" (most of them {names})"))
}

/// What else ran did, over all cells: the kinds with most samples.
fn of_rest(cells: &[CellTime]) -> String {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    let kinds = cells.iter().flat_map(|c| &c.kinds);
    for kind in kinds.filter(|k| k.party == Party::Rest && k.looks > 0) {
        *counts.entry(kind.kind.row().title).or_default() += kind.looks;
    }
    let all: u64 = counts.values().sum();
    let share =
        |(title, n): (&str, u64)| format!("{title} {}", phrases::percent(n as f64 / all as f64));
    most(counts.into_iter().collect(), share).map_or_else(String::new, |shares| {
        format!("; what else ran did {shares}")
    })
}

/// Those that come most often, in words; none where there are none.
fn most(mut counts: Vec<(&str, u64)>, words: impl Fn((&str, u64)) -> String) -> Option<String> {
    counts.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    let words: Vec<String> = counts.into_iter().take(MOST_KINDS).map(words).collect();
    (!words.is_empty()).then(|| phrases::list(&words))
}
