//! Where the CPU time goes, and what one way saves against another.

use bytecost_spec::evidence::{KINDS, Means};
use bytecost_spec::units;
use itertools::Itertools as _;

use super::{Answers, CUT_SHORT, Explained, MOST_ROWS, Question, View};
use crate::causes::{greatest, is_worth_a_reason};
use crate::phrases;
use crate::result::{CellTime, Finding, TimePer, Verdict};

/// How many standard errors apart two counts are to be, to be told as different.
const APART: f64 = 1.96;
/// Kinds that a difference is told in.
const MOST_KINDS: usize = 4;

struct Pair<'v> {
    finding: &'v Finding,
    baseline: &'v CellTime,
    other: &'v CellTime,
}

pub(super) const QUESTION: Question = Question {
    key: "cpu-time-by-kind",
    text: "Where does the CPU time go, and what does one way save compared with another?",
    asks: |view| view.asked(Means::Time).is_some(),
    answers: Answers::Own(ask),
    would_change: "another size or transport; a kernel with other mitigations of its CPU's flaws, which make every entry and every indirect call more expensive",
};

fn ask(view: &View<'_>) -> Option<Explained> {
    if let Some(refused) = &view.asked(Means::Time)?.refused {
        return Some(Explained::of(Err(refused.as_str().into())));
    }
    let pairs = pairs(view);
    let was_watched = view.input.evidence.iter().any(|e| e.time.is_some());
    let answer = match (pairs.first(), view.cpu_time.is_empty()) {
        (Some(first), _) => {
            let of = match first.other.per {
                TimePer::Kib => "on both sides together",
                TimePer::Request => "on the server's side",
            };
            Ok(format!("{of}, {}.", row(view, first)))
        }
        (None, true) if was_watched => {
            Err("of no watched cell both bytes and work of its sides were seen".into())
        }
        (None, true) => Err(CUT_SHORT.into()),
        (None, false) => Err("no two watched cells are decided to differ".into()),
    };
    let shown = || pairs.iter().take(MOST_ROWS);
    Some(Explained {
        numbers: shown().map(|p| row(view, p)).collect(),
        evidence: evidence(view),
        findings: shown().map(|p| p.finding.id.clone()).collect(),
        ..Explained::of(answer)
    })
}

fn pairs<'v>(view: &View<'v>) -> Vec<Pair<'v>> {
    let is_told = |f: &&Finding| is_worth_a_reason(f, view.stalls) && pair(view, f).is_some();
    let told = greatest(view.findings.iter().filter(is_told), |_| true).into_iter();
    told.filter_map(|f| pair(view, f)).collect()
}

fn pair<'f>(view: &View<'f>, finding: &'f Finding) -> Option<Pair<'f>> {
    let watched = |id: &str| view.cpu_time.iter().find(|c| c.cell == id);
    Some(Pair {
        finding,
        baseline: watched(&finding.baseline)?,
        other: watched(&finding.cell)?,
    })
}

/// The kinds of work in which the costlier cell of a finding has more, where both were watched:
/// `of the CPU time for each KiB, in ns: …`; none where there is no such kind.
pub(super) fn between<'v>(view: &View<'v>, finding: &'v Finding) -> Option<String> {
    let pair = pair(view, finding)?;
    let whose = match pair.other.per {
        TimePer::Kib => "of the CPU time",
        TimePer::Request => "of the server's CPU time",
    };
    let costs_more = finding.verdict == Verdict::Worse;
    let kinds = pair.kinds(|ns| (ns > 0.0) == costs_more)?;
    Some(format!(
        "{whose} {}, in ns: {kinds}",
        pair.other.per.words()
    ))
}

impl Pair<'_> {
    /// `data copy −102 (110 to 8)`, for each kind in which the samples differ by more than their
    /// number explains and that fits, greatest first; none where none does.
    fn kinds(&self, fits: impl Fn(f64) -> bool) -> Option<String> {
        let differing = KINDS.iter().filter_map(|row| {
            let ns = self.other.of_kind(row.kind) - self.baseline.of_kind(row.kind);
            let spread = self.other.variance(row.kind) + self.baseline.variance(row.kind);
            (ns.abs() > APART * spread.sqrt() && fits(ns)).then_some((row, ns))
        });
        let differing = differing.sorted_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
        let told = differing.take(MOST_KINDS).map(|(row, ns)| {
            let sign = if ns < 0.0 { "−" } else { "+" };
            let both = [self.baseline, self.other].map(|c| units::number(c.of_kind(row.kind)));
            let ([from, to], ns) = (both, units::number(ns.abs()));
            format!("{} {sign}{ns} ({from} to {to})", row.title)
        });
        Some(phrases::list(told)).filter(|told| !told.is_empty())
    }
}

fn row(view: &View<'_>, pair: &Pair<'_>) -> String {
    let f = pair.finding;
    let [way, base] = [&f.value, &f.baseline_value].map(|value| f.axis.subject(value));
    let [own, other] = [pair.other, pair.baseline].map(|c| units::number(c.total()));
    let (per, place) = (pair.other.per.words(), view.place(f));
    let kinds = pair.kinds(|_| true);
    let kinds = kinds.unwrap_or_else(|| "its samples differ in no kind of work".to_owned());
    format!("{way} takes {own} ns of CPU time {per}{place}, {base} {other}: {kinds}")
}

/// How far the samples can be trusted; the figures show what else ran.
fn evidence(view: &View<'_>) -> Vec<String> {
    let shares: [fn(&CellTime) -> f64; 4] =
        [|c| c.unattributed, |c| c.moved, |c| c.rest, |c| c.lost];
    let most = |share: fn(&CellTime) -> f64| view.cpu_time.iter().map(share).fold(0.0, f64::max);
    let [unknown, moved, rest, lost] = shares.map(|share| phrases::percent(most(share)));
    let samples: u64 = view.cpu_time.iter().map(|c| c.looks).sum();
    let cells = phrases::count(view.cpu_time.len(), "cell");
    if samples == 0 {
        return Vec::new();
    }
    vec![
        format!(
            "{samples} CPU-clock samples in one trial of each of {cells}; at most {unknown} of a cell's are of functions that the map does not know"
        ),
        format!(
            "at most {moved} of a cell's samples landed where interrupts are switched on again, or in a function that serves all, and were given to their callers; what runs with interrupts off is not seen otherwise"
        ),
        format!(
            "at most {rest} of the busy samples of a cell were not attributed to either side, and {lost} were dropped"
        ),
    ]
}
