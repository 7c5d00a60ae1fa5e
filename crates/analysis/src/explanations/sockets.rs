//! Ways to send over a socket without a copy: whether the kernel copied after all.

use bytecost_spec::{Measure, Metric};

use super::pairs::{Answer, MeasuredWay, PairQuery, ZERO_COPY};
use crate::caveats::zero_copy::{copied, is_no_zero_copy};
use crate::result::{Fact, Missing, Verdict};
use crate::stages::Explained;

const COPIED: Metric = Metric::both(Measure::CopiedShare);

const BY_COST: PairQuery = PairQuery {
    metrics: |_| vec![vec![Metric::both(Measure::CpuSPerGb)]],
    ..ZERO_COPY
};

/// Returns true if the kernel copied what a way was to leave, there or wherever it said anything.
fn was_copied(run: &Explained<'_>, way: MeasuredWay<'_>) -> bool {
    let cell = way.cell();
    let mut all = copied(run.measured).into_iter();
    is_no_zero_copy(run.measured, &way.trials.id)
        || way.value(COPIED).is_none()
            && all.any(|c| c.mover == cell.mover && c.transport == cell.transport)
}

/// Returns true if none of the ways without a copy was one anywhere.
fn all_copied(run: &Explained<'_>) -> bool {
    let ways = run.measured.trials.measured().map(|c| run.way(c));
    let mut lending = ways.filter(MeasuredWay::is_zero_copy).peekable();
    lending.peek().is_some() && lending.all(|way| was_copied(run, way))
}

pub(super) fn copied_facts(run: &Explained<'_>) -> Vec<Fact> {
    copied(run.measured).into_iter().map(Fact::Copied).collect()
}

/// The sizes from which zero-copy pays, where a comparison is decided; else the copied shares, where
/// the kernel copied.
pub(super) fn from_what_size(run: &Explained<'_>) -> Option<Answer> {
    let found = run.ask(&ZERO_COPY).answer();
    let is_copied = found.missing.is_some() && all_copied(run);
    Some(Answer {
        missing: is_copied.then_some(Missing::SavedCopy).or(found.missing),
        facts: copied_facts(run),
        ..found
    })
}

pub(super) fn not_fastest(run: &Explained<'_>) -> Option<Answer> {
    let asked = run.ask(&BY_COST);
    let found = asked.answer();
    let worse = asked.all().find(|v| v.verdict() == Verdict::Worse);
    let mut facts = copied_facts(run);
    let is_never_worse = found.missing.is_none() && worse.is_none();
    let missing = if all_copied(run) && !is_never_worse {
        facts.push(Fact::NoCopySaved);
        None
    } else if worse.is_some_and(|v| v.other.value(COPIED).is_none()) {
        Some(Missing::Completions)
    } else {
        found.missing
    };
    Some(Answer {
        missing,
        facts,
        ..found
    })
}
