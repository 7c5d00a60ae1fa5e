//! Cells that wait for the timer of delayed acknowledgements, and what cures them.

use std::collections::BTreeMap;

use bytecost_spec::{Axis, Cell, Counter, Measure, Metric, Pattern, units};
use bytecost_stats::median;

use super::{UnnamedDoubt, View, span};
use crate::phrases::{self, percent};
use crate::result::Finding;
use crate::trials::{CellTrials, Trials};
use crate::value::{Trial, read};

/// Delayed acknowledgements per message from which a message is said to wait for one.
const WAITS: f64 = 0.5;
/// Fewer that say so where most of the time was spent at the timer: some messages wait, and their
/// wait is what the cell is about.
const SOME_WAIT: f64 = 0.1;
/// Share of the round trips, or of their time, at the timer that is most of it.
const CLUSTERED: f64 = 0.5;
/// The timer in ms: HZ/25 and what comes on top (include/net/tcp.h, TCP_DELACK_MIN).
const TIMER_MS: (u64, u64) = (35, 60);
/// How far the smoothed round-trip time must lie above the least.
const RTT_TIMES: f64 = 10.0;

/// What waits for the acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Waits {
    /// The rest of a message, which Nagle's algorithm holds back.
    Message,
    /// A zero-copy completion.
    Completion,
}

/// The cells that stall, by their id.
#[derive(Debug, Default)]
pub(crate) struct Stalls(BTreeMap<String, Waits>);

/// What can be seen of a stall in a cell: medians over its trials.
struct Signs {
    delayed_acks: Option<f64>,
    clustered: Option<f64>,
    waited: Option<f64>,
    latency_us: Option<f64>,
    rtt_us: Option<f64>,
    min_rtt_us: Option<f64>,
    busy: Option<f64>,
    calls: Option<f64>,
    message_ms: Option<f64>,
}

impl Stalls {
    /// Looks at every measured cell.
    pub(crate) fn of(trials: &Trials<'_>) -> Stalls {
        let found = trials
            .moving()
            .filter_map(|cell| Some((cell.id.clone(), Signs::of(cell)?.waits(cell)?)));
        Stalls(found.collect())
    }

    /// Whether any of these cells stalls.
    pub(crate) fn any<'i>(&self, ids: impl IntoIterator<Item = &'i String>) -> bool {
        ids.into_iter().any(|id| self.0.contains_key(id))
    }

    /// Whether a finding compares with a cell that stalls: then it is not about its axis.
    pub(crate) fn touch(&self, finding: &Finding) -> bool {
        self.any([&finding.baseline, &finding.cell])
    }

    /// What waits in a cell.
    pub(crate) fn waits(&self, id: &str) -> Option<Waits> {
        self.0.get(id).copied()
    }

    /// Adds to the sentence of each finding that compares with a stalled cell what it is worth.
    pub(crate) fn mark(&self, findings: &mut [Finding]) {
        for finding in findings.iter_mut().filter(|f| self.touch(f)) {
            let which = match [&finding.baseline, &finding.cell].map(|id| self.waits(id).is_some())
            {
                [true, true] => "Both wait",
                [true, false] => "The baseline waits",
                _ => "It waits",
            };
            finding.sentence.push_str(&format!(
                " {which} for the timer of delayed acknowledgements: this is not the cost of copying."
            ));
        }
    }
}

impl Signs {
    /// None for cells that cannot stall: no TCP, or nothing measured.
    fn of(cell: &CellTrials<'_>) -> Option<Signs> {
        if !cell.cell.transport.is_tcp() || cell.by_block.is_empty() {
            return None;
        }
        let typical = |of: &dyn Fn(&Trial<'_>) -> Option<f64>| {
            median(&cell.trials().filter_map(of).collect::<Vec<f64>>())
        };
        let metric = |measure| {
            let metric = Metric::both(measure);
            typical(&|t| t.value(metric).known())
        };
        let sender = |counter| typical(&|t| read(&t.sample.sender, counter).ok());
        let flows = f64::from(cell.cell.threads);
        let can_wait = cell.cell.pattern == Pattern::Ask && !cell.cell.sends_at_once();
        Some(Signs {
            delayed_acks: metric(Measure::DelayedAcksPerMessage),
            // The histograms are read only where a stall can be.
            clustered: can_wait.then(|| typical(&clustered)).flatten(),
            waited: can_wait.then(|| typical(&waited)).flatten(),
            latency_us: metric(Measure::LatencyUsP50),
            rtt_us: sender(Counter::TcpRttUs),
            min_rtt_us: sender(Counter::TcpMinRttUs),
            busy: typical(&|t| {
                let busy_us = read(&t.sample.sender, Counter::TcpBusyUs).ok()?;
                let elapsed_ns = read(&t.sample.sender, Counter::ElapsedNs).ok()?;
                (elapsed_ns > 0.0).then(|| busy_us * 1e3 / elapsed_ns / flows)
            }),
            calls: typical(&|t| per_message(t, read(&t.sample.sender, Counter::Calls).ok()?)),
            message_ms: metric(Measure::MessagesPerS).map(|rate| 1e3 * flows / rate),
        })
    }

    fn waits(&self, cell: &CellTrials<'_>) -> Option<Waits> {
        match cell.cell.pattern {
            Pattern::Ask if !cell.cell.sends_at_once() => {
                let most = |share: Option<f64>| share.is_some_and(|s| s >= CLUSTERED);
                let waits = match self.delayed_acks {
                    Some(n) => {
                        (n >= WAITS && self.is_most(n)) || (n >= SOME_WAIT && most(self.waited))
                    }
                    None => most(self.clustered) && self.rtt_is_far(),
                };
                waits.then_some(Waits::Message)
            }
            Pattern::Stream if cell.completes => {
                let (least, most) = TIMER_MS;
                let at_timer = |ms: f64| (least as f64..=most as f64).contains(&ms);
                let slow = self.message_ms.is_some_and(at_timer);
                let one_slot = cell.cell.ring_slots() == 1;
                let waits = match self.delayed_acks {
                    Some(n) => n >= WAITS && (slow || one_slot),
                    None => slow && self.rtt_is_far(),
                };
                waits.then_some(Waits::Completion)
            }
            _ => None,
        }
    }

    /// Whether so many waits of the timer can be most of the time of a message: a long one may
    /// have a few of them and hardly be later for it.
    fn is_most(&self, waits: f64) -> bool {
        let waited_ms = waits * TIMER_MS.0 as f64;
        self.message_ms
            .is_none_or(|all_ms| waited_ms >= CLUSTERED * all_ms)
    }

    fn rtt_is_far(&self) -> bool {
        matches!((self.rtt_us, self.min_rtt_us), (Some(rtt), Some(min)) if rtt >= RTT_TIMES * min)
    }
}

fn per_message(trial: &Trial<'_>, count: f64) -> Option<f64> {
    let messages = read(&trial.sample.sender, Counter::Messages).ok()?;
    (messages > 0.0).then(|| count / messages)
}

/// The share of a trial's round trips that took as long as the timer.
fn clustered(trial: &Trial<'_>) -> Option<f64> {
    let histogram = trial.histogram()?;
    let (least, most) = TIMER_MS;
    let within = histogram.count_between(least * 1_000_000, most * 1_000_000);
    Some(within as f64 / histogram.len() as f64)
}

/// The share of a trial's time that went into such round trips.
fn waited(trial: &Trial<'_>) -> Option<f64> {
    let histogram = trial.histogram()?;
    let (least, most) = TIMER_MS;
    let at_timer = (least * 1_000_000)..=(most * 1_000_000);
    let (mut within, mut all) = (0.0, 0.0);
    for step in histogram.iter_recorded() {
        let ns = step.value_iterated_to() as f64 * step.count_at_value() as f64;
        all += ns;
        if at_timer.contains(&step.value_iterated_to()) {
            within += ns;
        }
    }
    (all > 0.0).then(|| within / all)
}

pub(super) fn nagle(view: &View<'_>) -> Vec<UnnamedDoubt> {
    told(view, Waits::Message, |mover, signs| {
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

pub(super) fn completion(view: &View<'_>) -> Vec<UnnamedDoubt> {
    told(view, Waits::Completion, |mover, _| {
        format!(
            "`{mover}` stalls: a buffer comes back when the receiver acknowledges its data, and the receiver delays that acknowledgement for a timer of HZ/25, 40 ms. This is not the cost of copying."
        )
    })
}

/// One for each mover, in the order of the plan.
fn told(
    view: &View<'_>,
    waits: Waits,
    text: impl Fn(&str, &[Signs]) -> String,
) -> Vec<UnnamedDoubt> {
    let stalled: Vec<&CellTrials<'_>> = view
        .measured()
        .filter(|c| view.stalls.waits(&c.id) == Some(waits))
        .collect();
    let mut movers: Vec<&str> = Vec::new();
    for cell in &stalled {
        if !movers.contains(&cell.cell.mover.as_str()) {
            movers.push(&cell.cell.mover);
        }
    }
    let of_mover = |mover: &str| -> Vec<&CellTrials<'_>> {
        let own = stalled.iter().copied();
        own.filter(|c| c.cell.mover == mover).collect()
    };
    let tell = |mover: &str| {
        let cells = of_mover(mover);
        let signs: Vec<Signs> = cells.iter().filter_map(|c| Signs::of(c)).collect();
        UnnamedDoubt {
            text: text(mover, &signs),
            evidence: evidence(&cells, &signs),
            cure: cure(view, &cells, waits),
            cells: super::ids(cells),
        }
    };
    movers.into_iter().map(tell).collect()
}

/// As many signs as are there, each with its numbers.
fn evidence(cells: &[&CellTrials<'_>], signs: &[Signs]) -> String {
    type Sign<'s> = (
        &'s dyn Fn(&Signs) -> Option<f64>,
        &'s dyn Fn(f64) -> String,
        &'s str,
    );
    let count = |n: f64| format!("{n:.2}").trim_end_matches(".00").to_owned();
    let us = |us: f64| format!("{} µs", units::number(us).trim_end_matches(".00"));
    let table: [Sign<'_>; 8] = [
        (
            &|s| s.delayed_acks,
            &count,
            "{} delayed acknowledgements per message",
        ),
        (
            &|s| s.clustered,
            &percent,
            "{} of the round trips took 35 to 60 ms",
        ),
        (&|s| s.waited, &percent, "{} of the time went into these"),
        (&|s| s.latency_us, &us, "median round trip {}"),
        (
            &|s| s.rtt_us,
            &us,
            "smoothed round-trip time of the socket {}",
        ),
        (&|s| s.min_rtt_us, &us, "its least {}"),
        (&|s| s.busy, &percent, "data in flight for {} of the time"),
        (&|s| s.calls, &count, "system calls a message: {}"),
    ];
    let mut parts: Vec<String> = table
        .iter()
        .filter_map(|(of, write, text)| {
            let known: Vec<f64> = signs.iter().filter_map(of).collect();
            (!known.is_empty()).then(|| text.replace("{}", &span(&known, write)))
        })
        .collect();
    let asks = |c: &&CellTrials<'_>| c.cell.pattern == Pattern::Ask;
    if cells.iter().all(asks) {
        parts.push("TCP_NODELAY is off".to_owned());
    }
    if cells.iter().all(|c| c.cell.ring_slots() == 1) {
        parts.push("the ring holds one message".to_owned());
    }
    parts.join("; ")
}

/// What a stall is cured by: an axis, its value, and how it is told.
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

/// The cells beside a stalled one that do not stall, by what cures them.
pub(crate) fn cured<'v>(
    view: &View<'v>,
    cell: &Cell,
) -> Vec<(&'static str, Axis, &'v crate::result::CellResult)> {
    let beside = CURES.iter().filter_map(|(axis, value, told)| {
        let mut other = cell.clone();
        other.set(*axis, value).ok()?;
        let id = other.id();
        let result = view.cells.iter().find(|c| c.id == id && c.trials > 0)?;
        let takes_effect = *axis != Axis::Nodelay || other.sends_at_once();
        let cures = other != *cell && takes_effect && view.stalls.waits(&id).is_none();
        cures.then_some((*told, *axis, result))
    });
    beside.collect()
}

/// The cures that the run measured beside the stalled cells, with their numbers, or how to.
fn cure(view: &View<'_>, cells: &[&CellTrials<'_>], waits: Waits) -> String {
    let (metric, unit) = match waits {
        Waits::Message => (Metric::both(Measure::LatencyUsP50), "µs"),
        Waits::Completion => (Metric::both(Measure::MessagesPerS), "messages/s"),
    };
    let mut measured: Vec<(&str, Vec<f64>)> = Vec::new();
    for cell in cells {
        for (told, _, result) in cured(view, cell.cell) {
            let Some(estimate) = result.estimates.get(&metric) else {
                continue;
            };
            match measured.iter_mut().find(|(t, _)| *t == told) {
                Some((_, values)) => values.push(estimate.value),
                None => measured.push((told, vec![estimate.value])),
            }
        }
    }
    if measured.is_empty() {
        return match waits {
            Waits::Message => "TCP_NODELAY, one call for the whole message, or MSG_MORE; `--nodelay on,off` measures the cure beside it",
            Waits::Completion => "several buffers in flight; `--ring 4MiB` or more measures it beside this",
        }
        .to_owned();
    }
    let stalled: Vec<f64> = cells
        .iter()
        .filter_map(|c| {
            let result = view.cells.iter().find(|r| r.id == c.id)?;
            Some(result.estimates.get(&metric)?.value)
        })
        .collect();
    let parts: Vec<String> = measured
        .iter()
        .map(|(told, values)| format!("{told}: {} {unit}", span(values, units::number)))
        .collect();
    let instead = if stalled.is_empty() {
        String::new()
    } else {
        format!(", instead of {} {unit}", span(&stalled, units::number))
    };
    let noun = phrases::metric(metric);
    format!("measured beside it, {noun}: {}{instead}", parts.join("; "))
}
