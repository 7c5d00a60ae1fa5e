//! Trials for evidence, one after the other: each of a cell, watched.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytecost_spec::evidence::TrialEvidence;
use bytecost_spec::{Cell, Failure, Record, TrialKey};
use bytecost_sys::clock;

use crate::endpoint_process::TrialError;
use crate::event::Event;
use crate::trial::{Lab, TrialOutcome};
use crate::watch::Watch;

mod known;

impl Lab {
    /// Watches trials (round, cell's number, cell) begun within so long; false when interrupted.
    pub fn watched(
        &mut self,
        watch: &mut Watch,
        trials: impl IntoIterator<Item = (u32, u32, Cell)>,
        most: Option<Duration>,
        stop: &AtomicBool,
        events: &mut dyn FnMut(Event),
    ) -> bool {
        let began_ns = clock::monotonic_ns();
        let mut trials = trials.into_iter().peekable();
        while let Some((round, number, cell)) = trials.next() {
            self.next_is(trials.peek().map(|(_, _, next)| next));
            let spent = Duration::from_nanos(clock::monotonic_ns() - began_ns);
            if most.is_some_and(|most| spent >= most) {
                return true;
            }
            if stop.load(Ordering::Relaxed) {
                return false;
            }
            let trial = TrialKey {
                block: watch.round(),
                cell: number,
                attempt: round,
            };
            events(Event::TrialStarted { trial });
            match self.watched_trial(watch, trial, &cell, stop) {
                TrialOutcome::Ended(record, _) => events(Event::TrialEnded(record)),
                TrialOutcome::Interrupted => return false,
            }
        }
        true
    }

    fn watched_trial(
        &mut self,
        watch: &mut Watch,
        trial: TrialKey,
        cell: &Cell,
        stop: &AtomicBool,
    ) -> TrialOutcome {
        let (began_ns, started_ms) = (clock::monotonic_ns(), self.elapsed_ms());
        let failed = |reason: String| {
            Record::Failure(Failure {
                trial,
                cell: cell.id(),
                started_ms,
                reason: format!("while it was watched: {reason}"),
                stood_still_ns: None,
            })
        };
        if let Some(why) = self.unwatched(cell) {
            return TrialOutcome::Ended(Box::new(failed(why)), false);
        }
        let attempted = self.affected(watch, cell, stop);
        let attempted = attempted.and_then(|d| Ok((d, self.attempt(cell, Some(watch), stop)?)));
        let record = match attempted {
            Err(TrialError::Interrupted) => return TrialOutcome::Interrupted,
            Err(TrialError::Failed(reason)) => failed(reason),
            Ok((affected, parts)) => {
                let flows = &parts.sender.side.flows;
                let copies = self.believed(watch.copied(cell, &parts), cell, &affected);
                let counts = watch.counts(cell, &parts);
                Record::Evidence(TrialEvidence {
                    trial,
                    cell: cell.id(),
                    started_ms,
                    sent_bytes: flows.iter().map(|f| f.bytes).sum(),
                    sent_messages: flows.iter().map(|f| f.messages).sum(),
                    trial_ms: (clock::monotonic_ns() - began_ns) / 1_000_000,
                    elapsed_ns: flows.iter().map(|f| f.elapsed_ns).max().unwrap_or(0),
                    time: watch.seen.time.take(),
                    footprint: parts.sender.footprint,
                    copies,
                    counts,
                    accounts: watch.seen.accounts.take(),
                })
            }
        };
        TrialOutcome::Ended(Box::new(record), false)
    }
}
