//! One flow of one side: made ready, run through its window, and told.

use std::io;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;

use bytecost_engine::{Checker, Mover, Tally, file};
use bytecost_meter::{Meter, PROCESS_COUNTERS};
use bytecost_spec::cell::{Payload, Reaping};
use bytecost_spec::evidence::Footprint;
use bytecost_spec::sample::{FlowReading, SubWindows};
use bytecost_spec::survey::Release;
use bytecost_spec::{Cell, Counter, Held, Pattern as Exchange, Reading, Readings, SideReadings};
use bytecost_sys::tcp::TcpInfo;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2Serializer};

use super::turn::Turn;
use crate::connection::ConnectionMeter;
use crate::edges::Stretches;
use crate::files;
use crate::flow::{Intake, moved, tallied};
use crate::flow_setup::{answer, content, mover_of, receiving_end};
use crate::marks::{self, Marks};
use crate::passes::Passes;
use crate::protocol::{ContentCheck, Done, Task};

pub(super) struct FlowDone {
    readings: Readings,
    flow: FlowReading,
    sub_windows: Option<SubWindows>,
    /// Whether the process was measured, not this flow's thread alone.
    pub(super) of_process: bool,
    total_bytes: u64,
    compared_bytes: u64,
    latency_ns: Option<Histogram<u64>>,
    /// Its threads, where anything was chosen for them.
    pub(super) held: Vec<Held>,
    pub(super) footprint: Option<Footprint>,
}

/// The content of a full check is new in every message, where the mover allows that and waits
/// for its buffers.
pub(super) fn is_fresh(task: &Task, mover: &Mover) -> bool {
    let cell = &task.cell;
    task.check == ContentCheck::Full
        && mover.can_refill()
        && cell.payload == Payload::Prepared
        && cell.reaping == Reaping::Full
}

pub(super) fn receive(
    task: &Task,
    socket: Option<OwnedFd>,
    flow: u32,
    turn: Turn<'_>,
) -> io::Result<FlowDone> {
    let cell = &task.cell;
    let socket = socket.ok_or(io::ErrorKind::NotConnected)?;
    let kept = socket.try_clone()?;
    let mut receiver = receiving_end(cell, socket)?;
    let thread = turn.metered(flow, task.meters.thread());
    let mut meter = ConnectionMeter::new(thread, Some(&kept), cell.transport.is_tcp());
    let mut intake = Intake {
        receiver: &mut *receiver,
        checker: checker(task, flow)?,
        size_bytes: cell.size_bytes,
        answers: (cell.pattern == Exchange::Ask).then_some((&kept, answer(cell)?)),
    };
    if intake.answers.is_none() {
        turn.gate.ask_for_steps();
    }
    turn.ready();
    let measured = match Passes::of(cell) {
        Some(passes) => {
            let patience = Duration::from_millis(task.patience_ms);
            let (warm, closed) = (|| turn.warm(), || turn.closed());
            let all = intake.run_passes(passes, &kept, patience, &mut meter, warm, closed)?;
            turn.stop();
            Measured::passes(&all, &meter)
        }
        None => {
            let all = intake.run(turn.gate, &mut meter, || turn.closed())?;
            Measured::stretches(&all, &meter)
        }
    };
    let compared = intake.checker.compared();
    Ok(flow_done(measured, Completions::None, compared, None))
}

/// What holds that against which comes: what was sent, as far as anybody knows it.
fn checker(task: &Task, flow: u32) -> io::Result<Checker> {
    let (cell, full) = (&task.cell, task.check == ContentCheck::Full);
    let mover = mover_of(cell)?;
    Ok(match &task.file {
        Some(file) if !file.own => Checker::of_count(),
        Some(_) => {
            let (start, len) = files::part(cell, mover, flow);
            Checker::new(file::content().part(start, len), full)
        }
        None => Checker::new(content(cell, flow, is_fresh(task, mover)), full),
    })
}

/// When a sender learns of completions.
#[derive(Clone, Copy)]
pub(super) enum Completions {
    None,
    /// As they come, so that those of the window are known.
    Taken,
    /// Some or all after the last byte only, so that no window knows its own.
    LeftLying,
}

impl Completions {
    pub(super) fn of(mover: &Mover, cell: &Cell) -> Completions {
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
    marks: Option<Marks>,
}

impl Measured {
    pub(super) fn total_messages(&self) -> u64 {
        self.total.messages
    }

    /// The same with another reading.
    pub(super) fn with(mut self, counter: Counter, n: u64) -> Measured {
        self.readings.insert(counter, Reading::Measured(n));
        self
    }

    /// Stretches taken together: all that a meter of threads or processes reads adds up.
    pub(super) fn stretches<M: Meter>(all: &Stretches<M::Snapshot>, meter: &M) -> Measured {
        Measured::together(all, |from, to| meter.difference(from, to))
    }

    /// Passes taken together: what the connection says is of the whole window.
    pub(super) fn passes<M: Meter>(
        all: &Stretches<(M::Snapshot, Option<TcpInfo>)>,
        meter: &ConnectionMeter<'_, M>,
    ) -> Measured {
        let mut measured =
            Measured::together(all, |from, to| meter.thread.difference(&from.0, &to.0));
        if let (Some((first, _)), Some((_, last))) = (all.of.first(), all.of.last()) {
            let said = meter.of_connection(first.snapshot.1, last.snapshot.1);
            measured.readings.extend(said);
        }
        measured
    }

    fn together<S>(all: &Stretches<S>, difference: impl Fn(&S, &S) -> Readings) -> Measured {
        let mut readings = Readings::new();
        for (from, to) in &all.of {
            for (counter, reading) in difference(&from.snapshot, &to.snapshot) {
                let sum = match readings.get(&counter) {
                    Some(before) => before.plus(&reading),
                    None => reading,
                };
                readings.insert(counter, sum);
            }
        }
        if all.aside_ns > 0 {
            readings.insert(Counter::AsideNs, Reading::Measured(all.aside_ns));
        }
        Measured {
            readings,
            grown: all.grown(),
            total: all.total,
            marks: all.marks,
        }
    }
}

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
        marks,
    } = measured;
    let completed = match completions {
        Completions::None => None,
        Completions::Taken => Some(&grown),
        Completions::LeftLying => Some(&total),
    };
    readings.extend(tallied(&grown, completed));
    if grown.misses > 0 {
        readings.insert(Counter::NowaitMisses, Reading::Measured(grown.misses));
    }
    let elapsed_ns = readings
        .get(&Counter::ElapsedNs)
        .and_then(Reading::measured)
        .unwrap_or(0);
    FlowDone {
        readings,
        flow: moved(&grown, elapsed_ns),
        sub_windows: marks.and_then(|marks| marks.sub_windows()),
        of_process: false,
        total_bytes: total.bytes,
        compared_bytes,
        latency_ns,
        held: Vec::new(),
        footprint: None,
    }
}

/// Joins what the flows bring back, with the CPU time that watching their window took.
pub(super) fn gather(
    task: &Task,
    flows: Vec<thread::Result<io::Result<FlowDone>>>,
    edges_ns: u64,
) -> io::Result<Done> {
    let mut done = Done::default();
    let mut readings = Vec::with_capacity(flows.len());
    let mut merged: Option<Histogram<u64>> = None;
    let mut of_process = false;
    let mut workers: Option<Reading> = None;
    let mut courses = Vec::with_capacity(readings.capacity());
    for flow in flows {
        let mut flow = flow.map_err(|_| io::Error::other("a thread panicked"))??;
        of_process |= flow.of_process;
        let own = flow.readings.remove(&Counter::WorkersNs);
        workers = [workers, own]
            .into_iter()
            .flatten()
            .reduce(|a, b| a.plus(&b));
        readings.push(flow.readings);
        done.side.flows.push(flow.flow);
        courses.extend(flow.sub_windows);
        done.side.held.extend(flow.held);
        done.total_bytes.push(flow.total_bytes);
        done.compared_bytes += flow.compared_bytes;
        done.footprint = done.footprint.or(flow.footprint);
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
    if let Some(Reading::Measured(of_threads)) = sum.get_mut(&Counter::EdgesNs) {
        *of_threads += edges_ns;
    }
    task.meters.take_cpu(&mut sum);
    // What works for the threads is theirs, whoever of them has read it.
    if let (Some(workers), Some(own)) = (workers, sum.get(&Counter::CpuNs)) {
        sum.insert(Counter::CpuNs, task.meters.with_workers(own, &workers));
        sum.insert(Counter::WorkersNs, workers);
    }
    done.side = SideReadings {
        readings: sum,
        sub_windows: marks::together(&courses),
        ..done.side
    };
    done.latency_ns_histogram = merged.as_ref().map(encode).transpose()?;
    Ok(done)
}

pub(super) fn encode(histogram: &Histogram<u64>) -> io::Result<String> {
    use base64::Engine;
    let mut bytes = Vec::new();
    V2Serializer::new()
        .serialize(histogram, &mut bytes)
        .map_err(io::Error::other)?;
    Ok(base64::engine::general_purpose::STANDARD.encode(bytes))
}
