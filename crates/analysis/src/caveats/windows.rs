//! Windows that are too short, or in which the rate, the cost or the receive buffer still changed.

use bytecost_spec::sample::SubWindows;
use bytecost_spec::{Cache, Counter, Measure, Metric, Pattern};
use bytecost_stats::{mean, trimmed_mean};
use itertools::Itertools as _;

use super::constructors::{OfSpan, cells_caveat, ids, span, spans};
use crate::confidence::ERROR_RATE;
use crate::corrections::{TestFamily, corrected};
use crate::grouping::by_key;
use crate::result::Caveat;
use crate::result::CaveatFact::{Change, Count, Reading, Share};
use crate::stages::Measured;
use crate::trials::CellTrials;
use crate::value::Trial;

/// Messages of a flow below which each is a large part of the window.
const FEW: f64 = 10.0;
/// From this size on a window is a number of whole messages, however few.
const LONG_BYTES: u64 = 4 << 20;

/// The largest relative difference in length between the windows of both sides and of the machine.
/// Above it numbers are right, since each thread has its own clock, but those of the sides are of
/// different times.
const WINDOWS_APART: f64 = 0.25;

fn apart(trial: &Trial<'_>) -> Option<f64> {
    let own = trial.sent(Counter::ElapsedNs)?;
    let of_all = trial.of_all(Counter::MachineElapsedNs);
    let others = [of_all, trial.received(Counter::ElapsedNs)];
    let lengths = others.into_iter().flatten().chain([own]);
    let (least, most) = lengths.minmax().into_option()?;
    (least > 0.0).then(|| most / least - 1.0)
}

/// By how much more was sent than received: what the window filled the buffers with, as the
/// logarithm of the rates' ratio. By chance it is as often below zero as above.
fn kept(trial: &Trial<'_>) -> Option<f64> {
    let sent = trial.sent(Counter::Bytes)? / trial.sent(Counter::ElapsedNs)?;
    let received = trial.received(Counter::Bytes)? / trial.received(Counter::ElapsedNs)?;
    let ratio = sent / received;
    (ratio.is_finite() && ratio > 0.0).then(|| ratio.ln())
}

pub(super) fn short(run: &Measured<'_>) -> Option<Caveat> {
    let matters = run.input.manifest.study.smallest_effect;
    let by_clock = |c: &&CellTrials<'_>| {
        let by_passes = c.cell.size_bytes >= LONG_BYTES || c.cell.cache == Cache::Cold;
        !by_passes && run.stalls.waits(&c.id).is_none()
    };
    let shows = |cell: &CellTrials<'_>| {
        let flows = f64::from(cell.cell.threads.max(1));
        let of = |counter| cell.typical(|t| t.sent(counter));
        let (n, ns) = (of(Counter::Messages)? / flows, of(Counter::ElapsedNs)?);
        // Whole exchanges leave nothing in the buffers.
        let streams = cell.cell.pattern == Pattern::Stream;
        let kept = cell.typical(kept).filter(|_| streams).unwrap_or(0.0).abs();
        let apart = cell.typical(apart).unwrap_or(0.0);
        let short = n < FEW || kept > matters || apart > WINDOWS_APART;
        short.then(|| [n, ns, kept.max(apart)].map(Some))
    };
    let facts: [OfSpan; 3] = [
        |n| Reading(Counter::Messages, n),
        |ns| Reading(Counter::ElapsedNs, ns),
        Share,
    ];
    spans(run.trials.moved().filter(by_clock), facts, shows)
}

/// Fewest trials over which a trend is looked for.
const FEWEST: usize = 6;
/// From the middle of the first quarter of a window to that of the last one, as a share of it.
const APART: f64 = 0.75;
/// A straight rise of the rate by a share moves the middle of the amount by a twelfth of it.
const LINE: f64 = 12.0;
/// A buffer that is so many times as large as before has grown: the bound of the warm-up.
const GROWN: f64 = 1.2;

pub(super) fn not_steady(run: &Measured<'_>) -> Vec<Caveat> {
    trends(run).into_iter().chain(growth(run)).collect()
}

/// A metric that may change within a window, with the function that reads it from a trial.
type Course = (Metric, fn(&Trial<'_>) -> Option<f64>);
const COURSES: [Course; 2] = [
    (Metric::both(Measure::ThroughputGbitPerS), rate_change),
    (Metric::both(Measure::CpuSPerGb), cost_change),
];

fn received<'t>(trial: &'t Trial<'_>) -> Option<&'t SubWindows> {
    trial.sample.receiver.as_ref()?.sub_windows.as_ref()
}

/// Bytes that arrived, or were sent where there is no receiver.
fn moved<'t>(trial: &'t Trial<'_>) -> Option<&'t SubWindows> {
    received(trial).or(trial.sample.sender.sub_windows.as_ref())
}

fn rate_change(trial: &Trial<'_>) -> Option<f64> {
    let moved = moved(trial)?;
    change(&moved.amount, &moved.elapsed_ns)
}

fn cost_change(trial: &Trial<'_>) -> Option<f64> {
    let mut cpu_ns = trial.sample.sender.sub_windows.as_ref()?.cpu_ns.clone();
    if let Some(other) = received(trial) {
        let both = cpu_ns.iter_mut().zip(&other.cpu_ns);
        both.for_each(|(sum, ns)| *sum += ns);
    }
    Some(-change(&moved(trial)?.amount, &cpu_ns)?)
}

/// By how much of its mean the amount for each unit of `along` grows from the first quarter to the
/// last: by the straight line that has the same middle. Unlike a slope of logarithms it takes
/// eighths in which nothing moved, and edges that a thread saw late.
fn change(amount: &[u64], along: &[u64]) -> Option<f64> {
    let total: f64 = amount.iter().map(|n| *n as f64).sum();
    let length: f64 = along.iter().map(|n| *n as f64).sum();
    let (mut begun, mut moment) = (0.0, 0.0);
    for (part, long) in amount.iter().zip(along) {
        moment += *part as f64 * (begun + *long as f64 / 2.0);
        begun += *long as f64;
    }
    let middle = moment / (total * length);
    (total > 0.0 && length > 0.0).then_some(APART * LINE * (middle - 0.5))
}

/// A change of a course over the trials of a cell, or over blocks of all cells together.
struct Trend<'v> {
    course: usize,
    cell: Option<&'v CellTrials<'v>>,
    p: f64,
    change: f64,
}

impl<'v> Trend<'v> {
    fn new(course: usize, cell: Option<&'v CellTrials<'v>>, changes: &[f64]) -> Option<Trend<'v>> {
        let location = trimmed_mean(changes).filter(|_| changes.len() >= FEWEST)?;
        Some(Trend {
            course,
            cell,
            p: location.p_value(0.0)?,
            change: location.value,
        })
    }
}

/// All cells together show what is too small in each; where they do not, the cells that show it are
/// counted. All are corrected together.
fn trends<'v>(run: &Measured<'v>) -> Vec<Caveat> {
    let cells = run.trials.measured().collect_vec();
    let mut found: Vec<Trend<'_>> = Vec::new();
    for (course, (_, of)) in COURSES.iter().enumerate() {
        let changes_of = |cell: &&'v CellTrials<'v>| {
            let known = cell.by_block.iter();
            known.filter_map(|(b, t)| Some((*b, of(t)?))).collect_vec()
        };
        let by_cell = cells.iter().map(changes_of).collect_vec();
        let own = cells.iter().zip(&by_cell);
        found.extend(own.filter_map(|(cell, known)| {
            let changes = known.iter().map(|(_, change)| *change);
            Trend::new(course, Some(cell), &changes.collect_vec())
        }));
        let by_block = by_key(by_cell.into_iter().flatten());
        let means = by_block.values().filter_map(|changes| mean(changes));
        found.extend(Trend::new(course, None, &means.collect_vec()));
    }
    let p_values = found.iter().map(|t| t.p).collect_vec();
    let corrected = corrected(TestFamily::SteadyWindows, &p_values);
    let matters = run.input.manifest.study.smallest_effect;
    let shown = found
        .iter()
        .zip(corrected)
        .filter(|(t, p)| *p < ERROR_RATE && t.change.abs() > matters)
        .map(|(t, _)| t)
        .collect_vec();
    let of_course = |(course, (metric, _)): (usize, &Course)| {
        let own = || shown.iter().filter(|t| t.course == course);
        let changes = span(own().map(|t| t.change))?;
        let change = Change(*metric, changes);
        if own().any(|t| t.cell.is_none()) {
            return cells_caveat(ids(cells.iter().copied()), [change]);
        }
        let named = ids(own().filter_map(|t| t.cell));
        let count = Count(named.len());
        cells_caveat(named, [change, count])
    };
    COURSES.iter().enumerate().filter_map(of_course).collect()
}

/// Cells in most of whose trials buffers or connections still grew.
fn growth(run: &Measured<'_>) -> Option<Caveat> {
    let shows = |cell: &CellTrials<'_>| {
        let known = cell.trials().filter_map(grew).collect_vec();
        let share = known.iter().filter(|g| **g).count() as f64 / known.len().max(1) as f64;
        let warmup = || cell.typical(|t| t.of_all(Counter::WarmupNs));
        (known.len() >= FEWEST && share > 0.5).then(|| [Some(share), warmup()])
    };
    spans(
        run.trials.moved(),
        [Share, |ns| Reading(Counter::WarmupNs, ns)],
        shows,
    )
}

fn grew(trial: &Trial<'_>) -> Option<bool> {
    let buffer = |counter| trial.received(counter);
    let before = buffer(Counter::ReceiveBufferStartBytes);
    let both = before.zip(buffer(Counter::ReceiveBufferBytes));
    let grown = both.map(|(from, to)| to > GROWN * from);
    let bounded = trial.of_all(Counter::WarmupBounded).map(|b| b > 0.0);
    grown.into_iter().chain(bounded).reduce(|a, b| a || b)
}
