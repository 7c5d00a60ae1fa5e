//! One flow of one side: made ready, run through its window, and joined with the others.

use std::io;
use std::os::fd::OwnedFd;

use bytecost_engine::{Checker, Mover, Tally, file};
use bytecost_meter::{Meter, is_of_process};
use bytecost_spec::cell::{Payload, Reaping};
use bytecost_spec::evidence::Footprint;
use bytecost_spec::sample::{FlowReading, SubWindows};
use bytecost_spec::survey::Release;
use bytecost_spec::{Cell, Counter, Held, Pattern as Exchange, Reading, Readings};
use bytecost_sys::tcp::TcpInfo;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2Serializer};

use super::gate_control::FlowHandle;
use crate::connection::ConnectionMeter;
use crate::edges::Segments;
use crate::files;
use crate::flow::{Intake, moved, tallied};
use crate::flow_setup::{answer, content, mover_of, open_receiver};
use crate::marks;
use crate::pass_loops::PassReceiver;
use crate::passes::Passes;
use crate::protocol::{ContentCheck, Done, Task};

#[derive(Default)]
pub(super) struct FlowDone {
    pub(super) readings: Readings,
    /// The tally of its window.
    window: Tally,
    /// The tally of the whole trial.
    pub(super) total: Tally,
    sub_windows: Option<SubWindows>,
    pub(super) completions: Completions,
    /// True if the process was measured, not this flow's thread alone.
    pub(super) of_process: bool,
    pub(super) compared_bytes: u64,
    pub(super) latency_ns: Option<Histogram<u64>>,
    /// The bindings of its threads, where CPUs, memory or a class were chosen for them.
    pub(super) held: Vec<Held>,
    pub(super) footprint: Option<Footprint>,
}

/// Returns true if each message has new content: in a full check, where the mover waits for its buffers.
pub(super) fn is_fresh(task: &Task, mover: &Mover) -> bool {
    let cell = &task.cell;
    task.check == ContentCheck::Full
        && mover.can_refill()
        && cell.payload == Payload::Prepared
        && cell.reaping == Reaping::Full
}

pub(super) fn receive(handle: FlowHandle<'_>, socket: Option<OwnedFd>) -> io::Result<FlowDone> {
    let cell = &handle.task.cell;
    let connected = socket.ok_or(io::ErrorKind::NotConnected)?;
    let kept = connected.try_clone()?;
    let mut receiver = open_receiver(cell, connected)?;
    let thread = handle.metered(handle.thread_meter());
    let mut meter = ConnectionMeter::new(thread, Some(&kept), cell.transport.is_tcp());
    let mut intake = Intake {
        receiver: &mut *receiver,
        checker: checker(handle.task, handle.flow)?,
        size_bytes: cell.size_bytes,
        answers: (cell.pattern == Exchange::RequestResponse).then_some((&kept, answer(cell)?)),
    };
    if intake.answers.is_none() {
        handle.gate.ask_for_steps();
    }
    handle.ready();
    let mut done = match Passes::new(cell) {
        Some(passes) => {
            let pass_receiver = PassReceiver {
                intake: &mut intake,
                passes,
                socket: &kept,
                timeout: handle.timeout(),
            };
            let segments = pass_receiver.run(&mut meter, || handle.warm(), || handle.closed())?;
            handle.stop();
            FlowDone::from_passes(&segments, &meter)
        }
        None => {
            let segments = intake.run(handle.gate, &mut meter, || handle.closed())?;
            FlowDone::from_segments(&segments, &meter)
        }
    };
    done.compared_bytes = intake.checker.compared();
    Ok(done)
}

/// The check of received bytes against those that were sent, as far as they are known.
fn checker(task: &Task, flow: u32) -> io::Result<Checker> {
    let (cell, full) = (&task.cell, task.check == ContentCheck::Full);
    let mover = mover_of(cell)?;
    Ok(match &task.here.file {
        Some(file) if !file.own => Checker::counting_only(),
        Some(_) => {
            let (start, len) = files::part(cell, mover, flow);
            Checker::new(file::content().part(start, len), full)
        }
        None => Checker::new(content(cell, flow, is_fresh(task, mover)), full),
    })
}

/// The time at which a sender learns of completions.
#[derive(Clone, Copy, Default)]
pub(super) enum Completions {
    #[default]
    None,
    /// As they come, so that those of the window are known.
    Taken,
    /// Some or all after the last byte only, so that no window knows its own.
    LeftLying,
}

impl Completions {
    pub(super) fn new(mover: &Mover, cell: &Cell) -> Completions {
        match (mover.release, cell.reaping) {
            (Release::AtCompletion, Reaping::Full) => Completions::Taken,
            (Release::AtCompletion, Reaping::OneLook | Reaping::Never) => Completions::LeftLying,
            _ => Completions::None,
        }
    }
}

impl FlowDone {
    /// Segments taken together: all that a meter of threads or processes reads adds up.
    pub(super) fn from_segments<M: Meter>(segments: &Segments<M::Snapshot>, meter: &M) -> FlowDone {
        FlowDone::summed(segments, |from, to| meter.difference(from, to))
    }

    /// Passes taken together, with the connection's readings of the whole window.
    pub(super) fn from_passes<M: Meter>(
        segments: &Segments<(M::Snapshot, Option<TcpInfo>)>,
        meter: &ConnectionMeter<'_, M>,
    ) -> FlowDone {
        let mut done =
            FlowDone::summed(segments, |from, to| meter.thread.difference(&from.0, &to.0));
        if let (Some((first, _)), Some((_, last))) = (segments.edges.first(), segments.edges.last())
        {
            let connection = meter.connection(first.snapshot.1, last.snapshot.1);
            done.readings.extend(connection);
        }
        done
    }

    fn summed<S>(segments: &Segments<S>, difference: impl Fn(&S, &S) -> Readings) -> FlowDone {
        let mut readings = Readings::new();
        for (from, to) in &segments.edges {
            for (counter, reading) in difference(&from.snapshot, &to.snapshot) {
                let sum = readings.get(&counter).map(|before| before.plus(&reading));
                readings.insert(counter, sum.unwrap_or(reading));
            }
        }
        if segments.aside_ns > 0 {
            readings.insert(Counter::AsideNs, Reading::Measured(segments.aside_ns));
        }
        FlowDone {
            readings,
            window: segments.tally(),
            total: segments.total,
            sub_windows: segments.marks.and_then(|marks| marks.sub_windows()),
            ..FlowDone::default()
        }
    }

    /// The bytes and messages of its window, which it adds to its readings too.
    fn moved(&mut self) -> FlowReading {
        let completed = match self.completions {
            Completions::None => None,
            Completions::Taken => Some(&self.window),
            Completions::LeftLying => Some(&self.total),
        };
        self.readings.extend(tallied(&self.window, completed));
        let misses = self.window.misses;
        if misses > 0 {
            let misses = Reading::Measured(misses);
            self.readings.insert(Counter::NowaitMisses, misses);
        }
        let elapsed_ns = (self.readings.get(&Counter::ElapsedNs))
            .and_then(Reading::measured)
            .unwrap_or(0);
        moved(&self.window, elapsed_ns)
    }
}

/// Joins the results of the flows, with the CPU time of the control within their window.
pub(super) fn gather(task: &Task, flows: Vec<FlowDone>, edges_ns: u64) -> io::Result<Done> {
    let mut done = Done::default();
    let mut readings = Vec::with_capacity(flows.len());
    let mut merged: Option<Histogram<u64>> = None;
    let mut of_process = false;
    let mut workers: Option<Reading> = None;
    let mut samples = Vec::with_capacity(readings.capacity());
    for mut flow in flows {
        done.side.flows.push(flow.moved());
        of_process |= flow.of_process;
        let read = flow.readings.remove(&Counter::WorkersNs);
        let both = [workers, read].into_iter().flatten();
        workers = both.reduce(|a, b| a.plus(&b));
        readings.push(flow.readings);
        samples.extend(flow.sub_windows);
        done.side.held.extend(flow.held);
        done.total_bytes.push(flow.total.bytes);
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
        // Each flow has read the same process, so that one of them is enough.
        let whole = first.iter().filter(|(c, _)| is_of_process(**c));
        sum.extend(whole.map(|(c, r)| (*c, r.clone())));
    }
    if let Some(Reading::Measured(of_threads)) = sum.get_mut(&Counter::EdgesNs) {
        *of_threads += edges_ns;
    }
    let meters = &task.here.meters;
    meters.take_cpu(&mut sum);
    // Workers count with the threads, whichever of them has read it.
    if let (Some(workers), Some(threads)) = (workers, sum.get(&Counter::CpuNs)) {
        sum.insert(Counter::CpuNs, meters.with_workers(threads, &workers));
        sum.insert(Counter::WorkersNs, workers);
    }
    done.side.readings = sum;
    done.side.sub_windows = marks::together(&samples);
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
