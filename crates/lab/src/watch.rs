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

    /// The next answer of any side, or none by `until_ns`; what the samplers have is taken
    /// meanwhile.
    pub(crate) fn wait_until(
        &mut self,
        ends: &mut [Endpoint],
        until_ns: u64,
        stop: &AtomicBool,
    ) -> Result<Option<(usize, Answer)>, Trouble> {
        loop {
            let now_ns = clock::monotonic_ns();
            let answer = wait_until(ends, until_ns.min(now_ns + TAKE_NS), stop)?;
            self.time.take();
            if answer.is_some() || now_ns >= until_ns {
                return Ok(answer);
            }
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
