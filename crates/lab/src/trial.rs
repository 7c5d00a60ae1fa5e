//! A trial: two fresh processes, one window, one sample.

use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytecost_engine::Mover;
use bytecost_engine::java::{self, Compiled, START_PATIENCE};
use bytecost_host::Roots;
use bytecost_meter::{FrequencyMeter, MachineMeter, huge_memory, of_process};
use bytecost_plan::Pins;
use bytecost_spec::reading::Of;
use bytecost_spec::{Cell, Counter, Failure, Host, Reading, Record, Sample, TrialKey};
use bytecost_sys::clock;

use crate::beside::{Around, Beside};
use crate::ends::{Endpoint, PATIENCE, Trouble, wait};
use crate::event::Event;
use crate::files::Files;
use crate::groups::Group;
use crate::meters::Means;
use crate::networks::{self, Between, Eavesdroppers, Networks};
pub(crate) use crate::parts::Parts;
use crate::passes::Passes;
use crate::protocol::{Answer, Check, Done, Order, Role, Task};
use crate::truth;
use crate::watch::Watch;
use crate::window::{self, GRACE_NS, Span, out_of_turn};

mod served;

/// How long a sender may take to learn its caches' hits from their misses.
const CALIBRATION_NS: u64 = 60_000_000_000;

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
    frequency: FrequencyMeter,
    networks: Networks,
    started_ns: u64,
    trials: u32,
    repeats: u32,
    files: Files,
    host: Host,
    /// How many times as long as usual the windows of a cell with a server are, by its id.
    longer: BTreeMap<String, u32>,
    /// The program of movers that have Java do their work: made for the first cell that needs it.
    compiled: Option<Compiled>,
    pub(crate) means: Means,
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
            frequency: FrequencyMeter::default(),
            networks: Networks::default(),
            started_ns: clock::monotonic_ns(),
            trials: 0,
            repeats: 0,
            files: Files::default(),
            host: Host::default(),
            longer: BTreeMap::new(),
            compiled: None,
            means: Means::default(),
        }
    }

    /// With the machine that placements are made exact on. Without one only those that name CPUs
    /// can be had, and no frequency is read.
    #[must_use]
    pub fn on(mut self, host: Host) -> Lab {
        let cpus: Vec<u32> = host.cpus.iter().map(|c| c.cpu).collect();
        self.frequency = FrequencyMeter::open(Path::new("/"), &cpus);
        self.host = host;
        self
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
        let mut attempt = self.attempt(cell, None, stop);
        while matches!(&attempt, Ok(parts) if parts.is_empty()) && self.lengthen(cell) {
            attempt = self.attempt(cell, None, stop);
        }
        let record = match attempt {
            Ok(parts) if !may_repeat && self.settings.check == Check::Quick && parts.is_empty() => {
                let fewer = match cell.is_served() {
                    true => ", ask over fewer --connections",
                    false => "",
                };
                let reason = format!(
                    "{NOTHING_MOVED}: lengthen it with --window{fewer}, or quieten the machine"
                );
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
                    neighbour: parts.neighbour,
                    packet_sockets: parts.packet_sockets,
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

    /// What the sender is to do, but for its address: the file and the Java program that it needs
    /// are made.
    fn task(&mut self, cell: &Cell, mover: Option<&Mover>, pins: &Pins) -> io::Result<Task> {
        let is_of_files = mover.is_some_and(|m| m.route.is_of_files());
        let is_helped = mover.is_some_and(Mover::is_helped);
        if is_helped && self.compiled.is_none() {
            self.compiled = Some(Compiled::new(&java::find()?, START_PATIENCE)?);
        }
        let java = self.compiled.as_ref().map(Compiled::path);
        Ok(Task {
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
            pins: pins.sender.clone(),
            file: self.files.prepare(cell)?,
            java: java.filter(|_| is_helped),
            probed: Vec::new(),
            doors: Vec::new(),
            meters: self.means.meters(cell, pins, self.settings.window),
        })
    }

    /// One trial's two processes and window, watched where there is somebody who watches.
    pub(crate) fn attempt(
        &mut self,
        cell: &Cell,
        mut watch: Option<&mut Watch>,
        stop: &AtomicBool,
    ) -> Result<Parts, Trouble> {
        if cell.is_served() {
            return self.served(cell, watch, stop);
        }
        let mover = Mover::named(&cell.mover);
        let has_peer = mover.is_some_and(Mover::has_peer);
        let moves = mover.is_some_and(|m| !m.moves_nothing());
        let is_of_cpus = mover.is_some_and(|m| m.route.is_of_cpus());
        let pins = Pins::of(cell, has_peer, &self.host).map_err(Trouble::Failed)?;
        let mut task = self.task(cell, mover, &pins)?;
        if let Some(watch) = &watch {
            task.probed = watch.caches(&self.host, &task.pins);
        }
        // Removed after the processes in it, which are dropped before it.
        let group = Group::make(&Roots::real(), &cell.cgroup, &self.host.cpus_allowed)
            .map_err(Trouble::Failed)?;
        task.doors = group.as_ref().map(Group::doors).unwrap_or_default();
        let between = match has_peer {
            true => self.networks.between(cell)?,
            false => Between::Nothing,
        };
        let passes = Passes::of(cell);
        let slowest_ns = passes.map_or(0, |p| p.most_ns(cell.threads));
        let own = task.file.as_ref().is_none_or(|file| file.own);
        let ready_ns = slowest_ns + start_ns(&task);
        let receiver = has_peer.then_some(pins.receiver);
        let started = started(&self.settings, task, receiver, between, ready_ns, stop)?;
        let (mut ends, address) = started;
        if let Some(watch) = &mut watch {
            watch.trial_begins(cell, &ends, address.as_deref())?;
        }
        let network = networks::meter(cell, &ends);
        let eavesdroppers = Eavesdroppers::of(cell, &ends);
        let registers = mover.is_some_and(|m| m.locks_rings > 0);
        let huge_bytes = ends.last().filter(|_| registers).and_then(huge_bytes);
        let span = Span {
            warmup: self.settings.warmup,
            window: watch
                .as_ref()
                .map_or(self.settings.window, |watch| watch.window()),
            slowest_ns,
        };
        let program = &self.settings.program;
        let most_ns = span.most_ns();
        let mut beside = Beside::start(program, cell, pins.neighbour, &self.host, most_ns, stop)?;
        let carry = match passes {
            Some(_) => window::by_passes,
            None => window::by_clock,
        };
        let mut machine = Around {
            meter: &mut self.machine,
            frequency: &self.frequency,
            beside: beside.as_ref(),
            group: group.as_ref(),
        };
        let watching = watch.as_deref_mut();
        let (mut machine, mut done) =
            carry(&mut machine, &mut ends, &network, span, watching, stop)?;
        if let Some(watch) = watch {
            watch.trial_ended();
        }
        let neighbour = beside.as_mut().map(|beside| beside.end(stop));
        let neighbour = neighbour.transpose()?.unwrap_or_default();
        let mut sender = done
            .pop()
            .ok_or_else(|| Trouble::Failed("the sender said nothing".to_owned()))?;
        let huge = huge_bytes.map(|n| (Counter::HugeMemoryBytes, Reading::Measured(n)));
        sender.side.readings.extend(huge);
        let receiver = done.pop();
        let truth = match &receiver {
            Some(receiver) => Some(truth::of_both(cell, own, &sender, receiver)?),
            None if is_of_cpus => Some(truth::of_work(&sender)),
            None => moves.then(|| truth::of_one(&sender)),
        };
        machine.extend(of_responder(cell, receiver.as_ref()));
        Ok(Parts {
            sender,
            receiver,
            machine,
            truth,
            neighbour,
            packet_sockets: eavesdroppers.all(),
        })
    }

    /// Why the trial should be repeated, if it should.
    fn spoilt(&self, parts: &Parts) -> Option<String> {
        if parts.is_empty() {
            Some(NOTHING_MOVED.to_owned())
        } else {
            let bound = self.settings.neighbour_bound;
            parts.read_late().or_else(|| parts.crowded(bound))
        }
    }
}

/// How long a sender may take to start what it works with, beside its longest message.
fn start_ns(task: &Task) -> u64 {
    match task.java {
        Some(_) => START_PATIENCE.as_nanos() as u64,
        None if task.probed.is_empty() => 0,
        None => CALIBRATION_NS,
    }
}

/// Pages that are given to the kernel for good: how large they are decides what they cost.
fn huge_bytes(end: &Endpoint) -> Option<u64> {
    huge_memory(&of_process(end.pid()))
}

/// What the far end of wire has read of its machine, in a receiver's place.
fn of_responder(cell: &Cell, far: Option<&Done>) -> Vec<(Counter, Reading)> {
    let responder = far.filter(|_| !cell.transport.has_receiver());
    let all = responder.into_iter().flat_map(|r| &r.side.readings);
    let of_machine = all.filter(|(counter, _)| counter.row().of == Of::Machine);
    of_machine
        .map(|(counter, reading)| (*counter, reading.clone()))
        .collect()
}

/// The processes of a trial, ready and waiting: the receiver's first, where there is one with
/// these pins, and where it listens.
fn started(
    settings: &Settings,
    task: Task,
    receiver: Option<Vec<Vec<u32>>>,
    between: Between<'_>,
    ready_ns: u64,
    stop: &AtomicBool,
) -> Result<(Vec<Endpoint>, Option<String>), Trouble> {
    let start = |role| Endpoint::start(&settings.program, role, between.of(role));
    let mut ends = Vec::with_capacity(2);
    let mut address = None;
    if let Some(pins) = receiver {
        ends.push(start(Role::Receiver)?);
        ends[0].order(&Order::Prepare(Box::new(Task {
            role: Role::Receiver,
            port: settings.port,
            pins,
            ..task.clone()
        })))?;
        if let Some(wire) = between.wire() {
            ends[0].hand_over(wire.descriptors())?;
        }
        match wait(&mut ends, clock::monotonic_ns() + GRACE_NS, stop)? {
            (_, Answer::Listening { address: at, .. }) => address = Some(at),
            (_, other) => return Err(out_of_turn(&other)),
        }
    }
    ends.push(start(Role::Sender)?);
    let last = ends.len() - 1;
    ends[last].order(&Order::Prepare(Box::new(Task {
        address: address.clone(),
        ..task
    })))?;
    for _ in 0..ends.len() {
        let until_ns = clock::monotonic_ns() + GRACE_NS + ready_ns;
        match wait(&mut ends, until_ns, stop)? {
            (_, Answer::Ready) => {}
            (_, other) => return Err(out_of_turn(&other)),
        }
    }
    Ok((ends, address))
}
