//! Windows in which the rate, the cost or the receive buffer still changed.

use bytecost_spec::Counter;
use bytecost_spec::sample::SubWindows;
use bytecost_stats::{holm, median, trimmed_mean};

use super::{UnnamedCaveat, ids, span};
use crate::confidence::ERROR_RATE;
use crate::phrases::percent;
use crate::trials::CellTrials;
use crate::value::{Trial, machine, read};
use crate::view::View;

/// Fewest trials over which a trend is looked for.
const FEWEST: usize = 6;
/// From the middle of the first quarter of a window to that of the last one, as a share of it.
const APART: f64 = 0.75;
/// A rate that goes up in a straight line by a share of its mean from end to end moves the middle
/// of what was moved by a twelfth of that.
const LINE: f64 = 12.0;
/// A buffer that is so many times as large as before has grown: the bound of the warm-up.
const GROWN: f64 = 1.2;

pub(super) fn detect(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let mut told = trends(view);
    told.extend(growth(view));
    told
}

/// What may change within a window, and how it is read off a trial.
type Course = (&'static str, fn(&Trial<'_>) -> Option<f64>);
const COURSES: [Course; 2] = [("rate", of_rate), ("CPU time", of_cost)];

/// What arrived, or was sent where nobody receives.
fn moved<'t>(trial: &'t Trial<'_>) -> Option<&'t SubWindows> {
    let receiver = trial.sample.receiver.as_ref();
    let received = receiver.and_then(|r| r.sub_windows.as_ref());
    received.or(trial.sample.sender.sub_windows.as_ref())
}

fn of_rate(trial: &Trial<'_>) -> Option<f64> {
    let moved = moved(trial)?;
    change(&moved.amount, &moved.elapsed_ns)
}

fn of_cost(trial: &Trial<'_>) -> Option<f64> {
    let sample = trial.sample;
    let mut cpu_ns = sample.sender.sub_windows.as_ref()?.cpu_ns.clone();
    let receiver = sample.receiver.as_ref();
    if let Some(other) = receiver.and_then(|r| r.sub_windows.as_ref()) {
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
    for (amount, long) in amount.iter().zip(along) {
        moment += *amount as f64 * (begun + *long as f64 / 2.0);
        begun += *long as f64;
    }
    let middle = moment / (total * length);
    (total > 0.0 && length > 0.0).then_some(APART * LINE * (middle - 0.5))
}

/// A change over trials, or over blocks of all cells together.
struct Trend {
    p: f64,
    change: f64,
}

impl Trend {
    fn of(changes: &[f64]) -> Option<Trend> {
        let location = (changes.len() >= FEWEST).then(|| trimmed_mean(changes))??;
        Some(Trend {
            p: location.p_value(0.0)?,
            change: location.value,
        })
    }
}

/// One trend of each course and cell, and one of all cells together, which sees what is too small
/// to be seen in each. All are corrected together.
fn trends(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let cells: Vec<&CellTrials<'_>> = view.measured().collect();
    let mut found: Vec<(usize, Option<usize>, Trend)> = Vec::new();
    for (course, (_, of)) in COURSES.iter().enumerate() {
        let mut blocks = std::collections::BTreeMap::<u32, Vec<f64>>::new();
        for (place, cell) in cells.iter().enumerate() {
            let known = cell.by_block.iter().filter_map(|(b, t)| Some((*b, of(t)?)));
            let changes: Vec<(u32, f64)> = known.collect();
            for (block, change) in &changes {
                blocks.entry(*block).or_default().push(*change);
            }
            let changes: Vec<f64> = changes.into_iter().map(|(_, change)| change).collect();
            found.extend(Trend::of(&changes).map(|t| (course, Some(place), t)));
        }
        let means = blocks.values().filter_map(|c| bytecost_stats::mean(c));
        let together = Trend::of(&means.collect::<Vec<f64>>());
        found.extend(together.map(|t| (course, None, t)));
    }
    let corrected = holm(&found.iter().map(|(.., t)| t.p).collect::<Vec<f64>>());
    let matters = view.input.manifest.study.smallest_effect;
    let is_told = |(trend, p): &(&(usize, Option<usize>, Trend), f64)| {
        *p < ERROR_RATE && trend.2.change.abs() > matters
    };
    let told: Vec<_> = found.iter().zip(corrected).filter(is_told).collect();
    let of_course = |(course, (what, _)): (usize, &Course)| {
        let own = told.iter().map(|(t, _)| t).filter(|t| t.0 == course);
        let changes: Vec<f64> = own.clone().map(|t| t.2.change).collect();
        let is_of_all = own.clone().any(|t| t.1.is_none());
        let named: Vec<&CellTrials<'_>> = match is_of_all {
            true => cells.clone(),
            false => own.filter_map(|t| Some(cells[t.1?])).collect(),
        };
        let them = if is_of_all {
            "all cells together"
        } else {
            "these cells"
        };
        (!changes.is_empty()).then(|| UnnamedCaveat {
            text: format!("The {what} of {them} was not steady: it changed from the first quarter of the window to the last by more than the smallest effect. These numbers are those of this part of a connection's life."),
            evidence: format!(
                "changed by {}; {}",
                span(&changes, signed),
                "trimmed mean over trials, all cells corrected together at 5 %"
            ),
            remedy: longer(view),
            cells: ids(named),
        })
    };
    COURSES.iter().enumerate().filter_map(of_course).collect()
}

fn signed(change: f64) -> String {
    let sign = if change < 0.0 { "-" } else { "+" };
    format!("{sign}{}", percent(change.abs()))
}

fn longer(view: &View<'_>) -> String {
    let study = &view.input.manifest.study;
    format!(
        "--warmup {}ms and --window {}ms: a later and longer part",
        study.warmup_ms.saturating_mul(10),
        study.window_ms.saturating_mul(10)
    )
}

/// Cells in most of whose trials the receive buffer grew within the window, or connections still
/// grew when the warm-up had to end.
fn growth(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let (mut cells, mut shares, mut warmups) = (Vec::new(), Vec::new(), Vec::new());
    for cell in view.moved() {
        let known: Vec<bool> = cell.trials().filter_map(grew).collect();
        let share = known.iter().filter(|g| **g).count() as f64 / known.len().max(1) as f64;
        if known.len() >= FEWEST && share > 0.5 {
            cells.push(cell.id.clone());
            shares.push(share);
            let of = |t: &Trial<'_>| machine(t.sample, Counter::WarmupNs).ok();
            warmups.extend(median(&cell.trials().filter_map(of).collect::<Vec<f64>>()));
        }
    }
    if cells.is_empty() {
        return Vec::new();
    }
    let warmed = match warmups.is_empty() {
        true => String::new(),
        false => format!(
            ", after a warm-up of {} ms",
            span(&warmups, |ns| format!("{:.0}", ns / 1e6))
        ),
    };
    vec![UnnamedCaveat {
        text: "The connections of these cells were not steady: in most trials they still grew when the window opened, or within it.".to_owned(),
        evidence: format!(
            "grown in {} of the trials (SO_RCVBUF at the edges of the window, or the bound of the warm-up){warmed}",
            span(&shares, percent)
        ),
        remedy: longer(view),
        cells,
    }]
}

fn grew(trial: &Trial<'_>) -> Option<bool> {
    let receiver = trial.sample.receiver.as_ref();
    let of = |counter| read(receiver?, counter).ok();
    let buffer = of(Counter::ReceiveBufferStartBytes)
        .zip(of(Counter::ReceiveBufferBytes))
        .map(|(from, to)| to > GROWN * from);
    let bounded = machine(trial.sample, Counter::WarmupBounded)
        .ok()
        .map(|b| b > 0.0);
    match (buffer, bounded) {
        (None, None) => None,
        _ => Some(buffer == Some(true) || bounded == Some(true)),
    }
}
