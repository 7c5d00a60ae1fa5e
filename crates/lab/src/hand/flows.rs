//! The loops of a session by hand: one flow of one side, from its first message to its end.
//!
//! As in a trial nothing here allocates, locks or formats while bytes move; once a second a flow
//! writes what it has done on the [`FlowCounters`].

use std::io;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;

use bytecost_engine::{Checker, Move, Tally};
use bytecost_meter::{Meter, Snapshot, ThreadMeter};
use bytecost_spec::sample::FlowReading;
use bytecost_spec::survey::Release;
use bytecost_spec::{Cell, Pattern as Exchange, Placement, Readings, Side};
use bytecost_sys::tcp::TcpInfo;
use bytecost_sys::{clock, process};
use hdrhistogram::Histogram;

use super::PATIENCE;
use super::flow_counters::{FlowCounters, FlowTotals, STOP, WAIT, tallied};
use super::latency_histogram::LatencyHistogram;
use crate::connection::ConnectionMeter;
use crate::flow::{self, Ask, Intake};
use crate::flow_setup::{answer, content, mover_of, receiving_end, sending_end};

/// What one flow brings back, well or not.
pub(super) struct FlowEnd {
    pub(super) readings: Readings,
    pub(super) flow: FlowReading,
    pub(super) compared_bytes: u64,
    pub(super) latency_ns: Option<Histogram<u64>>,
    pub(super) failed: Option<io::Error>,
}

/// A flow about to begin.
pub(super) struct Flow<'a, R> {
    pub(super) side: Side,
    pub(super) cell: &'a Cell,
    pub(super) number: u32,
    pub(super) counters: &'a FlowCounters,
    /// Called when it waits for the first reading.
    pub(super) ready: R,
}

type Edge = (Snapshot, Option<TcpInfo>);

impl<R: FnOnce()> Flow<'_, R> {
    /// Carries the flow through the session.
    ///
    /// # Errors
    /// When it could not even begin.
    pub(super) fn run(self, socket: OwnedFd) -> io::Result<FlowEnd> {
        pin(self.cell, self.side, self.number)?;
        match self.side {
            Side::Receiver => self.receive(socket),
            _ => self.send(socket),
        }
    }

    fn send(self, socket: OwnedFd) -> io::Result<FlowEnd> {
        let (cell, counters, number) = (self.cell, self.counters, self.number);
        let mover = mover_of(cell)?;
        let kept = socket.try_clone()?;
        let mut engine = sending_end(cell, Some(socket), None, number, false, PATIENCE, None)?;
        let mut reporter = FlowReporter::new(counters, number, &kept);
        let from;
        let mut latency_ns = None;
        let ended = match (cell.pattern, counters.latencies(number)) {
            (Exchange::Ask, Some(latencies)) => {
                let mut ask = Ask::new(&mut *engine, &kept, answer(cell)?);
                self.wait();
                from = reporter.meter.read_start();
                let ended = asking(&mut ask, &mut reporter, latencies);
                latency_ns = Some(ask.latency_ns);
                ended
            }
            _ => {
                self.wait();
                from = reporter.meter.read_start();
                streaming(&mut *engine, &mut reporter)
            }
        };
        let ended = ended.and_then(|()| flow::drain(&mut *engine));
        let to = reporter.meter.read_end();
        let tally = engine.tally();
        reporter.tell(STOP, tally, to);
        let shut = rustix::net::shutdown(&kept, rustix::net::Shutdown::Write);
        let completes = mover.release == Release::AtCompletion;
        Ok(FlowEnd {
            latency_ns,
            failed: ended.and_then(|()| Ok(shut?)).err(),
            ..flow_end(&reporter.meter, (from, to), tally, completes)
        })
    }

    fn receive(self, socket: OwnedFd) -> io::Result<FlowEnd> {
        let (cell, counters, number) = (self.cell, self.counters, self.number);
        let kept = socket.try_clone()?;
        let mut receiver = receiving_end(cell, socket)?;
        let mut reporter = FlowReporter::new(counters, number, &kept);
        let mut intake = Intake {
            receiver: &mut *receiver,
            checker: Checker::new(content(cell, number, false), false),
            size_bytes: cell.size_bytes,
            answers: (cell.pattern == Exchange::Ask).then_some((&kept, answer(cell)?)),
        };
        self.wait();
        let from = reporter.meter.read_start();
        let ended = taking(&mut intake, &mut reporter);
        let to = reporter.meter.read_end();
        let tally = intake.tally();
        reporter.tell(STOP, tally, to);
        Ok(FlowEnd {
            compared_bytes: intake.checker.compared(),
            failed: ended.err(),
            ..flow_end(&reporter.meter, (from, to), tally, false)
        })
    }

    /// Says that it is ready, and waits until the first reading is asked for.
    fn wait(self) {
        (self.ready)();
        while self.counters.number() == WAIT {
            thread::park_timeout(Duration::from_millis(1));
        }
    }
}

/// Publishes a flow's counters when a reading is asked for, once a second.
struct FlowReporter<'a> {
    counters: &'a FlowCounters,
    flow: u32,
    seen: u32,
    meter: ConnectionMeter<'a, ThreadMeter>,
}

impl<'a> FlowReporter<'a> {
    fn new(counters: &'a FlowCounters, flow: u32, socket: &'a OwnedFd) -> FlowReporter<'a> {
        FlowReporter {
            counters,
            flow,
            seen: WAIT,
            meter: ConnectionMeter::new(ThreadMeter::open_without_perf(), Some(socket), true),
        }
    }

    /// Whether a reading was asked for since the last one.
    #[inline]
    fn is_asked(&self) -> bool {
        self.counters.number() != self.seen
    }

    /// Tells; false when it is to stop.
    #[cold]
    fn look(&mut self, tally: Tally) -> bool {
        self.seen = self.counters.number();
        if self.seen == STOP {
            return false;
        }
        let edge = self.meter.read_end();
        self.tell(self.seen, tally, edge);
        true
    }

    fn tell(&self, number: u32, tally: Tally, (thread, tcp): Edge) {
        let entry = FlowTotals {
            tally,
            clock_ns: thread.clock_ns,
            cpu_ns: thread.cpu_ns,
            tcp,
        };
        self.counters.write(self.flow, number, &entry);
    }
}

fn streaming(mover: &mut dyn Move, reporter: &mut FlowReporter<'_>) -> io::Result<()> {
    loop {
        if reporter.is_asked() && !reporter.look(mover.tally()) {
            return Ok(());
        }
        flow::push(mover)?;
    }
}

fn asking(
    ask: &mut Ask<'_>,
    reporter: &mut FlowReporter<'_>,
    latencies: &LatencyHistogram,
) -> io::Result<()> {
    let mut began_ns = clock::monotonic_ns();
    loop {
        if reporter.is_asked() {
            if !reporter.look(ask.mover.tally()) {
                return Ok(());
            }
            began_ns = clock::monotonic_ns();
        }
        ask.exchange()?;
        let ended_ns = clock::monotonic_ns();
        ask.latency_ns.saturating_record(ended_ns - began_ns);
        latencies.note(ended_ns - began_ns);
        began_ns = ended_ns;
    }
}

/// Until the sender has closed: also after it was told to stop, so that nothing is left behind.
fn taking(intake: &mut Intake<'_>, reporter: &mut FlowReporter<'_>) -> io::Result<()> {
    loop {
        if reporter.is_asked() {
            reporter.look(intake.tally());
        }
        if !intake.pull()? {
            return Ok(());
        }
    }
}

fn pin(cell: &Cell, side: Side, flow: u32) -> io::Result<()> {
    let cpus = match (&cell.placement, side) {
        (Placement::Within { cpus }, _) => return process::set_affinity(cpus),
        (Placement::Cpus { receiver, .. }, Side::Receiver) => receiver,
        (Placement::Cpus { sender, .. }, _) => sender,
        // Names were made exact before: only a host tells which CPUs those are.
        (Placement::Free | Placement::Near(_) | Placement::Pairs, _) => return Ok(()),
    };
    match cpus.get(flow as usize % cpus.len().max(1)) {
        Some(cpu) => process::set_affinity(&[*cpu]),
        None => Ok(()),
    }
}

fn flow_end(
    meter: &ConnectionMeter<'_, ThreadMeter>,
    (from, to): (Edge, Edge),
    tally: Tally,
    completes: bool,
) -> FlowEnd {
    let mut readings = meter.difference(&from, &to);
    readings.extend(tallied(&tally, completes));
    FlowEnd {
        readings,
        flow: FlowReading {
            bytes: tally.bytes,
            messages: tally.messages,
            elapsed_ns: to.0.clock_ns.saturating_sub(from.0.clock_ns),
        },
        compared_bytes: 0,
        latency_ns: None,
        failed: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transports;

    /// Runs one loop until it ends; the times that it allocated.
    fn counted(run: impl FnOnce() -> io::Result<()>) -> u64 {
        let mut ended = Ok(());
        let info = allocation_counter::measure(|| ended = run());
        ended.unwrap();
        info.count_total
    }

    fn sent(cell: &Cell, socket: OwnedFd, counters: &FlowCounters) -> (u64, u64) {
        let kept = socket.try_clone().unwrap();
        let mut mover = sending_end(cell, Some(socket), None, 0, false, PATIENCE, None).unwrap();
        let mut reporter = FlowReporter::new(counters, 0, &kept);
        let count = match cell.pattern {
            Exchange::Ask => {
                let mut ask = Ask::new(&mut *mover, &kept, answer(cell).unwrap());
                counted(|| asking(&mut ask, &mut reporter, counters.latencies(0).unwrap()))
            }
            Exchange::Stream => counted(|| streaming(&mut *mover, &mut reporter)),
        };
        rustix::net::shutdown(&kept, rustix::net::Shutdown::Write).unwrap();
        (count, mover.tally().bytes)
    }

    fn took(cell: &Cell, socket: OwnedFd, counters: &FlowCounters) -> (u64, u64) {
        let kept = socket.try_clone().unwrap();
        let mut receiver = receiving_end(cell, socket).unwrap();
        let asked = cell.pattern == Exchange::Ask;
        let mut intake = Intake {
            receiver: &mut *receiver,
            checker: Checker::new(content(cell, 0, false), false),
            size_bytes: cell.size_bytes,
            answers: asked.then(|| (&kept, answer(cell).unwrap())),
        };
        let mut reporter = FlowReporter::new(counters, 0, &kept);
        let count = counted(|| taking(&mut intake, &mut reporter));
        (count, intake.tally().bytes)
    }

    /// Has the flows of both boards tell again and again, until both have moved something; false
    /// where they do not.
    fn told_often(here: &FlowCounters, there: &FlowCounters) -> bool {
        let until_ns = clock::monotonic_ns() + 60_000_000_000;
        for number in 1.. {
            here.request(number);
            there.request(number);
            let told = || Some([here.read(0, number)?, there.read(0, number)?]);
            while told().is_none() {
                if clock::monotonic_ns() > until_ns {
                    return false;
                }
                thread::sleep(Duration::from_micros(200));
            }
            let have_moved = told().is_some_and(|both| both.iter().all(|e| e.tally.bytes > 0));
            if number >= 20 && have_moved {
                break;
            }
        }
        true
    }

    // Invariant 4.
    #[test]
    fn a_flow_that_tells_what_it_does_allocates_nothing() {
        for pattern in [Exchange::Stream, Exchange::Ask] {
            let asks = pattern == Exchange::Ask;
            let cell = Cell {
                pattern,
                size_bytes: 4096,
                ..Cell::default()
            };
            let listener = transports::listen(&cell, None).unwrap();
            let sending = transports::connect(&cell, &listener.address()).unwrap();
            let taking = listener.accept(PATIENCE).unwrap();
            let (here, there) = (FlowCounters::new(1, asks), FlowCounters::new(1, false));
            thread::scope(|scope| {
                let sender = scope.spawn(|| sent(&cell, sending, &here));
                let receiver = scope.spawn(|| took(&cell, taking, &there));
                let told = told_often(&here, &there);
                here.request(STOP);
                let (sent, got) = (sender.join().unwrap(), receiver.join().unwrap());
                assert_eq!((sent.0, got.0), (0, 0), "allocations, asks: {asks}");
                assert_eq!(sent.1, got.1);
                assert!(told && sent.1 > 0);
            });
        }
    }
}
