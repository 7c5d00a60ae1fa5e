//! A block: one trial of each cell, and what else used the CPUs meanwhile.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytecost_engine::Mover;
use bytecost_meter::{ClocksRead, MachineSnapshot, Meter as _, ProcessOwner};
use bytecost_spec::sample::{Block, Repeat};
use bytecost_spec::{Cell, Counter, Reading, Record, Transport, TrialKey};
use bytecost_sys::clock;

use super::{Lab, TrialOutcome};
use crate::coordinator_stop::StoppedTime;
use crate::event::Event;
use crate::watch::Watch;

/// How much longer windows become when a flow moved nothing in one, and how much at most.
const LONGER: u32 = 4;
const LONGEST: u32 = 64;

/// What all processes and CPUs have done so far.
type Accounts = (ClocksRead, MachineSnapshot);

impl Lab {
    /// As a run that was cut short left it, by the end of its last block.
    pub fn resume(&mut self, block: &Block) {
        self.longer.clone_from(&block.longer);
        if let Some(Repeat::OtherProcesses { .. } | Repeat::Stopped { .. }) = block.repeated_because
        {
            self.repeated += ran(block);
        }
    }

    /// One attempt at a block, as `(number, cell)` in this order; None when interrupted. Also
    /// whether it is to be measured again: others used CPUs, or the run was stopped. A cell whose flow
    /// moved nothing has longer windows from the next block on.
    pub fn block(
        &mut self,
        (block, attempt): (u32, u32),
        order: impl IntoIterator<Item = (u32, Cell)>,
        stop: &AtomicBool,
        events: &mut dyn FnMut(Event),
    ) -> Option<Block> {
        let (began_ns, before) = (clock::monotonic_ns(), self.all_accounts());
        let stopped = StoppedTime::begin();
        let mut too_short = BTreeMap::new();
        let mut order = order.into_iter().peekable();
        while let Some((number, cell)) = order.next() {
            self.next_is(order.peek().map(|(_, next)| next));
            let trial = TrialKey {
                block,
                cell: number,
                attempt,
            };
            events(Event::TrialStarted { trial });
            let TrialOutcome::Ended(record, idle) = self.trial(trial, &cell, stop) else {
                return None;
            };
            events(Event::TrialEnded(record));
            if idle {
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
            self.lengthen(cell);
        }
        let after = self.all_accounts();
        let ended = self.block_ended(
            Block {
                block,
                attempt,
                elapsed_ns: clock::monotonic_ns() - began_ns,
                stopped_ns: stopped.ns(),
                ..Block::default()
            },
            (&before, &after),
        );
        events(Event::BlockEnded(Box::new(Record::Block(ended.clone()))));
        Some(ended)
    }

    /// Which trial comes after the one that begins now, so that its processes can be started ahead.
    pub(crate) fn next_is(&mut self, next: Option<&Cell>) {
        self.ahead.wanted = next.map_or(0, begun_with);
    }

    fn all_accounts(&mut self) -> Accounts {
        self.instruments.clocks.list(&[]);
        (
            self.instruments.clocks.read_with_children(),
            self.instruments.machine.read_start(),
        )
    }

    /// Foreign CPU time is neither ours nor the kernel's: no mover can have a block repeated.
    fn block_ended(
        &mut self,
        measured: Block,
        ((before, machine_before), (after, machine_after)): (&Accounts, &Accounts),
    ) -> Block {
        let used = self.instruments.clocks.between(before, after);
        let of = |whose| used.get(&whose).copied().unwrap_or(0);
        // No process ran while all CPUs were idle, whatever came to its account meanwhile.
        let machine = self
            .instruments
            .machine
            .difference(machine_before, machine_after);
        let busy = machine.get(&Counter::MachineBusyNs);
        let busy_ns = busy.and_then(Reading::measured).unwrap_or(u64::MAX);
        let mut others = self.instruments.clocks.largest(before, after);
        for other in &mut others {
            other.cpu_ns = other.cpu_ns.min(busy_ns);
        }
        let mut ended = Block {
            ended_ms: self.elapsed_ms(),
            others_ns: of(ProcessOwner::Other).min(busy_ns),
            others,
            kernel_threads_ns: of(ProcessOwner::Kernel) + of(ProcessOwner::Softirq),
            longer: self.longer.clone(),
            ..measured
        };
        let length = ran(&ended);
        let may_repeat = ended.attempt < self.settings.repeats_most
            && self.repeated + length <= self.settings.repeats_for;
        if may_repeat {
            ended.repeated_because = self.disturbance(&ended);
            if ended.repeated_because.is_some() {
                self.repeated += length;
            }
        }
        ended
    }

    /// Why a block is to be measured again, if it may be.
    fn disturbance(&self, block: &Block) -> Option<Repeat> {
        let cpus = block.other_cpus();
        if block.stopped_ns > 0 {
            let ms = block.stopped_ns.div_ceil(1_000_000);
            return Some(Repeat::Stopped { ms });
        }
        (cpus > self.settings.foreign_cpus).then_some(Repeat::OtherProcesses {
            cpus_thousandths: (cpus * 1e3) as u64,
        })
    }

    /// Makes the windows of a cell longer, unless they are as long as they may be.
    fn lengthen(&mut self, cell: &Cell) {
        if self.is_longest(cell) {
            return;
        }
        let times = self.times(cell) * LONGER;
        for cell in [cell.clone(), cell.other_twin()] {
            self.longer.insert(cell.id(), times);
        }
    }

    /// Whether windows keep their lengths, so that a trial in which a flow moved nothing fails.
    pub fn keep_windows(&mut self, keep: bool) {
        self.windows_stay = keep;
    }

    pub(super) fn is_longest(&self, cell: &Cell) -> bool {
        self.windows_stay || self.times(cell) * LONGER > LONGEST
    }

    pub(super) fn times(&self, cell: &Cell) -> u32 {
        self.longer.get(&cell.id()).copied().unwrap_or(1)
    }

    /// The window of a cell; where somebody watches, who does says how long it is.
    pub(super) fn window(&self, cell: &Cell, watch: Option<&Watch>) -> Duration {
        watch.map_or(self.settings.window * self.times(cell), Watch::window)
    }
}

/// How long a block took without what it was stopped for.
fn ran(block: &Block) -> Duration {
    Duration::from_nanos(block.elapsed_ns.saturating_sub(block.stopped_ns))
}

/// How many processes a trial begins with that are in no network of their own.
fn begun_with(cell: &Cell) -> usize {
    let has_peer = cell.is_served() || Mover::named(&cell.mover).is_some_and(|m| m.has_peer());
    match (has_peer, cell.transport) {
        (false, _) => 1,
        (true, Transport::Loopback | Transport::Unix) => 2,
        (true, Transport::Peer) => 1,
        (true, _) => 0,
    }
}
