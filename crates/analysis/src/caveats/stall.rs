//! Cells that wait for the timer of delayed acknowledgements, and what remedies them.

use bytecost_spec::{Axis, Cell, Measure, Metric, Pattern, units};
use itertools::Itertools as _;

use super::{Caveat, caveat, clause, ids, known, span};
use crate::grouping::grouped;
use crate::phrases::percent;
use crate::result::CellResult;
use crate::stages::Measured;
use crate::stalls::{Signs, Stall, Waits};
use crate::trials::CellTrials;

pub(super) fn nagle(run: &Measured<'_>) -> Vec<Caveat> {
    told(run, Waits::Message, |mover, signs| {
        let several = signs.iter().filter_map(|s| s.calls).any(|n| n > 1.0);
        let what = if several {
            "a message goes out in several calls, and Nagle's algorithm holds back all but the first"
        } else {
            "Nagle's algorithm holds back the end of a message"
        };
        format!(
            "`{mover}` stalls: {what} until that is acknowledged, while the receiver delays its acknowledgement for want of anything to send with it, for a timer of HZ/25, 40 ms. This is not the cost of copying."
        )
    })
}

pub(super) fn completion(run: &Measured<'_>) -> Vec<Caveat> {
    told(run, Waits::Completion, |mover, _| {
        format!(
            "`{mover}` stalls: a buffer comes back when the receiver acknowledges its data, and the receiver delays that acknowledgement for a timer of HZ/25, 40 ms. This is not the cost of copying."
        )
    })
}

fn told(run: &Measured<'_>, waits: Waits, text: impl Fn(&str, &[&Signs]) -> String) -> Vec<Caveat> {
    let waiting = |c: &&CellTrials<'_>| run.stalls.waits(&c.id) == Some(waits);
    let stalled = run.measured().filter(waiting);
    let movers = grouped(stalled.map(|c| (c.cell.mover.as_str(), c))).into_iter();
    let told = movers.filter_map(|(mover, cells)| {
        let stalls = cells.iter().filter_map(|c| run.stalls.in_cell(&c.id));
        let stalls = stalls.collect_vec();
        let signs = stalls.iter().map(|s| &s.signs).collect_vec();
        caveat(
            text(mover, &signs),
            in_some(&stalls) + &evidence(&cells, &signs),
            remedy(run, &cells, waits),
            ids(cells),
        )
    });
    told.collect()
}

fn in_some(stalls: &[&Stall]) -> String {
    let sum = |of: fn(&Stall) -> usize| stalls.iter().map(|s| of(s)).sum::<usize>();
    match (sum(|s| s.trials.0), sum(|s| s.trials.1)) {
        (some, all) if some < all => format!("in {some} of {all} trials: "),
        _ => String::new(),
    }
}

fn evidence(cells: &[&CellTrials<'_>], signs: &[&Signs]) -> String {
    type Sign = (&'static str, fn(&Signs) -> Option<f64>, fn(f64) -> String);
    let count = |n: f64| format!("{n:.2}").trim_end_matches(".00").to_owned();
    let us = |us: f64| format!("{} µs", units::number(us).trim_end_matches(".00"));
    let table: [Sign; 8] = [
        (
            "{} delayed acknowledgements per message",
            |s| s.delayed_acks,
            count,
        ),
        (
            "{} of the round trips took 35 to 60 ms",
            |s| s.clustered,
            percent,
        ),
        ("{} of the time went into these", |s| s.waited, percent),
        ("median round trip {}", |s| s.latency_us, us),
        (
            "smoothed round-trip time of the socket {}",
            |s| s.rtt_us,
            us,
        ),
        ("its least {}", |s| s.min_rtt_us, us),
        ("data in flight for {} of the time", |s| s.busy, percent),
        ("system calls a message: {}", |s| s.calls, count),
    ];
    let parts = table.iter().map(|(text, of, write)| {
        let numbers = signs.iter().copied().filter_map(of).collect_vec();
        clause(text, &known(&numbers, write))
    });
    let mut parts = parts.filter(|told| !told.is_empty()).collect_vec();
    let asks = |c: &&CellTrials<'_>| c.cell.pattern == Pattern::Ask;
    if cells.iter().all(asks) {
        parts.push("TCP_NODELAY is off".to_owned());
    }
    if cells.iter().all(|c| c.cell.ring_slots() == 1) {
        parts.push("the ring holds one message".to_owned());
    }
    parts.join("; ")
}

/// What a stall is remedied by: an axis, its value, and how it is told.
const CURES: [(Axis, &str, &str); 8] = [
    (Axis::Nodelay, "on", "TCP_NODELAY on"),
    (Axis::Nodelay, "auto", "TCP_NODELAY on"),
    (Axis::Cork, "on", "TCP_CORK around each message"),
    (Axis::Quickack, "on", "TCP_QUICKACK"),
    (Axis::Mover, "send-more", "MSG_MORE (`send-more`)"),
    (Axis::Mover, "sendmsg", "one call (`sendmsg`)"),
    (Axis::Mover, "send", "one call (`send`)"),
    (Axis::Ring, "4MiB", "more buffers in flight (--ring 4MiB)"),
];

/// The cells beside a stalled one that do not stall, by what remedies them.
fn remedied<'v>(run: &'v Measured<'v>, cell: &Cell) -> Vec<(&'static str, &'v CellResult)> {
    let beside = CURES.iter().filter_map(|(axis, value, told)| {
        let mut other = cell.clone();
        other.set(*axis, value).ok()?;
        let id = other.id();
        let result = run.result(&id).filter(|c| c.trials > 0)?;
        let takes_effect = *axis != Axis::Nodelay || other.sends_at_once();
        let remedies = other != *cell && takes_effect && run.stalls.waits(&id).is_none();
        remedies.then_some((*told, result))
    });
    beside.collect()
}

/// The remedies that the run measured beside the stalled cells, with their numbers, or how to.
fn remedy(run: &Measured<'_>, cells: &[&CellTrials<'_>], waits: Waits) -> String {
    let (metric, unit) = match waits {
        Waits::Message => (Metric::both(Measure::LatencyUsP50), "µs"),
        Waits::Completion => (Metric::both(Measure::MessagesPerS), "messages/s"),
    };
    let remedies = cells.iter().flat_map(|c| remedied(run, c.cell));
    let measured = remedies.filter_map(|(told, result)| Some((told, result.value(metric)?)));
    let measured = grouped(measured);
    if measured.is_empty() {
        return match waits {
            Waits::Message => "TCP_NODELAY, one call for the whole message, or MSG_MORE; `--nodelay on,off` measures the remedy beside it",
            Waits::Completion => "several buffers in flight; `--ring 4MiB` or more measures it beside this",
        }
        .to_owned();
    }
    let value = |c: &&CellTrials<'_>| run.result(&c.id)?.value(metric);
    let stalled = cells.iter().filter_map(value).collect_vec();
    let told = |values: &[f64]| format!("{} {unit}", span(values, units::number));
    let parts = measured.iter();
    let parts = parts.map(|(remedy, of)| format!("{remedy}: {}", told(of)));
    let (noun, parts) = (run.words(metric), parts.format("; "));
    let instead = match stalled.is_empty() {
        true => String::new(),
        false => format!(", instead of {}", told(&stalled)),
    };
    format!("measured beside it, {noun}: {parts}{instead}")
}
