//! Cells that wait for the timer of delayed acknowledgements.

use std::collections::BTreeMap;

use bytecost_spec::{Counter, Measure, Metric, Pattern};
use bytecost_stats::median;

use crate::result::Finding;
use crate::trials::{CellTrials, Trials};
use crate::value::Trial;

/// Delayed acknowledgements per message from which a message is said to wait for one.
const WAITS: f64 = 0.5;
/// Fewer that say so: some messages wait, and their wait is a part of the time that matters.
const SOME_WAIT: f64 = 0.1;
/// Share of the time of a message from which its waits for the timer matter.
const MATTERS: f64 = 0.1;
/// Share of the round trips, or of their time, at the timer that is most of it.
const CLUSTERED: f64 = 0.5;
/// The timer in ms: HZ/25 and what comes on top (include/net/tcp.h, TCP_DELACK_MIN).
const TIMER_MS: (u64, u64) = (35, 60);
/// Share of the trials from which a cell that waits in some of them is said to stall.
const IN_SOME: f64 = 0.15;
/// The least ratio of the smoothed round-trip time to the least one.
const RTT_TIMES: f64 = 10.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Waits {
    /// The rest of a message, which Nagle's algorithm holds back.
    Message,
    /// A zero-copy completion.
    Completion,
}

#[derive(Debug, Default)]
pub(crate) struct Stalls(BTreeMap<String, Stall>);

#[derive(Debug)]
pub(crate) struct Stall {
    pub(crate) waits: Waits,
    /// Its signs in the trials that stall.
    pub(crate) signs: Signs,
    /// The number of trials that stall, and of all trials.
    pub(crate) trials: (usize, usize),
}

/// The signs of a stall: of a trial, or medians over several.
#[derive(Clone, Debug, Default)]
pub(crate) struct Signs {
    pub(crate) delayed_acks: Option<f64>,
    /// The share of the round trips that took as long as the timer.
    pub(crate) clustered: Option<f64>,
    /// The share of the time that went into these.
    pub(crate) waited: Option<f64>,
    pub(crate) latency_us: Option<f64>,
    pub(crate) rtt_us: Option<f64>,
    pub(crate) min_rtt_us: Option<f64>,
    pub(crate) busy: Option<f64>,
    pub(crate) calls: Option<f64>,
    message_ms: Option<f64>,
}

impl Stalls {
    pub(crate) fn new(trials: &Trials<'_>) -> Stalls {
        let cells = trials.moving();
        let found = cells.filter_map(|cell| Some((cell.id.clone(), Stall::from_cell(cell)?)));
        Stalls(found.collect())
    }

    pub(crate) fn any<'i>(&self, ids: impl IntoIterator<Item = &'i String>) -> bool {
        ids.into_iter().any(|id| self.0.contains_key(id))
    }

    /// Returns true if a cell of the finding stalls, so that the finding is not about its axis.
    pub(crate) fn touch(&self, finding: &Finding) -> bool {
        self.any([&finding.baseline, &finding.cell])
    }

    pub(crate) fn in_cell(&self, id: &str) -> Option<&Stall> {
        self.0.get(id)
    }

    pub(crate) fn waits(&self, id: &str) -> Option<Waits> {
        Some(self.in_cell(id)?.waits)
    }
}

impl Stall {
    /// The stall of a cell that waits in most of its trials, or in some of them; none for cells that do not
    /// wait, have no TCP, or were not measured.
    fn from_cell(cell: &CellTrials<'_>) -> Option<Stall> {
        if !cell.cell.transport.is_tcp() || cell.by_block.is_empty() {
            return None;
        }
        let all: Vec<Signs> = cell.trials().map(|t| Signs::from_trial(cell, t)).collect();
        let waiting = all.iter().filter(|s| s.waits(cell).is_some());
        let stalled: Vec<Signs> = waiting.cloned().collect();
        let several = stalled.len() as f64 >= IN_SOME * all.len() as f64;
        let (signs, count) = if several {
            (Signs::typical(&stalled), stalled.len())
        } else {
            (Signs::typical(&all), all.len())
        };
        Some(Stall {
            waits: signs.waits(cell)?,
            signs,
            trials: (count, all.len()),
        })
    }
}

impl Signs {
    fn from_trial(cell: &CellTrials<'_>, trial: &Trial<'_>) -> Signs {
        let metric = |measure| trial.value(Metric::both(measure));
        let sender = |counter| trial.sent(counter);
        let flows = f64::from(cell.cell.threads);
        // The histograms are read only where a stall can be.
        let can_wait = cell.cell.pattern == Pattern::RequestResponse && !cell.cell.sends_at_once();
        let histogram = can_wait.then(|| trial.histogram()).flatten();
        let (least, most) = TIMER_MS;
        let timer_ns = least * 1_000_000..=most * 1_000_000;
        let at_timer = histogram.map(|all| all.shares_within_ns(timer_ns));
        let elapsed_ns = sender(Counter::ElapsedNs).filter(|ns| *ns > 0.0);
        let busy_us = sender(Counter::TcpBusyUs).zip(elapsed_ns);
        Signs {
            delayed_acks: metric(Measure::DelayedAcksPerMessage),
            clustered: at_timer.map(|(trips, _)| trips),
            waited: at_timer.and_then(|(_, time)| time),
            latency_us: metric(Measure::LatencyUsP50),
            rtt_us: sender(Counter::TcpRttUs),
            min_rtt_us: sender(Counter::TcpMinRttUs),
            busy: busy_us.map(|(us, ns)| us * 1e3 / ns / flows),
            calls: trial.sent_over(Counter::Calls, Counter::Messages),
            message_ms: metric(Measure::MessagesPerS).map(|rate| 1e3 * flows / rate),
        }
    }

    fn typical(all: &[Signs]) -> Signs {
        let of = |sign: fn(&Signs) -> Option<f64>| {
            median(&all.iter().filter_map(sign).collect::<Vec<f64>>())
        };
        Signs {
            delayed_acks: of(|s| s.delayed_acks),
            clustered: of(|s| s.clustered),
            waited: of(|s| s.waited),
            latency_us: of(|s| s.latency_us),
            rtt_us: of(|s| s.rtt_us),
            min_rtt_us: of(|s| s.min_rtt_us),
            busy: of(|s| s.busy),
            calls: of(|s| s.calls),
            message_ms: of(|s| s.message_ms),
        }
    }

    fn waits(&self, cell: &CellTrials<'_>) -> Option<Waits> {
        match cell.cell.pattern {
            Pattern::RequestResponse if !cell.cell.sends_at_once() => {
                let most = |share: Option<f64>| share.is_some_and(|s| s >= CLUSTERED);
                let waits = match self.delayed_acks {
                    Some(n) => n >= SOME_WAIT && (most(self.waited) || self.matters(n)),
                    None => most(self.clustered) && self.rtt_is_far(),
                };
                waits.then_some(Waits::Message)
            }
            Pattern::Stream if cell.completes() => {
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

    /// Returns true if so many waits for the timer are a part of the time of a message that matters:
    /// a long one may have a few of them and hardly be later. A few that would take longer than the
    /// message delayed an acknowledgement for which nobody waited.
    fn matters(&self, waits: f64) -> bool {
        let waited_ms = waits * TIMER_MS.0 as f64;
        match self.message_ms {
            None => waits >= WAITS,
            Some(all_ms) => {
                waited_ms >= MATTERS * all_ms && (waits >= WAITS || waited_ms <= all_ms)
            }
        }
    }

    fn rtt_is_far(&self) -> bool {
        matches!((self.rtt_us, self.min_rtt_us), (Some(rtt), Some(min)) if rtt >= RTT_TIMES * min)
    }
}
