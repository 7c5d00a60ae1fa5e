//! A trial: two fresh processes, one window, one sample.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytecost_engine::Mover;
use bytecost_engine::java::START_PATIENCE;
use bytecost_host::Roots;
use bytecost_meter::{CoreToCoreMeter, MachineMeter, huge_memory};
use bytecost_plan::Pins;
use bytecost_spec::{
    Cell, Counter, Failure, Host, Reading, Record, Sample, Survey, Transport, TrialKey,
};
use bytecost_sys::{clock, proc_view};

use crate::endpoint_process::{Endpoint, PATIENCE, StartedAhead, TrialError, all_ended};
use crate::files::{DISK_PATIENCE, Files};
use crate::greeters::FlowKey;
use crate::local_host::LocalHost;
use crate::meters::AvailableCounters;
use crate::neighbour_process::NeighbourProcess;
use crate::networks::{self, Eavesdroppers, NetworkPath, Networks};
use crate::obstacles;
use crate::passes::Passes;
use crate::peer::PeerLink;
use crate::program::Program;
use crate::protocol::{ContentCheck, Meets, Role, Task};
use crate::quotas::Quotas;
use crate::stall::StalledWindow;
pub(crate) use crate::trial_output::TrialOutput;
use crate::watch::Watch;
use crate::whole_machine::{CoreToCore, Instruments, WholeMachine, owners};
use crate::window::{self, Talk, WindowTimes};

mod block;
mod served;
mod sides;

use sides::Sides;

/// How long a sender may take to learn its caches' hits from their misses.
const CALIBRATION_NS: u64 = 60_000_000_000;

/// How trials are made.
#[derive(Debug)]
pub struct Settings {
    /// The program that plays the endpoints when called as `PROGRAM endpoint PID`.
    pub program: Program,
    /// Time before the window.
    pub warmup: Duration,
    /// Length of the window.
    pub window: Duration,
    /// How much of the payload is checked.
    pub check: ContentCheck,
    /// The TCP port of receivers; none takes a free one each time.
    pub port: Option<u16>,
    /// CPUs that other processes may use in the mean over a block, above which the block is
    /// measured again.
    pub foreign_cpus: f64,
    /// How often at most one block is measured again for that.
    pub repeats_most: u32,
    /// Time that may go into such repeats: where others do not go away, repeating only spends the
    /// budget.
    pub repeats_for: Duration,
    /// Time that the run had taken before this process began it.
    pub earlier: Duration,
}

impl Settings {
    /// Of trials that are not measured again, on any free port; how long they take is not said.
    pub fn of_single_trials(program: Program, check: ContentCheck) -> Settings {
        Settings {
            program,
            warmup: Duration::ZERO,
            window: Duration::ZERO,
            check,
            port: None,
            foreign_cpus: f64::INFINITY,
            repeats_most: 0,
            repeats_for: Duration::ZERO,
            earlier: Duration::ZERO,
        }
    }
}

/// Where trials are made.
pub struct Lab {
    settings: Settings,
    instruments: Instruments,
    /// Of the two CPUs of the cell before, where its ends had two.
    core_to_core: Option<CoreToCoreMeter>,
    /// What keeps CPUs awake beside the cell before, where it had that.
    background: Option<NeighbourProcess>,
    networks: Networks,
    quotas: Quotas,
    started_ns: u64,
    /// Time that went into blocks that were measured again.
    repeated: Duration,
    pub(crate) local: LocalHost,
    /// How many times as long as usual the windows of a cell are, by its id.
    longer: BTreeMap<String, u32>,
    /// Whether they stay as they are.
    windows_stay: bool,
    ahead: StartedAhead,
    /// The other host, where there is one, and why it is lost for good, if it is.
    peer: Option<PeerLink>,
    peer_lost: Option<String>,
}

/// What became of a trial.
#[derive(Debug)]
pub enum TrialOutcome {
    /// It is told; and whether a flow moved nothing in its window.
    Ended(Box<Record>, bool),
    /// It was told to stop before it was over, and left nothing behind.
    Interrupted,
}

impl Lab {
    /// A lab on this machine. Its clock starts now.
    pub fn new(settings: Settings, machine: MachineMeter) -> Lab {
        Lab {
            settings,
            instruments: Instruments::new(machine),
            core_to_core: None,
            background: None,
            networks: Networks::default(),
            quotas: Quotas::open(&Roots::real()),
            started_ns: clock::monotonic_ns(),
            repeated: Duration::ZERO,
            local: LocalHost::default(),
            longer: BTreeMap::new(),
            windows_stay: false,
            ahead: StartedAhead::default(),
            peer: None,
            peer_lost: None,
        }
    }

    /// With the clocks and counters that were found here. Without a survey no perf event is read.
    pub fn surveyed(mut self, survey: &Survey) -> Lab {
        self.local.counters = AvailableCounters::of(survey);
        self
    }

    /// With the machine that placements are made exact on. Without one only those that name CPUs
    /// can be had, and no frequency is read.
    pub fn on(mut self, host: Host) -> Lab {
        self.instruments.read_frequency(&host);
        self.local.host = host;
        self
    }

    /// With files at another place than the system's directory of temporary files.
    pub fn with_files(mut self, files: Files) -> Lab {
        self.local.files = files;
        self
    }

    /// Makes one trial of a cell.
    pub fn trial(&mut self, trial: TrialKey, cell: &Cell, stop: &AtomicBool) -> TrialOutcome {
        let began_ns = clock::monotonic_ns();
        let started_ms = self.elapsed_ms();
        let mut idle = false;
        let mut stood_still = None;
        let sampled = match self.attempt(cell, None, stop) {
            Err(_) if self.peer_lost.is_some() => return TrialOutcome::Interrupted,
            Err(TrialError::Interrupted) => return TrialOutcome::Interrupted,
            Err(TrialError::Failed(reason)) => Err(reason),
            Ok(parts) => {
                idle = self.settings.check == ContentCheck::Quick && parts.has_idle_flow();
                match idle && self.is_longest(cell) {
                    true => {
                        let window = self.window(cell, None);
                        let stalls = parts.used_no_cpu() && !cell.is_served();
                        let stall = stalls
                            .then(|| StalledWindow::find(&parts, window))
                            .flatten();
                        stood_still = stall.as_ref().map(|stall| stall.length);
                        Err(stall.map_or_else(|| nothing_moved(cell, window), |s| s.to_string()))
                    }
                    false => Ok(self.sample(trial, cell, started_ms, began_ns, parts)),
                }
            }
        };
        let failure = |reason| {
            Record::Failure(Failure {
                trial,
                cell: cell.id(),
                started_ms,
                reason,
                stood_still_ns: stood_still.map(|length| length.as_nanos() as u64),
            })
        };
        TrialOutcome::Ended(Box::new(sampled.unwrap_or_else(failure)), idle)
    }

    fn sample(
        &mut self,
        trial: TrialKey,
        cell: &Cell,
        started_ms: u64,
        began_ns: u64,
        parts: TrialOutput,
    ) -> Record {
        let mut machine = parts.machine;
        machine.extend(self.quotas.since_last());
        Record::Sample(Sample {
            trial,
            cell: cell.id(),
            started_ms,
            trial_ms: (clock::monotonic_ns() - began_ns) / 1_000_000,
            sender: parts.sender.side,
            // A responder receives nothing, and what it counts is with the machine's.
            receiver: (parts.receiver.filter(|_| cell.transport.has_receiver())).map(|r| r.side),
            machine,
            peer_machine: parts.peer_machine,
            truth: parts.truth,
            latency_ns_histogram: parts.sender.latency_ns_histogram,
            neighbour: parts.neighbour,
            packet_sockets: parts.packet_sockets,
            obstacles: parts.obstacles,
        })
    }

    /// Ends what runs between trials, and then waits by this function: its time is none of the run's.
    pub fn paused<T>(&mut self, wait: impl FnOnce() -> T) -> T {
        self.ahead = StartedAhead::default();
        self.background = None;
        self.core_to_core = None;
        let began_ns = clock::monotonic_ns();
        let waited = wait();
        self.started_ns += clock::monotonic_ns() - began_ns;
        waited
    }

    /// Time of the run so far, in ms, without pauses.
    pub(crate) fn elapsed_ms(&self) -> u64 {
        (clock::monotonic_ns() - self.started_ns) / 1_000_000
            + self.settings.earlier.as_millis() as u64
    }

    /// The sender's task, but for its address.
    fn task(&mut self, cell: &Cell, mover: Option<&Mover>, pins: &Pins) -> io::Result<Task> {
        let is_of_files = mover.is_some_and(|m| m.route.is_of_files());
        let window = self.settings.window;
        let here = if self.link(cell).is_none_or(|link| !link.plays(Role::Sender)) {
            self.local.sender(cell, mover, pins, window)?
        } else {
            self.local.without_sender(cell, mover, pins, window)
        };
        let patience = here.file.as_ref().map_or(PATIENCE, |_| DISK_PATIENCE);
        Ok(Task {
            role: Role::Sender,
            cell: cell.clone(),
            meets: Meets::Nobody,
            keys: FlowKey::several(cell.threads)?,
            check: self.settings.check,
            // A full check goes round the ring, however slow the machine is.
            messages_least: match self.settings.check {
                ContentCheck::Quick => 0,
                ContentCheck::Full if is_of_files => 3 * cell.file_slots(),
                ContentCheck::Full => 3 * cell.ring_slots(),
            },
            patience_ms: patience.as_millis() as u64,
            here,
        })
    }

    /// The CPUs of both sides and the sender's task, with a meter between the CPUs of a cell's ends,
    /// where these are two and on this host.
    fn begun(
        &mut self,
        cell: &Cell,
        mover: Option<&Mover>,
        has_peer: bool,
        stop: &AtomicBool,
    ) -> Result<(Pins, Task), TrialError> {
        if stop.load(Ordering::Relaxed) {
            return Err(TrialError::Interrupted);
        }
        self.reach_peer(cell, stop)?;
        let pins = Pins::of(cell, has_peer, &self.local.host).map_err(TrialError::Failed)?;
        let meet_here = has_peer && cell.transport != Transport::Peer;
        let ends = meet_here.then(|| pins.of_both_ends(&self.local.host));
        let pair = ends.and_then(|cpus| cpus.try_into().ok());
        if pair != self.core_to_core.as_ref().map(|meter| meter.cpus) {
            self.core_to_core = pair.and_then(CoreToCoreMeter::between);
        }
        let task = self.task(cell, mover, &pins)?;
        Ok((pins, task))
    }

    /// One trial's two processes and window, watched where there is somebody who watches.
    pub(crate) fn attempt(
        &mut self,
        cell: &Cell,
        mut watch: Option<&mut Watch>,
        stop: &AtomicBool,
    ) -> Result<TrialOutput, TrialError> {
        let former = (self.background.take()).filter(|_| !cell.neighbour.is_idle());
        if cell.is_served() {
            return self.served(cell, watch, stop);
        }
        let mover = Mover::named(&cell.mover);
        let has_peer = mover.is_some_and(|m| m.has_peer());
        let (pins, mut task) = self.begun(cell, mover, has_peer, stop)?;
        if let Some(watch) = &watch {
            task.here.probed = watch.caches(&self.local.host, &task.here.pins);
        }
        // Removed after the processes in it, which are dropped before it.
        let group = self.local.control_groups(cell)?;
        if let Some(group) = &group {
            task.here.cgroup_procs = group.procs_files();
        }
        let window = self.window(cell, watch.as_deref());
        let between = match has_peer {
            true => self.networks.between(cell)?,
            false => NetworkPath::Nothing,
        };
        let passes = Passes::of(cell);
        let span = WindowTimes {
            warmup: self.settings.warmup,
            until_steady: window::may_grow(cell),
            window,
            slowest_ns: passes.map_or(0, |p| p.most_ns(cell.threads)),
            warmup_passes: passes.map_or(0, |p| p.warmup),
            patience_ns: task.patience_ms * 1_000_000,
        };
        let own = task.here.file.as_ref().is_none_or(|file| file.own);
        let ready_ns = span.slowest_ns + span.patience_ns + start_ns(&task, mover);
        let link = (self.peer.as_ref()).filter(|_| cell.transport == Transport::Peer);
        let mut sides = Sides {
            settings: &self.settings,
            ahead: &mut self.ahead,
            between,
            link,
            window,
        };
        let (mut ends, listens) =
            sides.ready(task, has_peer.then_some(pins.receiver), ready_ns, stop)?;
        let network = networks::meter(cell, &ends);
        let eavesdroppers = Eavesdroppers::of(cell, &ends);
        let registers = mover.is_some_and(|m| m.locks_rings > 0);
        let huge = ends.last().filter(|_| registers).and_then(huge_bytes);
        let (program, most_ns) = (&self.settings.program, span.most_ns());
        let cpus = pins.neighbour;
        let background =
            NeighbourProcess::beside(former, program, cell, cpus, &self.local.host, most_ns, stop)?;
        if let Some(watch) = &mut watch {
            watch.trial_begins(cell, &ends, listens, background.as_ref())?;
        }
        let carry = match passes {
            Some(_) => window::by_passes,
            None => window::by_clock,
        };
        self.instruments
            .clocks
            .list(&owners(&ends, background.as_ref(), cell));
        let mut machine = WholeMachine {
            has_load: background.is_some(),
            ..self.instruments.around(group.as_ref())
        };
        let mut talk = Talk::new(&mut ends, watch.as_deref_mut(), stop, span.patience_ns);
        let core_to_core = CoreToCore::before(self.core_to_core.as_ref());
        let mut machine = carry(&mut machine, &mut talk, &network, span)?;
        machine.extend(core_to_core.after());
        // While both sides put together what they bring back.
        self.ahead.start(program);
        let done = talk.brought_back()?;
        if let Some(watch) = watch {
            watch.trial_ended();
        }
        let neighbour = background.as_ref().map(|b| b.held.clone());
        self.background = background.map_or(Ok(None), |background| background.trial_ended(stop))?;
        let mut output = TrialOutput::of(cell, mover, own, done, machine)?;
        output.sender.side.readings.extend(huge);
        output.peer_machine = Endpoint::peer_machine(&ends);
        output.neighbour = neighbour.unwrap_or_default();
        output.packet_sockets = eavesdroppers.all();
        output.obstacles = obstacles::of_trial(cell, has_peer.then_some(between), &ends, link);
        all_ended(ends, stop)?;
        Ok(output)
    }

    /// With another host, where one side of each cell plays whose transport leads there.
    pub fn with_peer(mut self, peer: PeerLink) -> Lab {
        self.peer = Some(peer);
        self
    }

    /// Why the other host is lost for good, if it is. A block is then interrupted.
    pub fn lost_peer(&self) -> Option<&str> {
        self.peer_lost.as_deref()
    }

    /// The way to the other host, for a cell that goes by it.
    fn link(&self, cell: &Cell) -> Option<&PeerLink> {
        (self.peer.as_ref()).filter(|_| cell.transport == Transport::Peer)
    }

    /// Why nobody can watch a cell from here, where that is so: evidence is of the sender.
    pub(crate) fn unwatched(&self, cell: &Cell) -> Option<String> {
        let link = self.link(cell)?;
        let is_there = cell.is_served() || link.plays(Role::Sender);
        is_there.then(|| "evidence is of this host, and the side that it is of plays on the other: run the study there, with this host as the peer".to_owned())
    }

    /// Makes sure that the other host is there for a cell that needs it: one that was lost in an
    /// earlier trial is sought again for a while.
    fn reach_peer(&mut self, cell: &Cell, stop: &AtomicBool) -> Result<(), TrialError> {
        if cell.transport != Transport::Peer {
            return Ok(());
        }
        let Some(peer) = &mut self.peer else {
            return Err(TrialError::Failed(
                "no other host is known: name it with --peer".to_owned(),
            ));
        };
        let Some(down) = peer.why_down() else {
            return Ok(());
        };
        match peer.reopen(stop) {
            Ok(()) => Ok(()),
            Err(e) if e.is_interruption() => Err(TrialError::Interrupted),
            Err(e) => {
                let why = format!("{down}; and it could not be reached again: {e}");
                self.peer_lost = Some(why.clone());
                Err(TrialError::Failed(why))
            }
        }
    }
}

/// Said of a trial in which a flow moved nothing, however long its window.
fn nothing_moved(cell: &Cell, window: Duration) -> String {
    let (ms, served) = (window.as_millis(), cell.is_served());
    let fewer = if served { "connections" } else { "threads" };
    format!(
        "a flow moved nothing within {ms} ms: use a longer --window or fewer --{fewer}, or stop other programs"
    )
}

/// How long a sender may take to start what it works with, beside its longest message.
fn start_ns(task: &Task, mover: Option<&Mover>) -> u64 {
    match mover.is_some_and(|m| m.is_helped()) {
        true => START_PATIENCE.as_nanos() as u64,
        false if task.here.probed.is_empty() => 0,
        false => CALIBRATION_NS,
    }
}

/// Pages that are given to the kernel for good: how large they are decides what they cost.
fn huge_bytes(end: &Endpoint) -> Option<(Counter, Reading)> {
    let bytes = huge_memory(&proc_view::directory(end.local_pid()?)?)?;
    Some((Counter::HugeMemoryBytes, Reading::Measured(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::path::Path;
    use std::thread;

    #[test]
    fn a_pause_is_no_time_of_the_run() {
        let settings = Settings::of_single_trials(Program::own().unwrap(), ContentCheck::Quick);
        let mut lab = Lab::new(settings, MachineMeter::open(Path::new("/")));
        let before = lab.elapsed_ms();
        lab.paused(|| thread::sleep(Duration::from_secs(1)));
        assert!(lab.elapsed_ms() - before < 1_000);
    }
}
