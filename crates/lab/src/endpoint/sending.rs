//! One flow of the sending side: made ready, and run through its window.

use std::io;
use std::os::fd::OwnedFd;

use bytecost_engine::{FileWork, Helper, InFlight, Move, Mover, Route};
use bytecost_meter::{HelpedMeter, Meter, ProcessMeter};
use bytecost_spec::{Cache, Counter, Held, Pattern as Exchange, Reading};

use super::file_side;
use super::gate_control::FlowHandle;
use super::probed::{Probed, SharedFootprint};
use super::side::{Completions, FlowDone, is_fresh};
use crate::connection::ConnectionMeter;
use crate::edges::by_gate;
use crate::files;
use crate::flow::{Ask, Stream};
use crate::flow_setup::{MoverSetup, answer, mover_of};
use crate::page_cache;
use crate::pass_loops::PassSender;
use crate::passes::Passes;
use crate::thread_binding::ThreadBinding;
use crate::transports;
use crate::wakes::Wakes;

pub(super) fn run(handle: FlowHandle<'_>, socket: Option<OwnedFd>) -> io::Result<FlowDone> {
    let cell = &handle.task.cell;
    let mover = mover_of(cell)?;
    if mover.route.is_of_files() {
        return file_side::run(handle, mover);
    }
    let (mut flow, seen) = Flow::ready(handle, mover, socket)?.with_probes();
    let thread = handle.thread_meter();
    // The CPU time of workers, or of a process that it has started, is the mover's.
    let mut done = if let Some(Helper::Process(pid)) = flow.engine.helper() {
        flow.run(HelpedMeter::new(thread, pid))?
    } else if let Some(every_ns) = mover.beat_ns() {
        flow.run_beats(thread, every_ns)?
    } else if mover.in_flight == InFlight::SeveralByThreads {
        flow.run(handle.metered(ProcessMeter(thread)))?
    } else {
        flow.run(handle.metered(thread))?
    };
    done.completions = Completions::new(mover, cell);
    done.of_process = mover.in_flight == InFlight::SeveralByThreads;
    done.footprint = seen.map(|seen| seen.take());
    Ok(done)
}

/// Runs one ping-pong through a trial: of two sets of CPUs the first is for the thread that sends first.
pub(super) fn ping_pong(handle: FlowHandle<'_>) -> io::Result<FlowDone> {
    let FlowHandle { task, flow, .. } = handle;
    let cell = &task.cell;
    // A new thread inherits the CPUs of the one that starts it.
    let pins = &task.here.pins;
    ThreadBinding::bind(pins, 2 * flow + 1, cell.mem_node)?;
    let mut ready = Flow::ready(handle, mover_of(cell)?, None)?;
    let binding = ThreadBinding::bind(pins, 2 * flow, cell.mem_node)?;
    let mut done = ready.run(handle.metered(ProcessMeter(handle.thread_meter())))?;
    done.of_process = true;
    let helper = ready.engine.helper();
    if let (Some(own), Some(Helper::Thread(Some(partner)))) = (binding.held()?, helper) {
        let partner = Held {
            memory_node: partner.memory_node.filter(|_| cell.mem_node.is_some()),
            ..partner
        };
        done.held = vec![own, partner];
    }
    Ok(done)
}

/// A part of a file, by its offset and length in bytes.
struct ColdPart {
    file: OwnedFd,
    offset: u64,
    len: u64,
}

/// A sender of one flow, ready to run.
struct Flow<'a> {
    handle: FlowHandle<'a>,
    engine: Box<dyn Move>,
    socket: Option<OwnedFd>,
    /// The part of the file that is made cold before each pass.
    cooled: Option<ColdPart>,
}

impl<'a> Flow<'a> {
    fn ready(
        handle: FlowHandle<'a>,
        mover: &Mover,
        socket: Option<OwnedFd>,
    ) -> io::Result<Flow<'a>> {
        let FlowHandle { task, flow, .. } = handle;
        let cell = &task.cell;
        let kept = socket.as_ref().map(OwnedFd::try_clone).transpose()?;
        let file = file_of(handle, mover)?;
        let cooled = match &file {
            Some(work) if cell.cache == Cache::Cold => {
                let (offset, len) = work.order.part();
                Some(ColdPart {
                    file: work.file.try_clone()?,
                    offset,
                    len,
                })
            }
            _ => None,
        };
        let mover_setup = MoverSetup {
            file,
            flow,
            fresh: is_fresh(task, mover),
            java: task.here.java.as_deref(),
            ..MoverSetup::new(cell, socket, handle.timeout())
        };
        Ok(Flow {
            handle,
            engine: mover_setup.open()?,
            socket: kept,
            cooled,
        })
    }

    /// Adds the probes of a footprint to the first flow, where its thread does the work.
    fn with_probes(self) -> (Flow<'a>, Option<SharedFootprint>) {
        let FlowHandle { task, flow, .. } = self.handle;
        let caches = &task.here.probed;
        if flow > 0 || caches.is_empty() || self.engine.helper().is_some() {
            return (self, None);
        }
        let (engine, seen) = Probed::around(self.engine, task.cell.size_bytes, caches);
        (Flow { engine, ..self }, Some(seen))
    }

    fn run_beats<M: Meter>(&mut self, mut meter: M, every_ns: u64) -> io::Result<FlowDone> {
        let handle = self.handle;
        let mut wakes = Wakes::new(&mut *self.engine, every_ns);
        handle.ready();
        let window = wakes.run(handle.gate, &mut meter, handle.window_end())?;
        let beats = wakes.into_beats();
        let mut done = FlowDone::from_segments(&window, &meter);
        let missed = Reading::Measured(beats.missed);
        done.readings.insert(Counter::BeatsMissed, missed);
        done.latency_ns = Some(beats.latency_ns);
        Ok(done)
    }

    fn run<M: Meter>(&mut self, thread: M) -> io::Result<FlowDone> {
        let (handle, socket) = (self.handle, self.socket.as_ref());
        let cell = &handle.task.cell;
        let is_tcp = cell.transport.is_tcp() && socket.is_some();
        let mut meter = ConnectionMeter::new(thread, socket, is_tcp);
        let end = handle.window_end();
        let asked = match (cell.pattern, socket) {
            (Exchange::RequestResponse, Some(socket)) => Some((socket, answer(cell)?)),
            _ => None,
        };
        let engine = &mut *self.engine;
        let shut = || socket.map_or(Ok(()), transports::close);
        if let Some(passes) = Passes::new(cell) {
            let timeout = handle.timeout();
            let mut cool = self
                .cooled
                .as_ref()
                .map(|part| move || page_cache::cool(&part.file, part.offset, part.len, timeout));
            let mut sender = PassSender::new(engine, passes);
            let is_asked = asked.is_some();
            sender.answers = asked;
            sender.cool = cool.as_mut().map(|cool| cool as _);
            handle.ready();
            let all = sender.run(handle.gate, &mut meter, || handle.opening(), end)?;
            let latency_ns = is_asked.then(|| sender.latency_ns.clone());
            // The receiver's window ends with the connection.
            shut()?;
            handle.stop();
            let mut done = FlowDone::from_passes(&all, &meter);
            done.latency_ns = latency_ns;
            return Ok(done);
        }
        let (window, latency_ns) = match asked {
            Some((stream, answer)) => {
                let mut ask = Ask::new(engine, stream, answer);
                handle.ready();
                let window = by_gate(&mut ask, handle.gate, &mut meter, end)?;
                (window, Some(ask.latency_ns))
            }
            None => {
                handle.gate.ask_for_steps();
                handle.ready();
                let window = by_gate(&mut Stream(engine), handle.gate, &mut meter, end)?;
                (window, None)
            }
        };
        shut()?;
        let mut done = FlowDone::from_segments(&window, &meter);
        done.latency_ns = latency_ns;
        Ok(done)
    }
}

/// The file that the flow sends, with its pages in the state that the cell names; none for one from
/// memory.
fn file_of(handle: FlowHandle<'_>, mover: &Mover) -> io::Result<Option<FileWork>> {
    let cell = &handle.task.cell;
    let (Route::FileToSocket, Some(at)) = (mover.route, &handle.task.here.file) else {
        return Ok(None);
    };
    let work = files::open(cell, mover, at, handle.flow)?;
    files::prepare_pages(cell, &work, handle.timeout())?;
    Ok(Some(work))
}
