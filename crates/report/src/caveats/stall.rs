//! Stalls in words: messages and completions that wait for the timer of delayed acknowledgements, and
//! remedies.

use bytecost_analysis::{CaveatFact, CellResult, StallSign, grouped};
use bytecost_spec::{Measure, Metric, Pattern, units};
use itertools::Itertools as _;

use super::known::{Known, fact, span};
use crate::phrases;
use crate::stalls;

/// Clause on the packets that Nagle's algorithm holds back.
pub(super) fn held_back(c: &Known<'_>) -> String {
    match sign(c, StallSign::Calls) {
        Some([_, most]) if most > 1.0 => "a message goes out in several calls, and Nagle's algorithm holds back all but the first".to_owned(),
        _ => "Nagle's algorithm holds back the end of a message".to_owned(),
    }
}

/// Remedies for a message that waits, with the median latency under each.
pub(super) fn of_messages(c: &Known<'_>) -> String {
    remedies(c, Metric::both(Measure::LatencyUsP50), "µs").unwrap_or_else(|| {
        "TCP_NODELAY, one call for the whole message, or MSG_MORE; `--nodelay on,off` measures the remedy beside it".to_owned()
    })
}

/// Remedies for a completion that waits, with their message rates.
pub(super) fn of_completions(c: &Known<'_>) -> String {
    remedies(c, Metric::both(Measure::MessagesPerS), "messages/s").unwrap_or_else(|| {
        "several buffers in flight; `--ring 4MiB` or more measures it beside this".to_owned()
    })
}

/// The signs of a stall, in the order of the evidence.
const SIGNS: [StallSign; 8] = [
    StallSign::DelayedAcks,
    StallSign::Clustered,
    StallSign::Waited,
    StallSign::Latency,
    StallSign::Rtt,
    StallSign::MinRtt,
    StallSign::Busy,
    StallSign::Calls,
];

/// A sign in words, with the least and the largest of its readings over the stalled cells.
fn sign_in_words(sign: StallSign, readings: [f64; 2]) -> String {
    let write = |write: fn(f64) -> String| span(readings, write);
    let share = || write(units::percent);
    match sign {
        StallSign::DelayedAcks => format!("{} delayed acknowledgements per message", write(count)),
        StallSign::Clustered => format!("{} of the round trips took 35 to 60 ms", share()),
        StallSign::Waited => format!("{} of the time went into these", share()),
        StallSign::Latency => format!("median round trip {}", write(us)),
        StallSign::Rtt => format!("smoothed round-trip time of the socket {}", write(us)),
        StallSign::MinRtt => format!("its least {}", write(us)),
        StallSign::Busy => format!("data in flight for {} of the time", share()),
        StallSign::Calls => format!("system calls a message: {}", write(count)),
    }
}

fn count(number: f64) -> String {
    format!("{number:.2}").trim_end_matches(".00").to_owned()
}

fn us(us: f64) -> String {
    format!("{} µs", units::number(us).trim_end_matches(".00"))
}

/// The least and the largest reading of a sign.
fn sign(c: &Known<'_>, sign: StallSign) -> Option<[f64; 2]> {
    fact!(c, CaveatFact::Sign(of, numbers) if *of == sign => *numbers)
}

/// Signs of a stall with their readings, and the number of trials that stall where not all do.
pub(super) fn signs(c: &Known<'_>) -> String {
    let in_some = match c.part() {
        Some((some, all)) if some < all => format!("in {some} of {all} trials: "),
        _ => String::new(),
    };
    let signs = SIGNS
        .into_iter()
        .filter_map(|of| Some(sign_in_words(of, sign(c, of)?)));
    // A cell of requests and responses stalls only where TCP_NODELAY is off.
    let waits_for_responses = c
        .cells()
        .all(|cell| cell.cell.pattern == Pattern::RequestResponse);
    let nodelay = waits_for_responses.then(|| "TCP_NODELAY is off".to_owned());
    let is_one = c.cells().all(|cell| cell.cell.ring_slots() == 1);
    let ring = is_one.then(|| "the ring holds one message".to_owned());
    in_some + &signs.chain(nodelay).chain(ring).join("; ")
}

/// Remedies that the run measured for the stalled cells, with their numbers; none where it measured
/// none.
fn remedies(c: &Known<'_>, metric: Metric, unit: &str) -> Option<String> {
    let value = |cell: &CellResult| Some(cell.estimates.get(&metric)?.value);
    let cells = c.cells().flat_map(|cell| stalls::remedied(c.a, cell));
    let measured = grouped(cells.filter_map(|(remedy, cell)| Some((remedy.words, value(cell)?))));
    let numbers = |values: &[f64]| format!("{} {unit}", phrases::span(values, units::number));
    let remedy = |(remedy, values): &(&str, Vec<f64>)| format!("{remedy}: {}", numbers(values));
    let parts = measured.iter().map(remedy).join("; ");
    let stalled = c.cells().filter_map(value).collect_vec();
    let instead = if stalled.is_empty() {
        String::new()
    } else {
        format!(", instead of {}", numbers(&stalled))
    };
    let noun = c.noun(metric);
    (!measured.is_empty()).then(|| format!("measured beside it, {noun}: {parts}{instead}"))
}
