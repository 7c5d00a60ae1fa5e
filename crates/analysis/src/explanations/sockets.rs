//! Ways to send over a socket: one call or several, with a copy or without.

use bytecost_spec::{Axis, Measure, Metric};

use super::asked::{MeasuredWay, NONE, PairQuery, Versus, is_decided};
use super::{Answered, Answers, Explained, Question};
use crate::caveats::zero_copy::{copied, is_no_zero_copy};
use crate::result::Verdict;

pub(super) const QUESTIONS: &[Question] = &[
    Question {
        key: "zero-copy-not-fastest",
        text: "Why is zero-copy not always fastest?",
        asks: sends_without_a_copy,
        answers: Answers::Own(not_fastest),
        would_change: "a path on which the kernel does not copy after all (one that leaves this machine, or --transport wire), larger messages, or several buffers in flight for each completion",
    },
    Question {
        key: "zero-copy-against-copying",
        text: "From what message size does zero-copy beat copying?",
        asks: sends_without_a_copy,
        answers: Answers::Own(from_what_size),
        would_change: "a path on which the kernel does not copy after all (one that leaves this machine, or --transport wire), sizes beyond the range, or payload from memory that is in no cache (--ring)",
    },
    Question {
        key: "one-call-against-several",
        text: "From what message size does one call beat one call for each field, and up to which?",
        asks: |run| run.plans(|w| w.uses_fields() && w.copies()),
        answers: Answers::Pairs(ONE_CALL, NONE),
        would_change: "other --fields, sizes beyond the range, or the other --pattern (streaming, or waiting for answers)",
    },
];

/// Whether the run is about ways to send that differ in copies or calls.
pub(super) fn is_about_sockets(run: &Explained<'_>) -> bool {
    run.plans(|w| w.is_zero_copy() || w.uses_fields() && w.copies())
}

pub(super) fn sends_without_a_copy(run: &Explained<'_>) -> bool {
    run.plans(|w| w.is_zero_copy())
}

pub(super) const ZERO_COPY: PairQuery = PairQuery {
    axes: &[Axis::Mover],
    pairs: |baseline, other| {
        let alike = |w: MeasuredWay<'_>| (w.in_flight(), w.uses_fields());
        let near = alike(baseline) == alike(other) || !baseline.uses_fields();
        other.is_zero_copy() && baseline.copies() && !baseline.calls_often() && near
    },
    metrics: |run| vec![run.metrics()],
    along: &[Axis::Size],
    together: false,
    needs: "no way without a copy was measured next to one that copies by as many calls",
};

const ONE_CALL: PairQuery = PairQuery {
    axes: &[Axis::Mover],
    pairs: |several, one| {
        several.uses_fields()
            && several.calls_often()
            && [several, one].iter().all(MeasuredWay::copies)
            && !one.calls_often()
    },
    needs: "no way with one call per message was measured next to one with a call for each field",
    ..ZERO_COPY
};

/// Whether the kernel copied what a way was to leave, there or wherever it said anything.
fn was_copied(run: &Explained<'_>, way: MeasuredWay<'_>) -> bool {
    let cell = way.cell();
    let mut all = copied(run).into_iter();
    is_no_zero_copy(run, &way.trials.id)
        || way.value(COPIED).is_none()
            && all.any(|c| c.mover == cell.mover && c.transport == cell.transport)
}

/// Returns true if none of the ways without a copy was one anywhere.
fn all_copied(run: &Explained<'_>) -> bool {
    let ways = run.measured().map(|c| run.way(c));
    let mut lending = ways.filter(MeasuredWay::is_zero_copy).peekable();
    lending.peek().is_some() && lending.all(|way| was_copied(run, way))
}

/// What is decided, whether or not the kernel copied after all; else that it did.
fn from_what_size(run: &Explained<'_>) -> Option<Answered> {
    let asked = run.ask(&ZERO_COPY);
    let answer = match asked.told() {
        Err(_) if all_copied(run) => Err(withheld(run)),
        told => told,
    };
    Some(Answered {
        evidence: copied(run).iter().map(|c| c.sentence()).collect(),
        ..asked.with(answer)
    })
}

pub(super) fn withheld(run: &Explained<'_>) -> String {
    let told = copied(run).first().map(|c| c.sentence());
    let told = told.unwrap_or_default();
    let told = told.trim_end_matches('.');
    format!("withheld: {told} (on another path: `bytecost run send-wire`, as root)")
}

fn not_fastest(run: &Explained<'_>) -> Option<Answered> {
    let by_cost = PairQuery {
        metrics: |_| vec![vec![Metric::both(Measure::CpuSPerGb)]],
        ..ZERO_COPY
    };
    let asked = run.ask(&by_cost);
    let (told, found) = (asked.told(), &asked.aspects[0]);
    let is_worse = |v: &&Versus<'_>| v.verdict() == Verdict::Worse;
    let shares: Vec<String> = copied(run).iter().map(|c| c.sentence()).collect();
    let all_copied = all_copied(run);
    let answer = match (told, found.iter().find(is_worse)) {
        (Ok(told), None) if !all_copied || found.iter().any(is_decided) => {
            Ok(format!("it was not shown to be worse here. {told}"))
        }
        _ if all_copied => Ok(format!(
            "it saves no copy here, and what it adds comes on top: {}",
            shares.join(" ")
        )),
        (Ok(_), Some(v)) if v.other.value(COPIED).is_none() => Err(
            "no completion was flagged or counted, so that nobody knows whether the kernel copied"
                .into(),
        ),
        (Ok(told), _) => Ok(format!(
            "what it adds to each message costs more than the copy that it saves, where it is worse. {told}"
        )),
        (Err(missing), _) => Err(missing),
    };
    Some(Answered {
        evidence: shares,
        ..asked.with(answer)
    })
}

const COPIED: Metric = Metric::both(Measure::CopiedShare);
