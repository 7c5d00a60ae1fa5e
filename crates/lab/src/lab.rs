//! A lab makes blocks of trials and trials for evidence, and records the outcome of each.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytecost_spec::evidence::TrialEvidence;
use bytecost_spec::sample::Block;
use bytecost_spec::survey::CounterTrial;
use bytecost_spec::{Cell, Failure, Host, Record, Sample, Survey, TrialKey};
use bytecost_sys::clock;

use crate::coordinator_stop::StoppedTime;
use crate::event::Event;
use crate::files::Files;
use crate::meters::AvailableCounters;
use crate::peer::PeerLink;
use crate::protocol::ContentCheck;
use crate::run_clock::RunClock;
use crate::settings::Settings;
use crate::stall::StalledWindow;
use crate::testbed::{Peer, Testbed};
use crate::trial;
use crate::trial_error::{TrialError, TrialFailure};
use crate::trial_output::TrialOutput;
use crate::watch::Watch;
use crate::window_lengths::WindowLengths;

mod counters_cost;
mod evidence_trials;

/// The maker of a run's trials.
pub struct Lab {
    bed: Testbed,
    clock: RunClock,
    windows: WindowLengths,
}

/// The outcome of a trial.
#[derive(Debug)]
pub enum TrialOutcome {
    /// Its record; and true if a flow moved nothing in its window.
    Ended(Box<Record>, bool),
    /// It was stopped before its end, and left nothing behind.
    Interrupted,
}

/// A trial for evidence that is to be made.
#[derive(Clone, Debug)]
pub struct EvidenceTrial {
    /// The number of the trial among those of its cell.
    pub round: u32,
    /// The number of the cell in its plan.
    pub number: u32,
    /// The cell.
    pub cell: Cell,
}

/// A trial that has started.
struct StartedTrial<'c> {
    trial: TrialKey,
    cell: &'c Cell,
    started_ms: u64,
    began_ns: u64,
}

impl Lab {
    /// A lab on this machine. Its clock starts now.
    pub fn new(settings: Settings) -> Lab {
        Lab {
            clock: RunClock::start(settings.earlier),
            bed: Testbed::new(settings),
            windows: WindowLengths::default(),
        }
    }

    /// With the clocks and counters that were found here. Without a survey no perf event is read.
    pub fn surveyed(mut self, survey: &Survey) -> Lab {
        self.bed.local.counters = AvailableCounters::from_survey(survey);
        self
    }

    /// With the machine that placements are made exact on. Without one only those that name CPUs
    /// are available, and no frequency is read.
    pub fn on(mut self, host: Host) -> Lab {
        self.bed.local.host = host;
        self
    }

    /// With files at another place than the system's directory of temporary files.
    pub fn with_files(mut self, files: Files) -> Lab {
        self.bed.local.files = files;
        self
    }

    /// With another host, where one side of each cell plays whose transport leads there.
    pub fn with_peer(mut self, peer: PeerLink) -> Lab {
        self.bed.peer = Some(Peer::new(peer));
        self
    }

    /// The reason why the other host is lost for good, if it is. A block is then interrupted.
    pub fn lost_peer(&self) -> Option<&str> {
        self.bed.peer.as_ref().and_then(Peer::lost)
    }

    /// As a run that was cut short left it, by the end of its last block.
    pub fn resume(&mut self, block: &Block) {
        self.windows.resume(&block.longer);
    }

    /// Sets if windows keep their lengths, so that a trial in which a flow moved nothing fails.
    pub fn keep_windows(&mut self, keep: bool) {
        self.windows.fix(keep);
    }

    /// Ends the processes that run between trials, and calls `wait`, whose time is none of the run's.
    pub fn paused<T>(&mut self, wait: impl FnOnce() -> T) -> T {
        self.bed.end_processes();
        self.clock.pause(wait)
    }

    /// Makes one trial of a cell.
    pub fn trial(&mut self, trial: TrialKey, cell: &Cell, stop: &AtomicBool) -> TrialOutcome {
        let started = self.start(trial, cell);
        let window = self.windows.window(cell, self.bed.settings.window);
        let output = match trial::attempt(&mut self.bed, cell, window, None, stop) {
            Ok(output) => output,
            Err(TrialError::Failed(failure)) if self.lost_peer().is_none() => {
                let record = Record::Failure(started.failure(failure));
                return TrialOutcome::Ended(Box::new(record), false);
            }
            Err(_) => return TrialOutcome::Interrupted,
        };
        let is_checked_quickly = self.bed.settings.check == ContentCheck::Quick;
        let is_idle = is_checked_quickly && output.has_idle_flow();
        let record = if is_idle && self.windows.is_longest(cell) {
            started.idle(&output, window)
        } else {
            started.sample(output)
        };
        TrialOutcome::Ended(Box::new(record), is_idle)
    }

    fn start<'c>(&self, trial: TrialKey, cell: &'c Cell) -> StartedTrial<'c> {
        StartedTrial {
            trial,
            cell,
            started_ms: self.clock.elapsed_ms(),
            began_ns: clock::monotonic_ns(),
        }
    }

    /// One attempt at a block, as `(number, cell)` in this order; none when interrupted. The block has the
    /// CPU time of others, and the time for which it was stopped. A cell whose flow moved nothing has longer
    /// windows from the next block on.
    pub fn block(
        &mut self,
        (block, attempt): (u32, u32),
        order: impl IntoIterator<Item = (u32, Cell)>,
        stop: &AtomicBool,
        events: &mut dyn FnMut(Event),
    ) -> Option<Block> {
        // What was used until now is of no block.
        self.bed.with_others_use(Block::default(), stop);
        let began_ns = clock::monotonic_ns();
        let stopped = StoppedTime::begin();
        let mut too_short = BTreeMap::new();
        let mut left = order.into_iter().peekable();
        while let Some((number, cell)) = left.next() {
            self.bed.next_is(left.peek().map(|(_, next)| next));
            let trial = TrialKey {
                block,
                cell: number,
                attempt,
            };
            events(Event::TrialStarted { trial });
            let TrialOutcome::Ended(record, is_idle) = self.trial(trial, &cell, stop) else {
                return None;
            };
            events(Event::TrialEnded(record));
            if is_idle {
                // A cell and its twin are the same measurement.
                let cell = Cell {
                    twin: false,
                    ..cell
                };
                too_short.insert(cell.id(), cell);
            }
        }
        // All trials of a cell in a block have one length, those of its twin included.
        for cell in too_short.values() {
            self.windows.lengthen(cell);
        }
        Some(Block {
            block,
            attempt,
            elapsed_ns: clock::monotonic_ns() - began_ns,
            stopped_ns: stopped.ns(),
            ended_ms: self.clock.elapsed_ms(),
            longer: self.windows.multiples().clone(),
            ..self.bed.with_others_use(Block::default(), stop)
        })
    }

    /// Makes trials for evidence that begin within `limit`; false when interrupted.
    pub fn watch(
        &mut self,
        watch: &mut Watch,
        trials: impl IntoIterator<Item = EvidenceTrial>,
        limit: Option<Duration>,
        stop: &AtomicBool,
        events: &mut dyn FnMut(Event),
    ) -> bool {
        // Instruments open before the time begins. Where they cannot, trials fail with the reason.
        let _ = self.bed.open_instruments(watch, stop);
        let began_ns = clock::monotonic_ns();
        let mut left = trials.into_iter().peekable();
        while let Some(EvidenceTrial {
            round,
            number,
            cell,
        }) = left.next()
        {
            self.bed.next_is(left.peek().map(|next| &next.cell));
            let spent = Duration::from_nanos(clock::monotonic_ns() - began_ns);
            if limit.is_some_and(|limit| spent >= limit) {
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
            let started = self.start(trial, &cell);
            let record = match evidence_trials::collect(&mut self.bed, watch, &cell, stop) {
                Ok(evidence) => started.evidence(evidence),
                Err(TrialError::Interrupted) => return false,
                Err(TrialError::Failed(failure)) => {
                    let failure = failure.map(|reason| format!("while it was watched: {reason}"));
                    Record::Failure(Failure {
                        for_evidence: true,
                        ..started.failure(failure)
                    })
                }
            };
            events(Event::TrialEnded(Box::new(record)));
        }
        true
    }

    /// Reads the task clock where hardware counters would be read, so that it is tested everywhere.
    pub fn stand_in_for_counters(&mut self) {
        self.bed.local.counters.stand_in = true;
        self.bed.local.counters.no_hardware = None;
    }

    /// Trials of `null` and `send`, by turns with counters and without; failed ones are left out.
    pub fn counters_cost(&mut self, stop: &AtomicBool) -> Vec<CounterTrial> {
        counters_cost::measure(&mut self.bed, stop)
    }
}

impl StartedTrial<'_> {
    fn elapsed_ms(&self) -> u64 {
        (clock::monotonic_ns() - self.began_ns) / 1_000_000
    }

    fn failure(&self, failure: TrialFailure) -> Failure {
        Failure {
            trial: self.trial,
            cell: self.cell.id(),
            started_ms: self.started_ms,
            reason: failure.reason,
            stood_still_ns: None,
            wrong_bytes: failure.wrong_bytes,
            for_evidence: false,
        }
    }

    /// The failure of a trial in which a flow moved nothing, whose windows are as long as they may be.
    fn idle(&self, output: &TrialOutput, window: Duration) -> Record {
        let stalls = output.used_no_cpu() && !self.cell.is_served();
        let stall = (stalls.then(|| StalledWindow::find(output, window))).flatten();
        Record::Failure(match stall {
            Some(stall) => Failure {
                stood_still_ns: Some(stall.length.as_nanos() as u64),
                ..self.failure(stall.to_string().into())
            },
            None => self.failure(nothing_moved(self.cell, window).into()),
        })
    }

    fn evidence(&self, collected: TrialEvidence) -> Record {
        Record::Evidence(TrialEvidence {
            trial: self.trial,
            cell: self.cell.id(),
            started_ms: self.started_ms,
            trial_ms: self.elapsed_ms(),
            ..collected
        })
    }

    fn sample(&self, output: TrialOutput) -> Record {
        Record::Sample(Sample {
            trial: self.trial,
            cell: self.cell.id(),
            started_ms: self.started_ms,
            trial_ms: self.elapsed_ms(),
            sender: output.sender.side,
            // A responder receives nothing, and what it counts is with the machine's.
            receiver: (output.receiver)
                .filter(|_| self.cell.transport.has_receiver())
                .map(|r| r.side),
            machine: output.machine,
            peer_machine: output.peer_machine,
            truth: output.truth,
            latency_ns_histogram: output.sender.latency_ns_histogram,
            neighbour: output.neighbour,
            packet_sockets: output.packet_sockets,
            obstacles: output.obstacles,
        })
    }
}

/// The failure of a trial in which a flow moved nothing, however long its window.
fn nothing_moved(cell: &Cell, window: Duration) -> String {
    let (ms, served) = (window.as_millis(), cell.is_served());
    let fewer = if served { "connections" } else { "threads" };
    format!(
        "a flow moved nothing within {ms} ms: use a longer --window or fewer --{fewer}, or stop other programs"
    )
}
