//! The loop of one flow of one side of a live session, from its first message to its end.
//!
//! As in a trial, nothing allocates, locks or formats while bytes move.

use std::io;
use std::os::fd::OwnedFd;

use bytecost_engine::{Checker, Take, Tally};
use bytecost_meter::{Meter, ThreadMeter};
use bytecost_spec::sample::FlowReading;
use bytecost_spec::{Cell, Pattern as Exchange, Placement, Readings, Side};
use bytecost_sys::{clock, tcp};
use hdrhistogram::Histogram;

use super::flow_counters::{FlowCounters, FlowTotals, STOP, WAIT, histogram};
use super::{FLOW_TIMEOUT, LiveSetup, completes};
use crate::connection::ConnectionMeter;
use crate::edges::LoopBody;
use crate::flow::{Ask, Intake, Stream, moved, tallied};
use crate::flow_setup::{MoverSetup, answer, open_receiver};
use crate::thread_binding::ThreadBinding;
use crate::transports;

/// The sleep of a receiver with a limit on its rate, in ns.
const NAP_NS: u64 = 10_000_000;

pub(super) struct EndedFlow {
    pub(super) readings: Readings,
    pub(super) flow: FlowReading,
    /// Round-trip times that it has not reported yet.
    pub(super) latency_ns: Option<Histogram<u64>>,
    /// True if the other side ended the flow as it should.
    pub(super) has_peer_ended: bool,
    pub(super) failed: Option<io::Error>,
}

pub(super) fn run(
    setup: &LiveSetup,
    number: u32,
    counters: &FlowCounters,
    socket: OwnedFd,
) -> io::Result<EndedFlow> {
    let cell = &setup.cell;
    ThreadBinding::bind(&pins(cell, setup.side), number, None)?;
    let kept = socket.try_clone()?;
    // TCP paces a sender to its limit; a receiver pauses.
    let most = setup.most_bytes_per_s_of_a_flow();
    if let Some(most) = most.filter(|_| setup.sends()) {
        tcp::set_max_pacing_rate(&kept, most)?;
    }
    let reporter = FlowReporter {
        counters,
        flow: number,
        socket: &kept,
        seen: WAIT,
        most_bytes_per_s: most.filter(|_| !setup.sends()),
        meter: ConnectionMeter::new(ThreadMeter::open_without_perf(), Some(&kept), true),
    };
    if setup.sends() {
        send(cell, socket, reporter)
    } else {
        receive(setup, socket, reporter)
    }
}

fn send(cell: &Cell, socket: OwnedFd, mut reporter: FlowReporter<'_>) -> io::Result<EndedFlow> {
    let (flow, completes) = (reporter.flow, completes(cell));
    let sender = MoverSetup {
        flow,
        ..MoverSetup::new(cell, Some(socket), FLOW_TIMEOUT)
    };
    let mut engine = sender.open()?;
    let mut end = match cell.pattern {
        Exchange::RequestResponse => {
            let mut ask = Ask::new(&mut *engine, reporter.socket, answer(cell)?);
            ask.latency_ns = histogram();
            let untimed = reporter.through(&mut ask, finish, completes);
            EndedFlow {
                latency_ns: Some(ask.latency_ns),
                ..untimed
            }
        }
        Exchange::Stream => reporter.through(&mut Stream(&mut *engine), finish, completes),
    };
    let shut = transports::close(reporter.socket);
    end.failed = end.failed.or(shut.err());
    Ok(end)
}

/// A sender that is to stop sends what is under way, and no more.
fn finish(body: &mut impl LoopBody) -> io::Result<bool> {
    body.complete().map(|()| false)
}

fn receive(
    setup: &LiveSetup,
    socket: OwnedFd,
    mut reporter: FlowReporter<'_>,
) -> io::Result<EndedFlow> {
    let mut receiver = open_receiver(&setup.cell, socket)?;
    let mut intake = intake(setup, &mut *receiver, reporter.socket)?;
    let kept = reporter.socket;
    // A receiver that stops receives what is still on the way, but responds no more.
    let on_stop = |stopped: &mut Intake<'_>| {
        stopped.answers = None;
        // FIN may have been sent already, and the sender may have ended too.
        let _ = transports::close(kept);
        Ok(true)
    };
    Ok(reporter.through(&mut intake, on_stop, false))
}

fn intake<'a>(
    setup: &LiveSetup,
    receiver: &'a mut dyn Take,
    socket: &'a OwnedFd,
) -> io::Result<Intake<'a>> {
    let cell = &setup.cell;
    let asks = cell.pattern == Exchange::RequestResponse;
    Ok(Intake {
        receiver,
        // The sender's content is not known here.
        checker: Checker::counting_only(),
        size_bytes: if setup.knows_size {
            cell.size_bytes
        } else {
            u64::MAX
        },
        answers: asks.then(|| answer(cell)).transpose()?.map(|a| (socket, a)),
    })
}

/// Publishes a flow's counters when a reading is asked for, once a second.
struct FlowReporter<'a> {
    counters: &'a FlowCounters,
    flow: u32,
    socket: &'a OwnedFd,
    seen: u32,
    most_bytes_per_s: Option<u64>,
    meter: ConnectionMeter<'a, ThreadMeter>,
}

impl FlowReporter<'_> {
    fn through<S: LoopBody>(
        &mut self,
        body: &mut S,
        on_stop: impl FnMut(&mut S) -> io::Result<bool>,
        completes: bool,
    ) -> EndedFlow {
        self.counters.wait();
        let from = self.meter.read_start();
        let mut ended = self.repeat(body, on_stop);
        let is_eof = |e: &io::Error| e.kind() == io::ErrorKind::UnexpectedEof;
        // A receiver that ends a session leaves its sender's last message without a response.
        let has_peer_ended = ended.as_ref().is_err_and(is_eof);
        if has_peer_ended {
            ended = body.complete();
        }
        let (to, tally) = (self.meter.read_end(), body.tally());
        let mut readings = self.meter.difference(&from, &to);
        readings.extend(tallied(&tally, completes.then_some(&tally)));
        EndedFlow {
            readings,
            flow: moved(&tally, to.0.clock_ns.saturating_sub(from.0.clock_ns)),
            latency_ns: None,
            has_peer_ended,
            failed: ended.err(),
        }
    }

    /// Steps until the other side has ended, or `on_stop` gives false when it is to stop. Reports
    /// when asked.
    fn repeat<S: LoopBody>(
        &mut self,
        body: &mut S,
        mut on_stop: impl FnMut(&mut S) -> io::Result<bool>,
    ) -> io::Result<()> {
        body.set_timed(true);
        let began_ns = clock::monotonic_ns();
        loop {
            if self.counters.number() != self.seen {
                let continues = self.report(body.tally(), body.latency_ns());
                if !continues && !on_stop(body)? {
                    return Ok(());
                }
                body.set_timed(true);
            }
            if let Some(most) = self.most_bytes_per_s
                && self.seen != STOP
                && is_early(body.tally().bytes, most, began_ns)
            {
                clock::sleep_until_ns(clock::monotonic_ns() + NAP_NS);
                continue;
            }
            if !body.step()? {
                return Ok(());
            }
        }
    }

    /// Reports; false when it is to stop.
    #[cold]
    fn report(&mut self, tally: Tally, latency_ns: Option<&mut Histogram<u64>>) -> bool {
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

/// Returns true if so many bytes are more than a limit allows by now.
#[cold]
fn is_early(bytes: u64, most_bytes_per_s: u64, began_ns: u64) -> bool {
    let due_ns = u128::from(bytes) * 1_000_000_000 / u128::from(most_bytes_per_s);
    u128::from(clock::monotonic_ns() - began_ns) < due_ns
}

/// CPUs of a side's flows, each a set: placements by name were made exact before, by the host's topology.
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
    use std::time::Duration;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(60);

    /// The number of a loop's allocations, and the bytes that it moved.
    fn counted<S: LoopBody>(
        body: &mut S,
        socket: &OwnedFd,
        counters: &FlowCounters,
        on_stop: impl FnMut(&mut S) -> io::Result<bool>,
    ) -> (u64, u64) {
        let mut reporter = FlowReporter {
            counters,
            flow: 0,
            socket,
            seen: WAIT,
            most_bytes_per_s: None,
            meter: ConnectionMeter::new(ThreadMeter::open_without_perf(), Some(socket), true),
        };
        let used = allocation_counter::measure(|| reporter.repeat(body, on_stop).unwrap());
        (used.count_total, body.tally().bytes)
    }

    fn sent(cell: &Cell, socket: OwnedFd, counters: &FlowCounters) -> (u64, u64) {
        let kept = socket.try_clone().unwrap();
        let mut mover = (MoverSetup::new(cell, Some(socket), TIMEOUT).open()).unwrap();
        let counted = match cell.pattern {
            Exchange::RequestResponse => {
                let mut ask = Ask::new(&mut *mover, &kept, answer(cell).unwrap());
                ask.latency_ns = histogram();
                counted(&mut ask, &kept, counters, finish)
            }
            Exchange::Stream => counted(&mut Stream(&mut *mover), &kept, counters, finish),
        };
        transports::close(&kept).unwrap();
        counted
    }

    fn received(setup: &LiveSetup, socket: OwnedFd, counters: &FlowCounters) -> (u64, u64) {
        let kept = socket.try_clone().unwrap();
        let mut receiver = open_receiver(&setup.cell, socket).unwrap();
        let mut intake = intake(setup, &mut *receiver, &kept).unwrap();
        counted(&mut intake, &kept, counters, |_| Ok(true))
    }

    // Invariant 4.
    #[test]
    fn a_flow_that_reports_each_second_allocates_nothing() {
        for pattern in [Exchange::Stream, Exchange::RequestResponse] {
            let asks = pattern == Exchange::RequestResponse;
            let cell = Cell {
                pattern,
                size_bytes: 4096,
                ..Cell::default()
            };
            let listener = transports::listen(&cell, None).unwrap();
            let sending = transports::connect(&cell, &listener.address(), TIMEOUT).unwrap();
            let taking = listener.accept(TIMEOUT).unwrap();
            let receiver = LiveSetup {
                side: Side::Receiver,
                cell: cell.clone(),
                knows_size: true,
                longest: None,
                max_bytes_per_s: None,
                start_timeout: TIMEOUT,
            };
            let (here, there) = (FlowCounters::new(1, asks), FlowCounters::new(1, false));
            thread::scope(|scope| {
                let sender = scope.spawn(|| sent(&cell, sending, &here));
                let taker = scope.spawn(|| received(&receiver, taking, &there));
                let until_ns = clock::monotonic_ns() + 60_000_000_000;
                // They report again and again, until both have moved something.
                let has_moved = |counters: &FlowCounters, number| {
                    let read = counters.read(0, number, &mut None);
                    read.map(|read| read.tally.bytes > 0)
                };
                let mut number = 0;
                let mut have_moved = false;
                while number < 20 || !have_moved && clock::monotonic_ns() < until_ns {
                    number += 1;
                    here.request(number);
                    there.request(number);
                    let read = || Some([has_moved(&here, number)?, has_moved(&there, number)?]);
                    while read().is_none() && clock::monotonic_ns() < until_ns {
                        clock::sleep_until_ns(clock::monotonic_ns() + 200_000);
                    }
                    have_moved = read() == Some([true, true]);
                }
                here.request(STOP);
                let (sent, got) = (sender.join().unwrap(), taker.join().unwrap());
                assert_eq!((sent.0, got.0), (0, 0), "allocations, asks: {asks}");
                assert!(have_moved && sent.1 == got.1);
            });
        }
    }
}
