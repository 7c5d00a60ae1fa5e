//! Trials with a window of length zero, by which a survey finds what works: what it refuses is what a
//! trial cannot do.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytecost_spec::{Cell, Counter, Reading};

use crate::limits;
use crate::local_host::LocalHost;
use crate::program::Program;
use crate::protocol::ContentCheck;
use crate::settings::Settings;
use crate::testbed::Testbed;
use crate::trial;
use crate::trial_error::{TrialError, TrialFailure};
use crate::trial_output::TrialOutput;

/// The means of a survey: the program that plays the endpoints, and the flag that ends it.
#[derive(Debug)]
pub struct Surveyor<'s> {
    pub(crate) program: &'s Program,
    pub(crate) stop: &'s AtomicBool,
    /// True once a trial has waited in vain for memory or threads: the others do not wait for them then.
    has_waited: AtomicBool,
}

impl<'s> Surveyor<'s> {
    /// A surveyor whose trials fail once `stop` is set.
    pub fn new(program: &'s Program, stop: &'s AtomicBool) -> Surveyor<'s> {
        Surveyor {
            program,
            stop,
            has_waited: AtomicBool::new(false),
        }
    }

    /// Trials that follow each other on this host. Several such series may be made at the same time.
    pub(crate) fn series(&self, local: LocalHost) -> ShortTrials<'_> {
        let mut bed = Testbed::new(Settings {
            reads_machine: false,
            ..Settings::of_single_trials(self.program.clone(), ContentCheck::Full)
        });
        bed.local = local;
        ShortTrials {
            surveyor: self,
            bed,
        }
    }
}

/// A series of such trials, with the networks, files and processes that one leaves for the next.
pub(crate) struct ShortTrials<'s> {
    surveyor: &'s Surveyor<'s>,
    pub(crate) bed: Testbed,
}

impl ShortTrials<'_> {
    /// Makes a trial of a cell, again for a while if memory, threads or processes are lacking; the reason
    /// if it fails.
    pub(crate) fn attempt(&mut self, cell: &Cell) -> Result<(), String> {
        let Surveyor {
            stop, has_waited, ..
        } = self.surveyor;
        let may_wait = |e: &TrialError| e.lacks_resources() && !has_waited.load(Ordering::Relaxed);
        let ended = limits::retried(may_wait, || {
            let output = trial::attempt(&mut self.bed, cell, Duration::ZERO, None, stop)?;
            if cell.is_served() {
                check_responses(&output)
            } else {
                Ok(())
            }
        });
        ended.map_err(|error| {
            if error.lacks_resources() {
                has_waited.store(true, Ordering::Relaxed);
            }
            let TrialFailure {
                reason,
                side_reason,
                ..
            } = error.into();
            side_reason.unwrap_or(reason)
        })
    }
}

/// Checks that a server has responded to each connection of its clients, rightly.
fn check_responses(output: &TrialOutput) -> Result<(), TrialError> {
    let readings = &output.sender.side.readings;
    let number = |counter| readings.get(&counter).and_then(Reading::measured);
    let errors: Vec<String> = (Counter::REQUEST_ERRORS.into_iter())
        .filter_map(|counter| Some((counter, number(counter).filter(|n| *n > 0)?)))
        .map(|(counter, n)| format!("{}: {n}", counter.name()))
        .collect();
    let served = output.receiver.as_ref().map_or(0, |r| r.traffic.requests);
    if errors.is_empty() && served > 0 {
        return Ok(());
    }
    Err(TrialError::failed(format!(
        "no response to a request ({})",
        errors.join(", ")
    )))
}
