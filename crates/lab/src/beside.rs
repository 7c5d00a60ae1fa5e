//! A neighbour beside a trial: a process of the lab's own that keeps CPUs busy.

use std::slice;
use std::sync::atomic::AtomicBool;

use bytecost_meter::{
    ClocksRead, FrequencyMeter, FrequencySnapshot, MachineMeter, MachineSnapshot, Meter,
    ProcessClocks, Whose,
};
use bytecost_spec::{Cell, Counter, Held, Host, Reading, Readings};
use bytecost_sys::clock;

use crate::ends::{Endpoint, Trouble, wait};
use crate::groups::{Group, Throttled};
use crate::program::Program;
use crate::protocol::{Answer, Disturb, Order, Role};

const NO_KERNEL: &str =
    "kernel threads cannot be seen from here: run outside of a PID namespace (a container)";
/// How long it may take to have its memory ready, and to end.
const PATIENCE_NS: u64 = 30_000_000_000;
/// The least and the most memory that it works on, in bytes.
const MEMORY_BYTES: std::ops::RangeInclusive<u64> = 32 << 20..=256 << 20;

/// The neighbour's process; ended when this is dropped.
pub(crate) struct Beside {
    end: Endpoint,
}

impl Beside {
    /// Starts a cell's neighbour, and waits until all its threads are busy; none where it has
    /// none. It ends by itself after `most_ns`, whatever happens here.
    ///
    /// # Errors
    /// What it says is wrong, or that it was told to stop.
    pub(crate) fn start(
        program: &Program,
        cell: &Cell,
        cpus: Vec<u32>,
        host: &Host,
        most_ns: u64,
        stop: &AtomicBool,
    ) -> Result<Option<Beside>, Trouble> {
        if cell.neighbour.is_idle() {
            return Ok(None);
        }
        let mut end = Endpoint::start(program, Role::Neighbour, None)?;
        end.order(&Order::Disturb(Disturb {
            noise: cell.neighbour.noise,
            cpus,
            memory_bytes: memory_bytes(host),
            mem_node: cell.mem_node,
            until_ns: clock::monotonic_ns() + PATIENCE_NS + most_ns,
        }))?;
        match answer(&mut end, stop)? {
            Answer::Ready => Ok(Some(Beside { end })),
            other => Err(out_of_turn(&other)),
        }
    }

    /// Has it end, and says where its threads were held.
    ///
    /// # Errors
    /// That it ended before, or what it says went wrong.
    pub(crate) fn end(&mut self, stop: &AtomicBool) -> Result<Vec<Held>, Trouble> {
        self.end.order(&Order::Stop)?;
        match answer(&mut self.end, stop)? {
            Answer::Done(done) => Ok(done.side.held),
            other => Err(out_of_turn(&other)),
        }
    }
}

/// The machine's meter, the clocks of all processes, the CPUs' frequency, and what a quota did.
pub(crate) struct Around<'m> {
    pub(crate) meter: &'m mut MachineMeter,
    pub(crate) clocks: &'m mut ProcessClocks,
    pub(crate) frequency: &'m FrequencyMeter,
    /// Whether the cell asked for a background load.
    pub(crate) has_load: bool,
    /// The control group of the trial's processes.
    pub(crate) group: Option<&'m Group>,
}

/// All of them at an edge of the window.
pub(crate) struct Edge {
    clocks: ClocksRead,
    machine: MachineSnapshot,
    frequency: FrequencySnapshot,
    /// What the group's quota has done so far, where there is one.
    throttled: Option<Result<Throttled, String>>,
}

impl Around<'_> {
    pub(crate) fn read_start(&mut self) -> Edge {
        let frequency = self.frequency.read();
        Edge {
            // These two belong together, in the same order at both edges.
            clocks: self.clocks.read(),
            machine: self.meter.read_start(),
            frequency,
            throttled: self.throttled(),
        }
    }

    pub(crate) fn read_end(&mut self) -> Edge {
        Edge {
            clocks: self.clocks.read(),
            machine: self.meter.read_end(),
            frequency: self.frequency.read(),
            throttled: self.throttled(),
        }
    }

    /// What happened between two edges. Who came meanwhile is looked up here.
    pub(crate) fn difference(&mut self, from: &Edge, to: &Edge) -> Readings {
        let mut readings = self.meter.difference(&from.machine, &to.machine);
        readings.extend(self.frequency.difference(&from.frequency, &to.frequency));
        if let (Some(from), Some(to)) = (&from.throttled, &to.throttled) {
            readings.extend(Throttled::between(from, to));
        }
        self.clocks.list(&[]);
        let used = self.clocks.between(&from.clocks, &to.clocks);
        let of = |whose| Reading::Measured(used.get(&whose).copied().unwrap_or(0));
        readings.extend([
            (Counter::SenderProcessesNs, of(Whose::Sender)),
            (Counter::ReceiverProcessesNs, of(Whose::Receiver)),
            (Counter::InstrumentNs, of(Whose::Instrument)),
            (Counter::OtherProcessesNs, of(Whose::Other)),
        ]);
        readings.insert(
            Counter::KernelThreadsNs,
            match self.clocks.sees_kernel() {
                true => of(Whose::Kernel),
                false => Reading::absent(NO_KERNEL),
            },
        );
        if self.has_load {
            readings.insert(Counter::NeighbourNs, of(Whose::Background));
        }
        readings
    }

    fn throttled(&self) -> Option<Result<Throttled, String>> {
        self.group.and_then(Group::throttled)
    }
}

/// Whose each process of a trial is.
pub(crate) fn owners(ends: &[Endpoint], beside: Option<&Beside>, cell: &Cell) -> Vec<(u32, Whose)> {
    let whose = |role| match role {
        Role::Sender | Role::Client => Whose::Sender,
        // Who acknowledges over wire is none of the sides.
        Role::Receiver if !cell.transport.has_receiver() => Whose::Instrument,
        Role::Receiver | Role::Server => Whose::Receiver,
        Role::Neighbour => Whose::Background,
    };
    let load = beside.map(|beside| (beside.end.pid(), Whose::Background));
    let sides = ends.iter().map(|end| (end.pid(), whose(end.role())));
    sides.chain(load).collect()
}

fn answer(end: &mut Endpoint, stop: &AtomicBool) -> Result<Answer, Trouble> {
    let until_ns = clock::monotonic_ns() + PATIENCE_NS;
    Ok(wait(slice::from_mut(end), until_ns, stop)?.1)
}

fn out_of_turn(answer: &Answer) -> Trouble {
    Trouble::Failed(format!("the neighbour answered out of turn: {answer:?}"))
}

/// Twice the largest cache, within bounds, so that it reaches memory without taking long to be
/// ready.
fn memory_bytes(host: &Host) -> u64 {
    let largest = host.caches.iter().map(|c| c.size_bytes).max().unwrap_or(0);
    largest
        .saturating_mul(2)
        .clamp(*MEMORY_BYTES.start(), *MEMORY_BYTES.end())
}
