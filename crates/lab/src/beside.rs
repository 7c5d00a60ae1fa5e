//! A neighbour beside a trial: a process of the lab's own that keeps CPUs busy.

use std::io;
use std::slice;
use std::sync::atomic::AtomicBool;

use bytecost_meter::{FrequencyMeter, FrequencySnapshot, MachineMeter, MachineSnapshot, Meter};
use bytecost_spec::{Cell, Counter, Held, Host, Reading, Readings};
use bytecost_sys::{clock, process};

use crate::ends::{Endpoint, Trouble, wait};
use crate::groups::{Group, Throttled};
use crate::program::Program;
use crate::protocol::{Answer, Disturb, Order, Role};

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

/// The machine's meter, the CPUs' frequency, and beside them the CPU time of a neighbour and what
/// a quota did.
pub(crate) struct Around<'m> {
    pub(crate) meter: &'m mut MachineMeter,
    pub(crate) frequency: &'m FrequencyMeter,
    pub(crate) beside: Option<&'m Beside>,
    /// The control group of the trial's processes.
    pub(crate) group: Option<&'m Group>,
}

/// All of them at an edge of the window.
pub(crate) struct Edge {
    machine: MachineSnapshot,
    frequency: FrequencySnapshot,
    /// CPU time that the neighbour has used so far, or why that is not known.
    beside_ns: Option<io::Result<u64>>,
    /// What the group's quota has done so far, where there is one.
    throttled: Option<Result<Throttled, String>>,
}

impl Around<'_> {
    pub(crate) fn read_start(&mut self) -> Edge {
        Edge {
            frequency: self.frequency.read(),
            machine: self.meter.read_start(),
            beside_ns: self.beside_ns(),
            throttled: self.throttled(),
        }
    }

    pub(crate) fn read_end(&mut self) -> Edge {
        Edge {
            machine: self.meter.read_end(),
            frequency: self.frequency.read(),
            beside_ns: self.beside_ns(),
            throttled: self.throttled(),
        }
    }

    pub(crate) fn difference(&self, from: &Edge, to: &Edge) -> Readings {
        let mut readings = self.meter.difference(&from.machine, &to.machine);
        let used = match (&from.beside_ns, &to.beside_ns) {
            (Some(Ok(from)), Some(Ok(to))) => Some(Reading::Measured(to.saturating_sub(*from))),
            (Some(Err(why)), _) | (_, Some(Err(why))) => Some(Reading::absent(format!(
                "the neighbour's CPU time cannot be read: {why}"
            ))),
            _ => None,
        };
        readings.extend(self.frequency.difference(&from.frequency, &to.frequency));
        readings.extend(used.map(|used| (Counter::NeighbourNs, used)));
        if let (Some(from), Some(to)) = (&from.throttled, &to.throttled) {
            readings.extend(Throttled::between(from, to));
        }
        readings
    }

    fn throttled(&self) -> Option<Result<Throttled, String>> {
        self.group.and_then(Group::throttled)
    }

    fn beside_ns(&self) -> Option<io::Result<u64>> {
        self.beside.map(|b| process::cpu_ns_of(b.end.pid()))
    }
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
