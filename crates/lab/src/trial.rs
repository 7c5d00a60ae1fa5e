//! A trial: two fresh processes, one window, one sample.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytecost_engine::Mover;
use bytecost_engine::java::{self, Compiled, START_PATIENCE};
use bytecost_meter::MachineMeter;
use bytecost_spec::reading::Of;
use bytecost_spec::sample::Truth;
use bytecost_spec::{Cell, Counter, Failure, Reading, Readings, Record, Sample, TrialKey};
use bytecost_sys::clock;

use crate::ends::{Endpoint, PATIENCE, Trouble, wait};
use crate::event::Event;
use crate::files::Files;
use crate::networks::{self, Between, Networks};
use crate::passes::Passes;
use crate::protocol::{Answer, Check, Done, Order, Role, Task};
use crate::truth;
use crate::watch::Watch;
use crate::window::{self, GRACE_NS, Span, out_of_turn};

/// Said of a trial that has nothing to tell.
const NOTHING_MOVED: &str = "no byte was moved within the window";

/// How trials are made.
#[derive(Debug)]
pub struct Settings {
    /// The program that plays the endpoints when called as `PROGRAM endpoint PID`.
    pub program: PathBuf,
    /// Time before the window.
    pub warmup: Duration,
    /// Length of the window.
    pub window: Duration,
    /// How much of the payload is checked.
    pub check: Check,
    /// The TCP port of receivers; none takes a free one each time.
    pub port: Option<u16>,
    /// CPU time of others, as a share of the machine, above which a trial is repeated.
    pub neighbour_bound: f64,
    /// How often at most one trial is repeated.
    pub repeats_most: u32,
    /// Repeats at most, as a share of all trials: where the neighbour does not go away, repeating
    /// only spends the budget.
    pub repeats_share: f64,
    /// Time that the run had taken before this process began it.
    pub earlier: Duration,
}

/// Where trials are made.
pub struct Lab {
    settings: Settings,
    machine: MachineMeter,
    networks: Networks,
    started_ns: u64,
    trials: u32,
    repeats: u32,
    files: Files,
    /// The program of movers that have Java do their work: made for the first cell that needs it.
    compiled: Option<Compiled>,
}

/// What became of a trial.
#[derive(Debug)]
pub enum Outcome {
    /// It is told.
    Ended(Box<Record>),
    /// It was told to stop before it was over, and left nothing behind.
    Interrupted,
}

impl Lab {
    /// A lab on this machine. Its clock starts now.
    #[must_use]
    pub fn new(settings: Settings, machine: MachineMeter) -> Lab {
        Lab {
            settings,
            machine,
            networks: Networks::default(),
            started_ns: clock::monotonic_ns(),
            trials: 0,
            repeats: 0,
            files: Files::default(),
            compiled: None,
        }
    }

    /// With files at another place than the system's directory of temporary files.
    #[must_use]
    pub fn with_files(mut self, files: Files) -> Lab {
        self.files = files;
        self
    }

    /// Carries out one block: the cells in this order, as `(number, first attempt, cell)`, each
    /// repeated while its neighbours are too busy. The first attempt is 0 unless an earlier
    /// process has made some. False when it was interrupted.
    pub fn block(
        &mut self,
        block: u32,
        order: impl IntoIterator<Item = (u32, u32, Cell)>,
        stop: &AtomicBool,
        events: &mut dyn FnMut(Event),
    ) -> bool {
        for (number, first, cell) in order {
            for attempt in first..=self.settings.repeats_most.max(first) {
                let trial = TrialKey {
                    block,
                    cell: number,
                    attempt,
                };
                events(Event::TrialStarted { trial });
                let may_repeat = attempt < self.settings.repeats_most && self.may_repeat();
                let Outcome::Ended(record) = self.trial(trial, &cell, may_repeat, stop) else {
                    return false;
                };
                let repeat = matches!(&*record, Record::Sample(s) if s.repeated_because.is_some());
                events(Event::TrialEnded(record));
                self.trials += 1;
                if !repeat {
                    break;
                }
                self.repeats += 1;
            }
        }
        events(Event::BlockEnded { block });
        true
    }

    fn may_repeat(&self) -> bool {
        // A few are free, so that a single disturbance at the start is not kept.
        const FREE: f64 = 3.0;
        f64::from(self.repeats) < FREE + self.settings.repeats_share * f64::from(self.trials)
    }

    /// Makes one trial of a cell.
    pub fn trial(
        &mut self,
        trial: TrialKey,
        cell: &Cell,
        may_repeat: bool,
        stop: &AtomicBool,
    ) -> Outcome {
        let began_ns = clock::monotonic_ns();
        let started_ms = self.elapsed_ms();
        let record = match self.attempt(cell, None, stop) {
            Ok(parts) if !may_repeat && self.settings.check == Check::Quick && parts.is_empty() => {
                let reason =
                    format!("{NOTHING_MOVED}: lengthen it with --window, or quieten the machine");
                Record::Failure(Failure {
                    trial,
                    cell: cell.id(),
                    started_ms,
                    reason,
                })
            }
            Ok(parts) => {
                let repeated_because = if may_repeat {
                    self.spoilt(&parts)
                } else {
                    None
                };
                Record::Sample(Sample {
                    trial,
                    cell: cell.id(),
                    started_ms,
                    trial_ms: (clock::monotonic_ns() - began_ns) / 1_000_000,
                    sender: parts.sender.side,
                    // A responder receives nothing, and what it counts is with the machine's.
                    receiver: parts
                        .receiver
                        .filter(|_| cell.transport.has_receiver())
                        .map(|r| r.side),
                    machine: parts.machine,
                    truth: parts.truth,
                    latency_ns_histogram: parts.sender.latency_ns_histogram,
                    repeated_because,
                })
            }
            Err(Trouble::Interrupted) => return Outcome::Interrupted,
            Err(Trouble::Failed(reason)) => Record::Failure(Failure {
                trial,
                cell: cell.id(),
                started_ms,
                reason,
            }),
        };
        Outcome::Ended(Box::new(record))
    }

    /// Time of the run so far, in ms.
    pub(crate) fn elapsed_ms(&self) -> u64 {
        (clock::monotonic_ns() - self.started_ns) / 1_000_000
            + self.settings.earlier.as_millis() as u64
    }

    /// One trial's two processes and window, watched where there is somebody who watches.
    pub(crate) fn attempt(
        &mut self,
        cell: &Cell,
        watch: Option<&mut Watch>,
        stop: &AtomicBool,
    ) -> Result<Parts, Trouble> {
        let mover = Mover::named(&cell.mover);
        let has_peer = mover.is_some_and(Mover::has_peer);
        let is_of_files = mover.is_some_and(|m| m.route.is_of_files());
        let file = self.files.prepare(cell)?;
        let is_helped = mover.is_some_and(Mover::is_helped);
        if is_helped && self.compiled.is_none() {
            self.compiled = Some(Compiled::new(&java::find()?, START_PATIENCE)?);
        }
        let java = self.compiled.as_ref().map(Compiled::path);
        let between = match has_peer {
            true => self.networks.between(cell)?,
            false => Between::Nothing,
        };
        let program = &self.settings.program;
        let passes = Passes::of(cell);
        let slowest_ns = passes.map_or(0, |p| p.most_ns(cell.threads));
        let mut ends = Vec::with_capacity(2);
        let own = file.as_ref().is_none_or(|file| file.own);
        let task = Task {
            role: Role::Sender,
            cell: cell.clone(),
            port: None,
            address: None,
            token: RandomState::new().build_hasher().finish(),
            check: self.settings.check,
            // A full check goes round the ring, however slow the machine is.
            messages_least: match self.settings.check {
                Check::Quick => 0,
                Check::Full if is_of_files => 3 * cell.file_slots(),
                Check::Full => 3 * cell.ring_slots(),
            },
            patience_ms: PATIENCE.as_millis() as u64,
            file,
            java: java.filter(|_| is_helped),
        };
        let mut address = None;
        if has_peer {
            ends.push(Endpoint::start(
                program,
                Role::Receiver,
                between.of(Role::Receiver),
            )?);
            ends[0].order(&Order::Prepare(Box::new(Task {
                role: Role::Receiver,
                port: self.settings.port,
                ..task.clone()
            })))?;
            if let Some(wire) = between.wire() {
                ends[0].hand_over(wire.descriptors())?;
            }
            match wait(&mut ends, clock::monotonic_ns() + GRACE_NS, stop)? {
                (_, Answer::Listening { address: at }) => address = Some(at),
                (_, other) => return Err(out_of_turn(&other)),
            }
        }
        ends.push(Endpoint::start(
            program,
            Role::Sender,
            between.of(Role::Sender),
        )?);
        let last = ends.len() - 1;
        ends[last].order(&Order::Prepare(Box::new(Task { address, ..task })))?;
        let ready_ns = if is_helped {
            GRACE_NS + START_PATIENCE.as_nanos() as u64
        } else {
            GRACE_NS
        };
        for _ in 0..ends.len() {
            match wait(
                &mut ends,
                clock::monotonic_ns() + ready_ns + slowest_ns,
                stop,
            )? {
                (_, Answer::Ready) => {}
                (_, other) => return Err(out_of_turn(&other)),
            }
        }
        let network = networks::meter(cell, &ends);
        let span = Span {
            warmup: self.settings.warmup,
            window: watch
                .as_ref()
                .map_or(self.settings.window, |watch| watch.window()),
            slowest_ns,
        };
        let carry = match passes {
            Some(_) => window::by_passes,
            None => window::by_clock,
        };
        let (mut machine, mut done) =
            carry(&mut self.machine, &mut ends, &network, span, watch, stop)?;
        let sender = done
            .pop()
            .ok_or_else(|| Trouble::Failed("the sender said nothing".to_owned()))?;
        let receiver = done.pop();
        let truth = match &receiver {
            Some(receiver) => Some(truth::of_both(cell, own, &sender, receiver)?),
            None => is_of_files.then(|| truth::of_file(&sender)),
        };
        if let Some(responder) = receiver.as_ref().filter(|_| !cell.transport.has_receiver()) {
            let readings = responder.side.readings.iter();
            machine.extend(
                readings
                    .filter(|(counter, _)| counter.row().of == Of::Machine)
                    .map(|(counter, reading)| (*counter, reading.clone())),
            );
        }
        Ok(Parts {
            sender,
            receiver,
            machine,
            truth,
        })
    }

    /// Why the trial should be repeated, if it should.
    fn spoilt(&self, parts: &Parts) -> Option<String> {
        if parts.is_empty() {
            Some(NOTHING_MOVED.to_owned())
        } else {
            self.too_busy(parts)
        }
    }

    /// Whether anything else used too much of the machine.
    fn too_busy(&self, parts: &Parts) -> Option<String> {
        let get = |readings: &Readings, counter| readings.get(&counter).and_then(Reading::measured);
        let busy = get(&parts.machine, Counter::MachineBusyNs)? as f64;
        let step = get(&parts.machine, Counter::MachineBusyResolutionNs).unwrap_or(0) as f64;
        let capacity = get(&parts.machine, Counter::MachineElapsedNs)? as f64
            * get(&parts.machine, Counter::MachineCpus)? as f64;
        let mut own = 0.0;
        for side in [Some(&parts.sender), parts.receiver.as_ref()]
            .into_iter()
            .flatten()
        {
            own += get(&side.side.readings, Counter::CpuNs)? as f64;
            own += get(&side.side.readings, Counter::AsideNs).unwrap_or(0) as f64;
        }
        // What one step of the clock could feign does not count as a neighbour.
        let share = (busy - own - 2.0 * step) / capacity;
        (share > self.settings.neighbour_bound).then(|| {
            format!(
                "others used {:.0} % of the machine's CPU time, more than {:.0} %",
                share * 100.0,
                self.settings.neighbour_bound * 100.0
            )
        })
    }
}

pub(crate) struct Parts {
    pub(crate) sender: Done,
    /// The receiver, or who stands in its place.
    receiver: Option<Done>,
    machine: Readings,
    truth: Option<Truth>,
}

impl Parts {
    /// A side that was kept off its CPU for the whole window has nothing to tell.
    fn is_empty(&self) -> bool {
        let moved = |done: &Done| done.side.flows.iter().any(|f| f.bytes > 0);
        !moved(&self.sender) || self.receiver.as_ref().is_some_and(|r| !moved(r))
    }
}
