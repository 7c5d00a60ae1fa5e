//! The loops of a session by hand: one flow of one side, from its first message to its end.
//!
//! As in a trial nothing here allocates, locks or formats while bytes move; once a second a flow
//! writes what it has done on the [`FlowCounters`].

use std::io;
use std::os::fd::OwnedFd;

use bytecost_engine::{Checker, Move, Tally};
use bytecost_meter::{Meter, ThreadMeter};
use bytecost_spec::sample::FlowReading;
use bytecost_spec::{Cell, Pattern as Exchange, Placement, Readings, Side};
use hdrhistogram::Histogram;

use super::flow_counters::{FlowCounters, FlowEdge, FlowTotals, STOP, WAIT, histogram};
use super::{PATIENCE, completes};
use crate::connection::ConnectionMeter;
use crate::edges::Steps;
use crate::flow::{Ask, Intake, Stream, moved, tallied};
use crate::flow_setup::{answer, content, receiving_end, sending_end};
use crate::thread_binding::ThreadBinding;
use crate::transports;

pub(super) struct FlowEnd {
    pub(super) readings: Readings,
    pub(super) flow: FlowReading,
    pub(super) compared_bytes: u64,
    /// Round-trip times that it has not told yet.
    pub(super) latency_ns: Option<Histogram<u64>>,
    pub(super) failed: Option<io::Error>,
}

pub(super) fn run(
    side: Side,
    cell: &Cell,
    number: u32,
    counters: &FlowCounters,
    socket: OwnedFd,
) -> io::Result<FlowEnd> {
    ThreadBinding::take(&pins(cell, side), number, None)?;
    let kept = socket.try_clone()?;
    let reporter = FlowReporter::new(counters, number, &kept);
    match side {
        Side::Receiver => receive(cell, socket, reporter),
        _ => send(cell, socket, reporter),
    }
}

fn send(cell: &Cell, socket: OwnedFd, mut reporter: FlowReporter<'_>) -> io::Result<FlowEnd> {
    let mut engine = sending_end(
        cell,
        Some(socket),
        None,
        reporter.flow,
        false,
        PATIENCE,
        None,
    )?;
    let mut latency_ns = None;
    let (from, ended) = match cell.pattern {
        Exchange::Ask => {
            let mut ask = asker(&mut *engine, reporter.socket, cell)?;
            let from = reporter.begin();
            let ended = going_on(&mut ask, &mut reporter, true);
            latency_ns = Some(ask.latency_ns);
            (from, ended)
        }
        Exchange::Stream => {
            let mut stream = Stream(&mut *engine);
            (reporter.begin(), going_on(&mut stream, &mut reporter, true))
        }
    };
    let end = reporter.end(from, engine.tally(), completes(cell));
    let shut = transports::close(cell, reporter.socket);
    Ok(FlowEnd {
        latency_ns,
        failed: ended.and(shut).err(),
        ..end
    })
}

/// Asks as in a trial, and notes times as they are told.
fn asker<'a>(mover: &'a mut dyn Move, socket: &'a OwnedFd, cell: &Cell) -> io::Result<Ask<'a>> {
    let mut ask = Ask::new(mover, socket, answer(cell)?);
    ask.latency_ns = histogram();
    Ok(ask)
}

fn receive(cell: &Cell, socket: OwnedFd, mut reporter: FlowReporter<'_>) -> io::Result<FlowEnd> {
    let mut receiver = receiving_end(cell, socket)?;
    let asked = cell.pattern == Exchange::Ask;
    let mut intake = Intake {
        receiver: &mut *receiver,
        checker: Checker::new(content(cell, reporter.flow, false), false),
        size_bytes: cell.size_bytes,
        answers: asked.then_some((reporter.socket, answer(cell)?)),
    };
    let from = reporter.begin();
    // Also after it was told to stop, so that nothing is left behind.
    let ended = going_on(&mut intake, &mut reporter, false);
    Ok(FlowEnd {
        compared_bytes: intake.checker.compared(),
        failed: ended.err(),
        ..reporter.end(from, intake.tally(), false)
    })
}

/// Publishes a flow's counters when a reading is asked for, once a second.
struct FlowReporter<'a> {
    counters: &'a FlowCounters,
    flow: u32,
    socket: &'a OwnedFd,
    seen: u32,
    meter: ConnectionMeter<'a, ThreadMeter>,
}

impl<'a> FlowReporter<'a> {
    fn new(counters: &'a FlowCounters, flow: u32, socket: &'a OwnedFd) -> FlowReporter<'a> {
        FlowReporter {
            counters,
            flow,
            socket,
            seen: WAIT,
            meter: ConnectionMeter::new(ThreadMeter::open_without_perf(), Some(socket), true),
        }
    }

    /// Waits until it is to begin, and reads where it does.
    fn begin(&mut self) -> FlowEdge {
        self.counters.wait();
        self.meter.read_start()
    }

    #[inline]
    fn is_asked(&self) -> bool {
        self.counters.number() != self.seen
    }

    /// Tells; false when it is to stop.
    #[cold]
    fn look(&mut self, tally: Tally, latency_ns: Option<&mut Histogram<u64>>) -> bool {
        self.seen = self.counters.number();
        if self.seen == STOP {
            return false;
        }
        let edge = self.meter.read_end();
        let totals = FlowTotals { tally, edge };
        self.counters
            .write(self.flow, self.seen, totals, latency_ns);
        true
    }

    fn end(&mut self, from: FlowEdge, tally: Tally, completes: bool) -> FlowEnd {
        let to = self.meter.read_end();
        let mut readings = self.meter.difference(&from, &to);
        readings.extend(tallied(&tally, completes.then_some(&tally)));
        FlowEnd {
            readings,
            flow: moved(&tally, to.0.clock_ns.saturating_sub(from.0.clock_ns)),
            compared_bytes: 0,
            latency_ns: None,
            failed: None,
        }
    }
}

/// Goes on until it is told to stop, where it is to heed that, or until the other side has ended;
/// tells meanwhile what it is asked for.
fn going_on(
    steps: &mut impl Steps,
    reporter: &mut FlowReporter<'_>,
    heeds_stop: bool,
) -> io::Result<()> {
    steps.time(true);
    loop {
        if reporter.is_asked() {
            let goes_on = reporter.look(steps.tally(), steps.latency_ns());
            if !goes_on && heeds_stop {
                return steps.end();
            }
            steps.time(true);
        }
        if !steps.step()? {
            return Ok(());
        }
    }
}

/// CPUs of a side's flows, each a set. Names were made exact before: only a host tells which CPUs
/// those are.
fn pins(cell: &Cell, side: Side) -> Vec<Vec<u32>> {
    let cpus = match (&cell.placement, side) {
        (Placement::Within { cpus }, _) => return vec![cpus.clone()],
        (Placement::Cpus { receiver, .. }, Side::Receiver) => receiver,
        (Placement::Cpus { sender, .. }, _) => sender,
        (Placement::Free | Placement::Near(_) | Placement::Pairs, _) => return Vec::new(),
    };
    cpus.iter().map(|cpu| vec![*cpu]).collect()
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use bytecost_sys::clock;

    use super::*;

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
                let mut ask = asker(&mut *mover, &kept, cell).unwrap();
                counted(|| going_on(&mut ask, &mut reporter, true))
            }
            Exchange::Stream => counted(|| going_on(&mut Stream(&mut *mover), &mut reporter, true)),
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
        let count = counted(|| going_on(&mut intake, &mut reporter, false));
        (count, intake.tally().bytes)
    }

    /// Has the flows of both boards tell again and again, until both have moved something; false
    /// where they do not.
    fn told_often(here: &FlowCounters, there: &FlowCounters) -> bool {
        let until_ns = clock::monotonic_ns() + 60_000_000_000;
        for number in 1.. {
            here.request(number);
            there.request(number);
            let read = |counters: &FlowCounters| counters.read(0, number, &mut None);
            let told = || Some([read(here)?, read(there)?]);
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
