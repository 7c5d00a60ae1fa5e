//! Trials for evidence: the same two processes and the same window, with somebody who watches
//! what the CPUs do. Watching disturbs, so that these trials are never compared by their times.

use std::io;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytecost_engine::Mover;
use bytecost_evidence::TimeSampler;
use bytecost_evidence::time::Parties;
use bytecost_spec::evidence::{Evidence, TimeByKind};
use bytecost_spec::host::Cache;
use bytecost_spec::{Cell, Failure, Host, Record, TrialKey};
use bytecost_sys::clock;

use crate::ends::{Endpoint, Trouble, wait_until};
use crate::event::Event;
use crate::protocol::{Answer, Role};
use crate::trial::{Lab, Outcome};

/// From one look at the samplers to the next.
const TAKE_NS: u64 = 20_000_000;

/// The round of the trials whose sender looks at its footprint.
const FOOTPRINT_ROUND: u32 = 2;

/// Who watches, and what was seen in the last window.
#[derive(Debug)]
pub struct Watch {
    time: Option<TimeSampler>,
    /// Whether the sender looks at its footprint in the caches.
    probes: bool,
    window: Duration,
    seen: Option<TimeByKind>,
}

impl Watch {
    /// Watches the CPUs of this machine in windows of this length.
    ///
    /// # Errors
    /// Why the CPUs cannot be watched here, and what to do about it.
    pub fn of_time(cpus: &[u32], window: Duration) -> io::Result<Watch> {
        Ok(Watch {
            time: Some(TimeSampler::open(Path::new("/"), cpus)?),
            probes: false,
            window,
            seen: None,
        })
    }

    /// Has the sender look at what it displaces from its caches, in windows of this length.
    #[must_use]
    pub fn of_footprint(window: Duration) -> Watch {
        Watch {
            time: None,
            probes: true,
            window,
            seen: None,
        }
    }

    /// Which of the trials for evidence that a cell has: one disturbs what another looks at.
    #[must_use]
    pub fn round(&self) -> u32 {
        if self.probes { FOOTPRINT_ROUND } else { 0 }
    }

    /// Whether there is anything to see in a cell. Nobody watches a server yet: its work is that
    /// of processes of its own; and what a program does that a mover starts, is done elsewhere.
    #[must_use]
    pub fn is_for(&self, cell: &Cell) -> bool {
        let helped = Mover::named(&cell.mover).is_some_and(Mover::is_helped);
        !(cell.is_served() || self.probes && helped)
    }

    /// The caches that the sender is to look at: those of the CPU that it is held on, else those
    /// of the first.
    pub(crate) fn caches(&self, host: &Host, pins: &[Vec<u32>]) -> Vec<Cache> {
        if !self.probes {
            return Vec::new();
        }
        let first = host.cpus.first().map_or(0, |c| c.cpu);
        let cpu = pins.first().and_then(|set| set.first()).copied();
        caches_of(host, cpu.unwrap_or(first))
    }

    /// How long its windows are.
    #[must_use]
    pub fn window(&self) -> Duration {
        self.window
    }

    /// The window opens.
    pub(crate) fn begin(&mut self) -> io::Result<()> {
        self.seen = None;
        match &mut self.time {
            Some(time) => time.begin(),
            None => Ok(()),
        }
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
            if let Some(time) = &mut self.time {
                time.take();
            }
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
        if let Some(time) = &mut self.time {
            self.seen = Some(time.end(parties)?);
        }
        Ok(())
    }
}

/// The caches of data of a CPU, nearest first, each level once.
fn caches_of(host: &Host, cpu: u32) -> Vec<Cache> {
    let own = |c: &&Cache| c.kind != "Instruction" && c.shared_by.contains(&cpu);
    let mut caches: Vec<Cache> = host.caches.iter().filter(own).cloned().collect();
    caches.sort_by_key(|c| c.level);
    caches.dedup_by_key(|c| c.level);
    caches
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
                block: watch.round(),
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
                    footprint: parts.sender.footprint,
                })
            }
        };
        Outcome::Ended(Box::new(record))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caches_are_those_of_the_cpu_that_the_sender_is_held_on() {
        let cache = |level, kind: &str, size_bytes, cpu| Cache {
            level,
            kind: kind.to_owned(),
            size_bytes,
            shared_by: vec![cpu],
        };
        let both = |size_bytes| Cache {
            shared_by: vec![0, 1],
            ..cache(3, "Unified", size_bytes, 0)
        };
        let host = Host {
            caches: vec![
                both(32 << 20),
                cache(1, "Instruction", 1 << 10, 1),
                cache(1, "Data", 32 << 10, 0),
                cache(1, "Data", 48 << 10, 1),
                cache(2, "Unified", 1 << 20, 1),
            ],
            ..Host::default()
        };
        let sizes = |watch: &Watch, pins: &[Vec<u32>]| -> Vec<u64> {
            let caches = watch.caches(&host, pins);
            caches.iter().map(|c| c.size_bytes >> 10).collect()
        };
        let probing = Watch::of_footprint(Duration::from_millis(1));
        assert_eq!(sizes(&probing, &[]), [32, 32 << 10]);
        assert_eq!(sizes(&probing, &[vec![1, 0]]), [48, 1 << 10, 32 << 10]);
        let blind = Watch {
            probes: false,
            ..probing
        };
        assert_eq!(sizes(&blind, &[]), [0; 0]);
    }
}
