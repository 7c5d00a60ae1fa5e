//! Trials for evidence, one after the other: each of a cell, watched.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytecost_spec::evidence::TrialEvidence;
use bytecost_spec::{Cell, Failure, Record, TrialKey};
use bytecost_sys::clock;

use crate::event::Event;
use crate::run_clock::RunClock;
use crate::testbed::Testbed;
use crate::trial;
use crate::trial_error::TrialError;
use crate::watch::Watch;

mod known;

/// Watches trials (round, cell's number, cell) begun within so long; false when interrupted.
pub(crate) fn watched(
    bed: &mut Testbed,
    run: &RunClock,
    watch: &mut Watch,
    trials: impl IntoIterator<Item = (u32, u32, Cell)>,
    most: Option<Duration>,
    stop: &AtomicBool,
    events: &mut dyn FnMut(Event),
) -> bool {
    let began_ns = clock::monotonic_ns();
    let mut trials = trials.into_iter().peekable();
    while let Some((round, number, cell)) = trials.next() {
        bed.next_is(trials.peek().map(|(_, _, next)| next));
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
        let started_ms = run.elapsed_ms();
        let record = match evidence(bed, watch, trial, &cell, started_ms, stop) {
            Ok(evidence) => Record::Evidence(evidence),
            Err(TrialError::Interrupted) => return false,
            Err(TrialError::Failed(reason)) => Record::Failure(Failure {
                trial,
                cell: cell.id(),
                started_ms,
                reason: format!("while it was watched: {reason}"),
                stood_still_ns: None,
            }),
        };
        events(Event::TrialEnded(Box::new(record)));
    }
    true
}

fn evidence(
    bed: &mut Testbed,
    watch: &mut Watch,
    trial: TrialKey,
    cell: &Cell,
    started_ms: u64,
    stop: &AtomicBool,
) -> Result<TrialEvidence, TrialError> {
    let began_ns = clock::monotonic_ns();
    if let Some(why) = bed.unwatched(cell) {
        return Err(TrialError::Failed(why));
    }
    let affected = known::affected(bed, watch, cell, stop)?;
    let output = trial::attempt(bed, cell, watch.window(), Some(watch), stop)?;
    let flows = &output.sender.side.flows;
    let copies = watch.copied(cell, &output);
    let copies = copies.map(|copied| known::believed(copied, cell, &affected, &bed.local.files));
    let counts = watch.counts(cell, &output);
    Ok(TrialEvidence {
        trial,
        cell: cell.id(),
        started_ms,
        sent_bytes: flows.iter().map(|f| f.bytes).sum(),
        sent_messages: flows.iter().map(|f| f.messages).sum(),
        trial_ms: (clock::monotonic_ns() - began_ns) / 1_000_000,
        elapsed_ns: flows.iter().map(|f| f.elapsed_ns).max().unwrap_or(0),
        time: watch.seen.time.take(),
        footprint: output.sender.footprint,
        copies,
        counts,
        accounts: watch.seen.accounts.take(),
    })
}
