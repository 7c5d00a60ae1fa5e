//! Why one way costs less than another: what its messages take less of, at what cost, and where.

use bytecost_spec::evidence::{KINDS, Means};
use bytecost_spec::units;
use itertools::Itertools as _;

use super::{Answers, CUT_SHORT, Explained, MOST_ROWS, Question, View};
use crate::causes::{greatest, is_worth_a_reason};
use crate::phrases;
use crate::result::{Cause, CauseMeans, CellTime, Finding, FindingCauses, TimePer, Uncertain};

/// Ends of a share's interval from here on say nothing.
const MOST_HIGH: f64 = 1.5;

pub(super) const QUESTION: Question = Question {
    key: "why-one-way-wins",
    text: "Why is one way better than another?",
    asks: |_| true,
    answers: Answers::Own(ask),
    would_change: "another size or transport; a path on which the kernel copies less, or more (--transport wire)",
};

fn ask(view: &View<'_>) -> Option<Explained> {
    let causes = |f: &Finding| view.known.causes.iter().find(|c| c.finding == f.id);
    let has_causes = |f: &&Finding| is_worth_a_reason(f, &view.stalls) && causes(f).is_some();
    let is_counted = |f: &Finding| causes(f).is_some_and(|c| c.by != CauseMeans::TimedTrials);
    let findings = greatest(view.known.findings.iter().filter(has_causes), is_counted);
    let sentence = |f: &Finding| {
        let sentence = causes(f).map(|c| sentence(view, f, c));
        sentence.unwrap_or_default() + "."
    };
    let answer = match findings.first() {
        Some(first) => Ok(sentence(first)),
        None => {
            let is_counted = |m: &Means| view.asked(*m).is_some_and(|a| !a.unasked);
            let mut means = [Means::Copies, Means::Counts].into_iter();
            let means = means.find(is_counted)?;
            let refused = view.asked(means).and_then(|a| a.refused.as_deref());
            let why = refused.unwrap_or("no two counted cells are decided to differ");
            Err(why.to_owned())
        }
    };
    let shown = findings.iter().take(1 + MOST_ROWS);
    Some(Explained {
        numbers: shown.clone().skip(1).map(|f| sentence(f)).collect(),
        findings: shown.map(|f| f.id.clone()).collect(),
        ..Explained::of(answer)
    })
}

/// `` `send-fields` has 12.3× (12.1 to 12.5) the CPU time per byte of `send` at 256 B: 8.08 system
/// calls a message instead of 1.04 explain 51 % of the difference (45 to 57)``
fn sentence(view: &View<'_>, finding: &Finding, found: &FindingCauses) -> String {
    let unit = view.trials.unit;
    let cell = view.known.result(&finding.cell);
    let whose = match cell.is_some_and(|c| c.cell.is_served()) {
        true => "of the server for each request".to_owned(),
        false => unit.in_words("a message"),
    };
    let told = found.causes.iter().map(|c| cause(c, &whose)).collect_vec();
    let has_costs = found.causes.iter().any(|c| c.cost_ns.is_some());
    let by_samples = match found.by {
        CauseMeans::Samples => "by CPU samples, ",
        CauseMeans::Counts | CauseMeans::TimedTrials => "",
    };
    let reason = match (&found.explained, told.as_slice()) {
        (_, []) => match found.by {
            CauseMeans::Samples => "its CPU samples are of no kind that stands out".to_owned(),
            CauseMeans::Counts => "the counts do not explain it".to_owned(),
            CauseMeans::TimedTrials => "the counts of timed trials do not explain it".to_owned(),
        },
        (Some(_), [one]) => one.replacen(" %", " % of the difference", 1),
        (Some(all), _) => {
            let told = told.join(", ").replacen(" %", " % of the difference", 1);
            format!("{told}; together {}", share(all))
        }
        (None, _) if has_costs => format!(
            "{}; these cost more than the whole difference, so that no share is given",
            phrases::list(told)
        ),
        (None, _) => phrases::list(told),
    };
    let both = [&finding.value, &finding.baseline_value];
    let [way, base] = both.map(|value| finding.axis.subject(value));
    let (noun, place) = (view.words(finding.metric), view.place(finding));
    let amount = match (&finding.amount_withheld, finding.ratio < 1.0) {
        (Some(_), true) => format!("less {noun} than {base}"),
        (Some(_), false) => format!("more {noun} than {base}"),
        (None, _) => {
            let ratio = phrases::ratio(finding.ratio, finding.low, finding.high);
            format!("{ratio} the {noun} of {base}")
        }
    };
    format!("{way} has {amount}{place}: {by_samples}{reason}")
}

/// `8.08 system calls a message instead of 1.04 explain 51 % (45 to 57)`; what the dearer way has
/// less of saves.
fn cause(cause: &Cause, whose: &str) -> String {
    let what = phrases::cause(cause.of, [cause.from, cause.to], whose);
    match cause.share {
        Some(part) if part.value < 0.0 => {
            let saved = Uncertain {
                value: -part.value,
                low: -part.high,
                high: -part.low,
            };
            format!("{what} save {}", share(&saved))
        }
        Some(part) => format!("{what} explain {}", share(&part)),
        None => what,
    }
}

/// `51 % (45 to 57)`; `27 % or more`, by the lower end, where the upper one says nothing.
fn share(share: &Uncertain) -> String {
    let ends = [share.value, share.low, share.high];
    let [value, low, high] = ends.map(|v| (100.0 * v).round());
    match share.high > MOST_HIGH {
        true => format!("{low} % or more"),
        false => format!("{value} % ({low} to {high})"),
    }
}

/// How many standard errors apart two counts are to be, to be told as different.
const APART: f64 = 1.96;
/// Kinds that a difference is told in.
const MOST_KINDS: usize = 4;

struct Pair<'v> {
    finding: &'v Finding,
    baseline: &'v CellTime,
    other: &'v CellTime,
}

pub(super) const BY_KIND: Question = Question {
    key: "cpu-time-by-kind",
    text: "Where does the CPU time go, and what does one way save compared with another?",
    asks: |view| view.asked(Means::Time).is_some(),
    answers: Answers::Own(by_kind),
    would_change: "another size or transport; a kernel with other mitigations of its CPU's flaws, which make every entry and every indirect call more expensive",
};

fn by_kind(view: &View<'_>) -> Option<Explained> {
    if let Some(refused) = &view.asked(Means::Time)?.refused {
        return Some(Explained::of(Err(refused.as_str().into())));
    }
    let pairs = pairs(view);
    let was_watched = view.input.evidence.iter().any(|e| e.time.is_some());
    let answer = match (pairs.first(), view.known.cpu_time.is_empty()) {
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

fn pairs<'v>(view: &'v View<'v>) -> Vec<Pair<'v>> {
    let is_told = |f: &&Finding| is_worth_a_reason(f, &view.stalls) && pair(view, f).is_some();
    let told = greatest(view.known.findings.iter().filter(is_told), |_| true).into_iter();
    told.filter_map(|f| pair(view, f)).collect()
}

fn pair<'f>(view: &'f View<'f>, finding: &'f Finding) -> Option<Pair<'f>> {
    let watched = |id: &str| view.known.cpu_time.iter().find(|c| c.cell == id);
    Some(Pair {
        finding,
        baseline: watched(&finding.baseline)?,
        other: watched(&finding.cell)?,
    })
}

impl Pair<'_> {
    /// `data copy −102 (110 to 8)`, for each kind in which the samples differ by more than their
    /// number explains, greatest first; none where none does.
    fn kinds(&self) -> Option<String> {
        let differing = KINDS.iter().filter_map(|row| {
            let ns = self.other.of_kind(row.kind) - self.baseline.of_kind(row.kind);
            let spread = self.other.variance(row.kind) + self.baseline.variance(row.kind);
            (ns.abs() > APART * spread.sqrt()).then_some((row, ns))
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
    let kinds = pair.kinds();
    let kinds = kinds.unwrap_or_else(|| "its samples differ in no kind of work".to_owned());
    format!("{way} takes {own} ns of CPU time {per}{place}, {base} {other}: {kinds}")
}

fn evidence(view: &View<'_>) -> Vec<String> {
    let shares: [fn(&CellTime) -> f64; 4] =
        [|c| c.unattributed, |c| c.moved, |c| c.rest, |c| c.lost];
    let most =
        |share: fn(&CellTime) -> f64| view.known.cpu_time.iter().map(share).fold(0.0, f64::max);
    let [unknown, moved, rest, lost] = shares.map(|share| phrases::percent(most(share)));
    let samples: u64 = view.known.cpu_time.iter().map(|c| c.looks).sum();
    let cells = phrases::count(view.known.cpu_time.len(), "cell");
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
