//! The loops of a session by hand: one flow of one side, from its first message to its end.
//!
//! As in a trial, nothing allocates, locks or formats while bytes move.

use std::io;
use std::os::fd::OwnedFd;

use bytecost_engine::{Checker, Take, Tally};
use bytecost_meter::{Meter, ThreadMeter};
use bytecost_spec::sample::FlowReading;
use bytecost_spec::{Cell, Pattern as Exchange, Placement, Readings, Side};
use hdrhistogram::Histogram;

use super::flow_counters::{FlowCounters, FlowTotals, STOP, WAIT, histogram};
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
    let reporter = FlowReporter {
        counters,
        flow: number,
        socket: &kept,
        seen: WAIT,
        meter: ConnectionMeter::new(ThreadMeter::open_without_perf(), Some(&kept), true),
    };
    match side {
        Side::Receiver => receive(cell, socket, reporter),
        _ => send(cell, socket, reporter),
    }
}

fn send(cell: &Cell, socket: OwnedFd, mut reporter: FlowReporter<'_>) -> io::Result<FlowEnd> {
    let (flow, completes) = (reporter.flow, completes(cell));
    let mut engine = sending_end(cell, Some(socket), None, flow, false, PATIENCE, None)?;
    let mut end = match cell.pattern {
        Exchange::Ask => {
            let mut ask = Ask::new(&mut *engine, reporter.socket, answer(cell)?);
            ask.latency_ns = histogram();
            let end = reporter.through(&mut ask, true, completes);
            FlowEnd {
                latency_ns: Some(ask.latency_ns),
                ..end
            }
        }
        Exchange::Stream => reporter.through(&mut Stream(&mut *engine), true, completes),
    };
    let shut = transports::close(reporter.socket);
    end.failed = end.failed.or(shut.err());
    Ok(end)
}

fn receive(cell: &Cell, socket: OwnedFd, mut reporter: FlowReporter<'_>) -> io::Result<FlowEnd> {
    let mut receiver = receiving_end(cell, socket)?;
    let mut intake = intake(cell, &mut *receiver, reporter.flow, reporter.socket)?;
    // Also after it was told to stop, so that nothing is left behind.
    let end = reporter.through(&mut intake, false, false);
    Ok(FlowEnd {
        compared_bytes: intake.checker.compared(),
        ..end
    })
}

fn intake<'a>(
    cell: &Cell,
    receiver: &'a mut dyn Take,
    flow: u32,
    socket: &'a OwnedFd,
) -> io::Result<Intake<'a>> {
    Ok(Intake {
        receiver,
        checker: Checker::new(content(cell, flow, false), false),
        size_bytes: cell.size_bytes,
        answers: (cell.pattern == Exchange::Ask).then_some((socket, answer(cell)?)),
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

impl FlowReporter<'_> {
    fn through(&mut self, steps: &mut impl Steps, heeds_stop: bool, completes: bool) -> FlowEnd {
        self.counters.wait();
        let from = self.meter.read_start();
        let ended = self.going_on(steps, heeds_stop);
        let (to, tally) = (self.meter.read_end(), steps.tally());
        let mut readings = self.meter.difference(&from, &to);
        readings.extend(tallied(&tally, completes.then_some(&tally)));
        FlowEnd {
            readings,
            flow: moved(&tally, to.0.clock_ns.saturating_sub(from.0.clock_ns)),
            compared_bytes: 0,
            latency_ns: None,
            failed: ended.err(),
        }
    }

    /// Until told to stop, if it heeds that, or the other side has ended; tells when asked.
    fn going_on(&mut self, steps: &mut impl Steps, heeds_stop: bool) -> io::Result<()> {
        steps.time(true);
        loop {
            if self.counters.number() != self.seen {
                let goes_on = self.look(steps.tally(), steps.latency_ns());
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
}

/// CPUs of a side's flows, each a set: names were made exact before, as only a host tells them.
fn pins(cell: &Cell, side: Side) -> Vec<Vec<u32>> {
    let cpus = match (&cell.placement, side) {
        (Placement::Within { cpus }, _) => return vec![cpus.clone()],
        (Placement::Cpus { receiver, .. }, Side::Receiver) => receiver,
        (Placement::Cpus { sender, .. }, _) => sender,
        // The others were made exact.
        _ => return Vec::new(),
    };
    cpus.iter().map(|cpu| vec![*cpu]).collect()
}

#[cfg(test)]
mod tests {
    use std::thread;

    use bytecost_sys::clock;

    use super::*;

    /// How often a loop allocates until it ends, and the bytes that it moved.
    fn counted(
        steps: &mut impl Steps,
        socket: &OwnedFd,
        counters: &FlowCounters,
        heeds_stop: bool,
    ) -> (u64, u64) {
        let mut reporter = FlowReporter {
            counters,
            flow: 0,
            socket,
            seen: WAIT,
            meter: ConnectionMeter::new(ThreadMeter::open_without_perf(), Some(socket), true),
        };
        let used = allocation_counter::measure(|| reporter.going_on(steps, heeds_stop).unwrap());
        (used.count_total, steps.tally().bytes)
    }

    fn sent(cell: &Cell, socket: OwnedFd, counters: &FlowCounters) -> (u64, u64) {
        let kept = socket.try_clone().unwrap();
        let mut mover = sending_end(cell, Some(socket), None, 0, false, PATIENCE, None).unwrap();
        let counted = match cell.pattern {
            Exchange::Ask => {
                let mut ask = Ask::new(&mut *mover, &kept, answer(cell).unwrap());
                ask.latency_ns = histogram();
                counted(&mut ask, &kept, counters, true)
            }
            Exchange::Stream => counted(&mut Stream(&mut *mover), &kept, counters, true),
        };
        transports::close(&kept).unwrap();
        counted
    }

    fn received(cell: &Cell, socket: OwnedFd, counters: &FlowCounters) -> (u64, u64) {
        let kept = socket.try_clone().unwrap();
        let mut receiver = receiving_end(cell, socket).unwrap();
        let mut intake = intake(cell, &mut *receiver, 0, &kept).unwrap();
        counted(&mut intake, &kept, counters, false)
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
            let sending = transports::connect(&cell, &listener.address(), PATIENCE).unwrap();
            let taking = listener.accept(PATIENCE).unwrap();
            let (here, there) = (FlowCounters::new(1, asks), FlowCounters::new(1, false));
            thread::scope(|scope| {
                let sender = scope.spawn(|| sent(&cell, sending, &here));
                let receiver = scope.spawn(|| received(&cell, taking, &there));
                let until_ns = clock::monotonic_ns() + 60_000_000_000;
                // They tell again and again, until both have moved something.
                let has_moved = |counters: &FlowCounters, number| {
                    let told = counters.read(0, number, &mut None);
                    told.map(|told| told.tally.bytes > 0)
                };
                let mut number = 0;
                let mut have_moved = false;
                while number < 20 || !have_moved && clock::monotonic_ns() < until_ns {
                    number += 1;
                    here.request(number);
                    there.request(number);
                    let told = || Some([has_moved(&here, number)?, has_moved(&there, number)?]);
                    while told().is_none() && clock::monotonic_ns() < until_ns {
                        clock::sleep_until_ns(clock::monotonic_ns() + 200_000);
                    }
                    have_moved = told() == Some([true, true]);
                }
                here.request(STOP);
                let (sent, got) = (sender.join().unwrap(), receiver.join().unwrap());
                assert_eq!((sent.0, got.0), (0, 0), "allocations, asks: {asks}");
                assert!(have_moved && sent.1 == got.1);
            });
        }
    }
}
