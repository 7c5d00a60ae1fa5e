//! Where the CPU time goes, and what one way saves against another.

use std::collections::BTreeMap;

use bytecost_spec::evidence::{KINDS, Kind, Means, Party};
use bytecost_spec::units;

use super::causes::place;
use super::{Explained, MOST_ROWS, Why};
use crate::causes::{greatest, is_worth_a_reason};
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

pub(super) fn ask(why: &Why<'_>) -> Option<Explained> {
    let mut asked = why.view.input.manifest.evidence.iter();
    let asked = asked.find(|a| a.means == Means::Time)?;
    let told = |answer, numbers, findings| Explained {
        answer,
        numbers,
        evidence: evidence(why),
        would_change: "another size or transport; a kernel with other mitigations of its CPU's flaws, which make every entry and every indirect call dearer",
        findings,
    };
    if let Some(refused) = &asked.refused {
        return Some(told(Err(refused.clone()), Vec::new(), Vec::new()));
    }
    let pairs = pairs(why);
    let Some(first) = pairs.first() else {
        let was_watched = why.view.input.evidence.iter().any(|e| e.time.is_some());
        let missing = if why.view.cpu_time.is_empty() && was_watched {
            "of no watched cell both bytes and work of its sides were seen"
        } else if why.view.cpu_time.is_empty() {
            "no cell was watched to its end: go on with --resume"
        } else {
            "no two watched cells differ by more than the blocks leave open"
        };
        return Some(told(Err(missing.to_owned()), Vec::new(), Vec::new()));
    };
    let numbers = pairs.iter().take(MOST_ROWS).map(|p| row(why, p)).collect();
    let findings = pairs.iter().take(MOST_ROWS).map(|p| p.finding.id.clone());
    Some(told(Ok(sentence(why, first)), numbers, findings.collect()))
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
    let finding = pair.finding;
    let place = place(why, finding);
    let of = match pair.other.per {
        TimePer::Kib => "on both sides together",
        TimePer::Request => "on the server's side",
    };
    format!(
        "{} takes {} ns of CPU time {} {of}{place}, {} {}: {}.",
        finding.axis.subject(&finding.value),
        units::number(pair.other.total()),
        pair.other.per.words(),
        finding.axis.subject(&finding.baseline_value),
        units::number(pair.baseline.total()),
        pair.told(),
    )
}

fn row(why: &Why<'_>, pair: &Pair<'_>) -> String {
    format!(
        "{} against {}{}, {} against {} ns {}: {}",
        pair.finding.axis.subject(&pair.finding.value),
        pair.finding.axis.subject(&pair.finding.baseline_value),
        place(why, pair.finding),
        units::number(pair.other.total()),
        units::number(pair.baseline.total()),
        pair.other.per.words(),
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
            "{looks} looks at the CPUs' clock in {}; at most {} of a cell's are of functions that the map does not know{}",
            phrases::count(cells.len(), "cell"),
            most(|c| c.unattributed),
            unknown(why)
        ),
        format!(
            "at most {} of a cell's looks landed where interrupts are switched on again, or in a function that serves all, and were given to their callers; what runs with interrupts off is not seen otherwise",
            most(|c| c.moved)
        ),
        format!(
            "at most {} of the busy looks of a cell found neither side, and {} were lost{}",
            most(|c| c.rest),
            most(|c| c.lost),
            of_rest(cells)
        ),
    ]
}

/// The functions that the map does not know, of both sides of all cells, those with most looks.
fn unknown(why: &Why<'_>) -> String {
    let mut looks: BTreeMap<&str, u64> = BTreeMap::new();
    let watched = why
        .view
        .input
        .evidence
        .iter()
        .filter_map(|e| e.time.as_ref());
    for look in watched.flat_map(|time| &time.looks) {
        let is_named = look.party != Party::Rest && !look.function.is_empty();
        if look.kind == Kind::Unattributed && is_named {
            *looks.entry(&look.function).or_default() += look.count;
        }
    }
    let mut names: Vec<(&str, u64)> = looks.into_iter().collect();
    names.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let names = names
        .iter()
        .take(MOST_KINDS)
        .map(|(name, _)| format!("`{name}`"));
    let names: Vec<String> = names.collect();
    match names.is_empty() {
        true => String::new(),
        false => format!(" (most of them {})", phrases::list(&names)),
    }
}

/// What else ran did, over all cells: the kinds with most looks.
fn of_rest(cells: &[CellTime]) -> String {
    let rest = || {
        let all = cells.iter().flat_map(|c| &c.kinds);
        all.filter(|k| k.party == Party::Rest)
    };
    let looks = |kind: Kind| -> u64 { rest().filter(|k| k.kind == kind).map(|k| k.looks).sum() };
    let all: u64 = rest().map(|k| k.looks).sum();
    let mut kinds: Vec<(u64, &str)> = KINDS.iter().map(|r| (looks(r.kind), r.title)).collect();
    kinds.retain(|(n, _)| *n > 0);
    kinds.sort_by_key(|(n, _)| std::cmp::Reverse(*n));
    let told = kinds.iter().take(MOST_KINDS).map(|(n, title)| {
        let share = phrases::percent(*n as f64 / all as f64);
        format!("{title} {share}")
    });
    let told: Vec<String> = told.collect();
    match told.is_empty() {
        true => String::new(),
        false => format!("; what else ran did {}", phrases::list(&told)),
    }
}
