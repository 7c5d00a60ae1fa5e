//! Trials for evidence: the same two processes and the same window, with somebody who watches
//! what the CPUs do. Watching disturbs, so that these trials are never compared by their times.

use std::io;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytecost_evidence::TimeSampler;
use bytecost_evidence::time::Parties;
use bytecost_spec::evidence::{Evidence, TimeByKind};
use bytecost_spec::{Cell, Failure, Record, TrialKey};
use bytecost_sys::clock;

use crate::ends::{Endpoint, Trouble, wait_until};
use crate::event::Event;
use crate::protocol::{Answer, Role};
use crate::trial::{Lab, Outcome};

/// From one look at the samplers to the next.
const TAKE_NS: u64 = 20_000_000;

/// Who watches, and what was seen in the last window.
#[derive(Debug)]
pub struct Watch {
    time: TimeSampler,
    window: Duration,
    seen: Option<TimeByKind>,
}

impl Watch {
    /// Watches the CPUs of this machine in windows of this length.
    ///
    /// # Errors
    /// Why the CPUs cannot be watched here, and what to do about it.
    pub fn open(cpus: &[u32], window: Duration) -> io::Result<Watch> {
        Ok(Watch {
            time: TimeSampler::open(Path::new("/"), cpus)?,
            window,
            seen: None,
        })
    }

    /// How long its windows are.
    pub(crate) fn window(&self) -> Duration {
        self.window
    }

    /// The window opens.
    pub(crate) fn begin(&mut self) -> io::Result<()> {
        self.seen = None;
        self.time.begin()
    }

    /// Takes what the samplers have until the window is over; what an end says before is `early`'s.
    pub(crate) fn until(
        &mut self,
        ends: &mut [Endpoint],
        at_ns: u64,
        stop: &AtomicBool,
        mut early: impl FnMut(&Answer) -> Result<(), Trouble>,
    ) -> Result<(), Trouble> {
        loop {
            let now_ns = clock::monotonic_ns();
            if now_ns >= at_ns {
                return Ok(());
            }
            while let Some((_, answer)) = wait_until(ends, at_ns.min(now_ns + TAKE_NS), stop)? {
                early(&answer)?;
            }
            self.time.take();
        }
    }

    /// The window is over.
    pub(crate) fn end(&mut self, ends: &[Endpoint]) -> io::Result<()> {
        let of = |role| ends.iter().find(|e| e.role() == role).map(Endpoint::pid);
        let parties = Parties {
            sender: of(Role::Sender).unwrap_or(0),
            receiver: of(Role::Receiver),
        };
        self.seen = Some(self.time.end(parties)?);
        Ok(())
    }
}

impl Lab {
    /// Makes one trial of each of these cells, as `(number, cell)`, and watches. False when it
    /// was interrupted.
    pub fn watched(
        &mut self,
        watch: &mut Watch,
        cells: impl IntoIterator<Item = (u32, Cell)>,
        stop: &AtomicBool,
        events: &mut dyn FnMut(Event),
    ) -> bool {
        for (number, cell) in cells {
            let trial = TrialKey {
                block: 0,
                cell: number,
                attempt: 0,
            };
            events(Event::TrialStarted { trial });
            match self.watched_trial(watch, trial, &cell, stop) {
                Outcome::Ended(record) => events(Event::TrialEnded(record)),
                Outcome::Interrupted => return false,
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
    ) -> Outcome {
        let started_ms = self.elapsed_ms();
        let failed = |reason: String| {
            Record::Failure(Failure {
                trial,
                cell: cell.id(),
                started_ms,
                reason: format!("while it was watched: {reason}"),
            })
        };
        let record = match self.attempt(cell, Some(watch), stop) {
            Err(Trouble::Interrupted) => return Outcome::Interrupted,
            Err(Trouble::Failed(reason)) => failed(reason),
            Ok(parts) => {
                let flows = &parts.sender.side.flows;
                Record::Evidence(Evidence {
                    trial,
                    cell: cell.id(),
                    started_ms,
                    sent_bytes: flows.iter().map(|f| f.bytes).sum(),
                    sent_messages: flows.iter().map(|f| f.messages).sum(),
                    time: watch.seen.take(),
                })
            }
        };
        Outcome::Ended(Box::new(record))
    }
}
