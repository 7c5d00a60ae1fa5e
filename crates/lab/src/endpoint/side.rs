//! One flow of one side: made ready, run through its window, and told.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use bytecost_engine::{Checker, InFlight, Mover, Pattern, Receiver, Setup, Tally};
use bytecost_meter::{Meter, PROCESS_COUNTERS, ThreadMeter};
use bytecost_spec::sample::FlowReading;
use bytecost_spec::survey::Release;
use bytecost_spec::{
    Cell, Counter, Pattern as Exchange, Placement, Reading, Readings, SideReadings,
};
use bytecost_sys::process;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2Serializer};

use super::{Signal, file_side};
use crate::connection::ConnectionMeter;
use crate::flow::{ANSWER_BYTES, Ask, Finish, Intake, Window, stream};
use crate::gate::{Gate, Phase, SharedGate};
use crate::protocol::{Check, Done, Role, Task};
use crate::requests::Stretches;

/// What one flow brings back.
pub(super) struct FlowDone {
    readings: Readings,
    flow: FlowReading,
    /// Whether the process was measured, not this flow's thread alone.
    of_process: bool,
    total_bytes: u64,
    compared_bytes: u64,
    latency_ns: Option<Histogram<u64>>,
}

/// Carries one flow of a side through the trial.
pub(super) fn one_flow(
    task: &Task,
    socket: Option<OwnedFd>,
    flow: u32,
    gate: &SharedGate,
    tell: &mpsc::Sender<Signal>,
) -> io::Result<FlowDone> {
    pin(&task.cell, task.role, flow)?;
    let wait = || {
        let _ = tell.send(Signal::Ready);
        while gate.phase() == Phase::Waiting {
            // Wake-ups may be spurious; the bound is for a wake-up that comes too early.
            thread::park_timeout(Duration::from_millis(1));
        }
    };
    let closed = || {
        let _ = tell.send(Signal::Closed);
    };
    match task.role {
        Role::Sender => send(task, socket, flow, gate, wait, closed),
        Role::Receiver => receive(task, socket, flow, gate, wait, closed),
    }
}

fn pin(cell: &Cell, role: Role, flow: u32) -> io::Result<()> {
    let Placement::Cpus { sender, receiver } = &cell.placement else {
        return Ok(());
    };
    let cpus = if role == Role::Sender {
        sender
    } else {
        receiver
    };
    match cpus.get(flow as usize % cpus.len().max(1)) {
        Some(cpu) => process::set_affinity(&[*cpu]),
        None => Ok(()),
    }
}

fn send(
    task: &Task,
    socket: Option<OwnedFd>,
    flow: u32,
    gate: &SharedGate,
    wait: impl FnOnce(),
    closed: impl FnOnce(),
) -> io::Result<FlowDone> {
    let cell = &task.cell;
    let mover = Mover::named(&cell.mover).ok_or_else(|| unknown("mover", &cell.mover))?;
    if mover.route.is_of_files() {
        return file_side::run(task, mover, flow, gate, wait, closed);
    }
    let kept = socket.as_ref().map(OwnedFd::try_clone).transpose()?;
    let mut engine = (mover.open)(Setup {
        socket,
        file: None,
        size: usize::try_from(cell.size_bytes).map_err(|_| io::ErrorKind::InvalidInput)?,
        fields: cell.fields as usize,
        slots: usize::try_from(cell.ring_slots()).map_err(|_| io::ErrorKind::InvalidInput)?,
        flow,
        fresh: is_fresh(task, mover),
        patience: Duration::from_millis(task.patience_ms),
    })?;
    let finish = Finish {
        closed,
        messages_least: task.messages_least,
    };
    let is_tcp = cell.transport.is_tcp() && kept.is_some();
    let mut meter = ConnectionMeter {
        thread: meter(cell),
        socket: kept.as_ref(),
        is_tcp,
    };
    let (window, latency_ns) = match (cell.pattern, &kept) {
        (Exchange::Ask, Some(socket)) => {
            let mut ask = Ask::new(&mut *engine, socket, cell.size_bytes);
            wait();
            let window = ask.run(gate, &mut meter, finish)?;
            (window, Some(ask.latency_ns))
        }
        _ => {
            wait();
            (stream(&mut *engine, gate, &mut meter, finish)?, None)
        }
    };
    if let Some(socket) = &kept {
        rustix::net::shutdown(socket, rustix::net::Shutdown::Write)?;
    }
    Ok(flow_done(
        Measured::window(&window, &meter),
        Some(mover),
        0,
        latency_ns,
    ))
}

/// A perf event costs its thread some µs at every context switch, which is what asking and
/// answering is made of; so there are none there.
fn meter(cell: &Cell) -> ThreadMeter {
    match cell.pattern {
        Exchange::Stream => ThreadMeter::open(),
        Exchange::Ask => ThreadMeter::open_without_perf(),
    }
}

/// The content of a full check is new in every message, where the mover allows that.
fn is_fresh(task: &Task, mover: &Mover) -> bool {
    task.check == Check::Full && mover.can_be_fresh()
}

fn receive(
    task: &Task,
    socket: Option<OwnedFd>,
    flow: u32,
    gate: &SharedGate,
    wait: impl FnOnce(),
    closed: impl FnOnce(),
) -> io::Result<FlowDone> {
    let cell = &task.cell;
    let row = Receiver::named(&cell.receiver).ok_or_else(|| unknown("receiver", &cell.receiver))?;
    let mover = Mover::named(&cell.mover).ok_or_else(|| unknown("mover", &cell.mover))?;
    let socket = socket.ok_or(io::ErrorKind::NotConnected)?;
    let kept = socket.try_clone()?;
    let read_size = usize::try_from(cell.read_bytes()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut receiver = (row.open)(socket, read_size)?;
    let period = if is_fresh(task, mover) {
        0
    } else {
        cell.size_bytes * cell.ring_slots()
    };
    let mut meter = ConnectionMeter {
        thread: meter(cell),
        socket: Some(&kept),
        is_tcp: cell.transport.is_tcp(),
    };
    let answer = vec![0x5a; cell.size_bytes.min(ANSWER_BYTES) as usize];
    let mut intake = Intake {
        receiver: &mut *receiver,
        checker: Checker::new(Pattern::new(flow, period), task.check == Check::Full),
        size_bytes: cell.size_bytes,
        answers: (cell.pattern == Exchange::Ask).then_some((&kept, answer)),
    };
    wait();
    let window = intake.run(gate, &mut meter, closed)?;
    let compared = intake.checker.compared();
    let measured = Measured::window(&window, &meter);
    Ok(flow_done(measured, None, compared, None))
}

fn unknown(what: &str, name: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("{what} `{name}` is not known"),
    )
}

/// What was measured between the edges of a window.
pub(super) struct Measured {
    readings: Readings,
    /// What the tally grew by.
    grown: Tally,
    /// What was done in the whole trial.
    total: Tally,
}

impl Measured {
    /// Messages of the whole trial.
    pub(super) fn total_messages(&self) -> u64 {
        self.total.messages
    }

    fn window<M: Meter>(window: &Window<M::Snapshot>, meter: &M) -> Measured {
        Measured {
            readings: meter.difference(&window.from.snapshot, &window.to.snapshot),
            grown: window.to.tally.since(&window.from.tally),
            total: window.total,
        }
    }

    /// Stretches taken together: all that a meter of threads or processes reads adds up.
    pub(super) fn stretches<M: Meter>(all: &Stretches<M::Snapshot>, meter: &M) -> Measured {
        let mut readings = Readings::new();
        let mut grown = Tally::default();
        for (from, to) in &all.of {
            for (counter, reading) in meter.difference(&from.snapshot, &to.snapshot) {
                let sum = match readings.get(&counter) {
                    Some(before) => before.plus(&reading),
                    None => reading,
                };
                readings.insert(counter, sum);
            }
            grown = grown.plus(&to.tally.since(&from.tally));
        }
        if all.aside_ns > 0 {
            readings.insert(Counter::AsideNs, Reading::Measured(all.aside_ns));
        }
        Measured {
            readings,
            grown,
            total: all.total,
        }
    }
}

/// What a flow brings back; `mover` on the side that sends.
pub(super) fn flow_done(
    measured: Measured,
    mover: Option<&Mover>,
    compared_bytes: u64,
    latency_ns: Option<Histogram<u64>>,
) -> FlowDone {
    let Measured {
        mut readings,
        grown,
        total,
    } = measured;
    let mut put = |counter, n| {
        readings.insert(counter, Reading::Measured(n));
    };
    put(Counter::Bytes, grown.bytes);
    put(Counter::Messages, grown.messages);
    put(Counter::Calls, grown.calls);
    if mover.is_some_and(|m| m.release == Release::AtCompletion) {
        put(Counter::Completions, grown.released);
        put(Counter::CompletionsCopied, grown.copied);
        put(Counter::Enobufs, grown.enobufs);
    }
    if grown.misses > 0 {
        put(Counter::NowaitMisses, grown.misses);
    }
    let elapsed_ns = readings
        .get(&Counter::ElapsedNs)
        .and_then(Reading::measured)
        .unwrap_or(0);
    FlowDone {
        readings,
        flow: FlowReading {
            bytes: grown.bytes,
            messages: grown.messages,
            elapsed_ns,
        },
        of_process: mover.is_some_and(|m| m.in_flight == InFlight::SeveralByThreads),
        total_bytes: total.bytes,
        compared_bytes,
        latency_ns,
    }
}

/// Joins what the flows bring back.
pub(super) fn gather(flows: Vec<thread::Result<io::Result<FlowDone>>>) -> io::Result<Done> {
    let mut done = Done::default();
    let mut readings = Vec::with_capacity(flows.len());
    let mut merged: Option<Histogram<u64>> = None;
    let mut of_process = false;
    for flow in flows {
        let flow = flow.map_err(|_| io::Error::other("a thread panicked"))??;
        of_process |= flow.of_process;
        readings.push(flow.readings);
        done.side.flows.push(flow.flow);
        done.total_bytes.push(flow.total_bytes);
        done.compared_bytes += flow.compared_bytes;
        if let Some(histogram) = flow.latency_ns {
            match &mut merged {
                None => merged = Some(histogram),
                Some(all) => all.add(&histogram).map_err(io::Error::other)?,
            }
        }
    }
    let mut sum = bytecost_meter::sum(&readings);
    if of_process && let Some(first) = readings.first() {
        // Each flow has read the same process, so one of them tells it.
        let whole = first.iter().filter(|(c, _)| PROCESS_COUNTERS.contains(c));
        sum.extend(whole.map(|(c, r)| (*c, r.clone())));
    }
    done.side = SideReadings {
        readings: sum,
        flows: done.side.flows,
    };
    done.latency_ns_histogram = merged.as_ref().map(encode).transpose()?;
    Ok(done)
}

fn encode(histogram: &Histogram<u64>) -> io::Result<String> {
    use base64::Engine;
    let mut bytes = Vec::new();
    V2Serializer::new()
        .serialize(histogram, &mut bytes)
        .map_err(io::Error::other)?;
    Ok(base64::engine::general_purpose::STANDARD.encode(bytes))
}
