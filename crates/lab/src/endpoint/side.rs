//! One flow of one side: made ready, run through its window, and told.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use bytecost_engine::{Checker, Mover, Tally};
use bytecost_meter::{Meter, PROCESS_COUNTERS, ThreadMeter};
use bytecost_spec::cell::{Payload, Reaping};
use bytecost_spec::sample::FlowReading;
use bytecost_spec::survey::Release;
use bytecost_spec::{
    Cell, Counter, Pattern as Exchange, Placement, Reading, Readings, SideReadings,
};
use bytecost_sys::process;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2Serializer};

use super::{Signal, file_side};
use crate::conduct::{answer, content, mover_of, receiving_end, sending_end};
use crate::connection::ConnectionMeter;
use crate::flow::{Ask, Finish, Intake, Window, stream};
use crate::gate::{Gate, Phase, SharedGate};
use crate::protocol::{Check, Done, Role, Task};
use crate::requests::Stretches;

/// What one flow brings back.
pub(super) struct FlowDone {
    readings: Readings,
    flow: FlowReading,
    /// Whether the process was measured, not this flow's thread alone.
    pub(super) of_process: bool,
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

pub(super) fn pin(cell: &Cell, role: Role, flow: u32) -> io::Result<()> {
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
    let mover = mover_of(cell)?;
    if mover.route.is_of_files() {
        return file_side::run(task, mover, flow, gate, wait, closed);
    }
    let kept = socket.as_ref().map(OwnedFd::try_clone).transpose()?;
    let fresh = is_fresh(task, mover);
    let patience = Duration::from_millis(task.patience_ms);
    let mut engine = sending_end(cell, socket, flow, fresh, patience)?;
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
            let mut ask = Ask::new(&mut *engine, socket, answer(cell)?);
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
        Completions::of(mover, cell),
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

/// The content of a full check is new in every message, where the mover allows that and waits
/// for its buffers.
fn is_fresh(task: &Task, mover: &Mover) -> bool {
    let cell = &task.cell;
    task.check == Check::Full
        && mover.can_be_fresh()
        && cell.payload == Payload::Prepared
        && cell.reaping == Reaping::Full
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
    let fresh = is_fresh(task, mover_of(cell)?);
    let socket = socket.ok_or(io::ErrorKind::NotConnected)?;
    let kept = socket.try_clone()?;
    let mut receiver = receiving_end(cell, socket)?;
    let mut meter = ConnectionMeter {
        thread: meter(cell),
        socket: Some(&kept),
        is_tcp: cell.transport.is_tcp(),
    };
    let mut intake = Intake {
        receiver: &mut *receiver,
        checker: Checker::new(content(cell, flow, fresh), task.check == Check::Full),
        size_bytes: cell.size_bytes,
        answers: (cell.pattern == Exchange::Ask).then_some((&kept, answer(cell)?)),
    };
    wait();
    let window = intake.run(gate, &mut meter, closed)?;
    let compared = intake.checker.compared();
    let measured = Measured::window(&window, &meter);
    Ok(flow_done(measured, Completions::None, compared, None))
}

/// When a sender learns of completions.
#[derive(Clone, Copy)]
pub(super) enum Completions {
    /// There are none.
    None,
    /// As they come, so that those of the window are known.
    Taken,
    /// Some or all after the last byte only, so that no window knows its own.
    LeftLying,
}

impl Completions {
    fn of(mover: &Mover, cell: &Cell) -> Completions {
        match (mover.release, cell.reaping) {
            (Release::AtCompletion, Reaping::Full) => Completions::Taken,
            (Release::AtCompletion, Reaping::OneLook | Reaping::Never) => Completions::LeftLying,
            _ => Completions::None,
        }
    }
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

/// What a flow brings back.
pub(super) fn flow_done(
    measured: Measured,
    completions: Completions,
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
    let told = match completions {
        Completions::LeftLying => total,
        _ => grown,
    };
    if !matches!(completions, Completions::None) {
        put(Counter::Completions, told.released);
        put(Counter::CompletionsCopied, told.copied);
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
        of_process: false,
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
