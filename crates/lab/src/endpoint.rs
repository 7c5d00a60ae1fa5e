//! One side of a trial in a process of its own: `bytecost endpoint`, driven over its standard
//! input, which is a socket.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use bytecost_engine::{Checker, Mover, Pattern, Receiver, Setup, Tally};
use bytecost_meter::{Meter, ThreadMeter};
use bytecost_spec::sample::FlowReading;
use bytecost_spec::{
    Cell, Counter, Pattern as Exchange, Placement, Reading, Readings, SideReadings,
};
use bytecost_sys::{clock, process};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2Serializer};

use crate::connection::{ConnectionMeter, join};
use crate::flow::{ANSWER_BYTES, Ask, Finish, Intake, Window, stream};
use crate::gate::{Gate, Phase, SharedGate};
use crate::protocol::{self, Answer, Check, Done, Order, Role, Task};
use crate::transports;

/// The life of an endpoint: prepare, go, tell. It dies with its coordinator, whose process id is
/// `parent`.
///
/// # Errors
/// When the coordinator cannot be told any more.
pub fn run(control: OwnedFd, parent: u32) -> io::Result<()> {
    process::die_with_parent(parent)?;
    let mut control = UnixStream::from(control);
    let answer = match serve(&mut control) {
        Ok(done) => Answer::Done(Box::new(done)),
        Err(e) => Answer::Failed {
            reason: explain(&e),
        },
    };
    protocol::write(&mut control, &answer)
}

/// An error with what to do about it, where that is known.
fn explain(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(code) if code == rustix::io::Errno::MFILE.raw_os_error() => {
            format!("{error}: raise the limit of open files (`ulimit -n`)")
        }
        Some(code) if code == rustix::io::Errno::PIPE.raw_os_error() => {
            format!("{error}: the other side is gone")
        }
        _ => error.to_string(),
    }
}

/// What a flow's thread tells the one that watches the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signal {
    /// It waits for the gate.
    Ready,
    /// Its window is over.
    Closed,
    /// It is over, well or not.
    Ended,
}

fn serve(control: &mut UnixStream) -> io::Result<Done> {
    let Order::Prepare(task) = protocol::read(control)? else {
        return Err(out_of_turn());
    };
    let gate = SharedGate::default();
    thread::scope(|scope| {
        let sockets = connections(&task, control)?;
        let (tell, told) = mpsc::channel();
        let mut threads = Vec::with_capacity(sockets.len());
        for (flow, socket) in sockets.into_iter().enumerate() {
            let (task, gate, tell) = (&task, &gate, tell.clone());
            threads.push(scope.spawn(move || {
                let done = one_flow(task, socket, flow as u32, gate, &tell);
                let _ = tell.send(Signal::Ended);
                done
            }));
        }
        let followed = follow(control, &gate, &threads, &told, task.role);
        gate.set(Phase::Stop);
        threads.iter().for_each(|t| t.thread().unpark());
        let flows: Vec<_> = threads.into_iter().map(|t| t.join()).collect();
        followed?;
        gather(flows)
    })
}

/// Moves the gate on as the coordinator says. Returns early when a thread ended before its time;
/// why it did is told when it is joined.
fn follow<T>(
    control: &mut UnixStream,
    gate: &SharedGate,
    threads: &[thread::ScopedJoinHandle<'_, T>],
    told: &mpsc::Receiver<Signal>,
    role: Role,
) -> io::Result<()> {
    let all = |signal| threads.iter().all(|_| told.recv() == Ok(signal));
    if !all(Signal::Ready) {
        return Ok(());
    }
    protocol::write(control, &Answer::Ready)?;
    let Order::Go(schedule) = protocol::read(control)? else {
        return Err(out_of_turn());
    };
    for (phase, at_ns) in [
        (Phase::Warmup, schedule.begin_ns),
        (Phase::Window, schedule.window_from_ns),
        (Phase::Cooldown, schedule.window_to_ns),
    ] {
        clock::sleep_until_ns(at_ns);
        gate.set(phase);
        if phase == Phase::Warmup {
            threads.iter().for_each(|t| t.thread().unpark());
        }
    }
    if !all(Signal::Closed) {
        return Ok(());
    }
    protocol::write(control, &Answer::Closed)?;
    match role {
        Role::Sender => match protocol::read(control)? {
            Order::Stop => Ok(()),
            _ => Err(out_of_turn()),
        },
        // It ends with its connections.
        Role::Receiver => Ok(()),
    }
}

fn out_of_turn() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "the coordinator gave an order out of turn",
    )
}

/// One connection for each flow, in their order; nothing for a mover without a peer.
fn connections(task: &Task, control: &mut UnixStream) -> io::Result<Vec<Option<OwnedFd>>> {
    let flows = task.cell.threads;
    let patience = Duration::from_millis(task.patience_ms);
    match (task.role, &task.address) {
        (Role::Sender, None) => Ok((0..flows).map(|_| None).collect()),
        (Role::Sender, Some(address)) => (0..flows)
            .map(|flow| {
                let socket = transports::connect(&task.cell, address)?;
                transports::set_patience(&socket, patience)?;
                transports::introduce(&socket, task.token, flow)?;
                Ok(Some(socket))
            })
            .collect(),
        (Role::Receiver, _) => {
            let listener = transports::listen(&task.cell, task.port)?;
            protocol::write(
                control,
                &Answer::Listening {
                    address: listener.address(),
                },
            )?;
            let mut sockets: Vec<Option<OwnedFd>> = (0..flows).map(|_| None).collect();
            let mut missing = flows;
            // Strangers may connect to an open port; a bounded number of them is sent away.
            for _ in 0..flows + 1000 {
                if missing == 0 {
                    break;
                }
                let socket = listener.accept(patience)?;
                transports::set_patience(&socket, patience)?;
                if let Ok(Some(flow)) = transports::introduced(&socket, task.token)
                    && let Some(place @ None) = sockets.get_mut(flow as usize)
                {
                    *place = Some(socket);
                    missing -= 1;
                }
            }
            if missing > 0 {
                return Err(io::Error::new(
                    io::ErrorKind::ConnectionRefused,
                    "too many strangers connected",
                ));
            }
            Ok(sockets)
        }
    }
}

struct FlowDone {
    readings: Readings,
    flow: FlowReading,
    total_bytes: u64,
    compared_bytes: u64,
    latency_ns: Option<Histogram<u64>>,
}

fn one_flow(
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
    let kept = socket.as_ref().map(OwnedFd::try_clone).transpose()?;
    let mut engine = (mover.open)(Setup {
        socket,
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
        &window,
        &meter,
        cell,
        mover.release == bytecost_spec::survey::Release::AtCompletion,
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
    let read_size =
        usize::try_from(cell.read_size_bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
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
    Ok(flow_done(&window, &meter, cell, false, compared, None))
}

fn unknown(what: &str, name: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("{what} `{name}` is not known"),
    )
}

fn flow_done<M: Meter>(
    window: &Window<M::Snapshot>,
    meter: &M,
    cell: &Cell,
    completes: bool,
    compared_bytes: u64,
    latency_ns: Option<Histogram<u64>>,
) -> FlowDone {
    let mut readings = meter.difference(&window.from.snapshot, &window.to.snapshot);
    let grown = |of: fn(&Tally) -> u64| of(&window.to.tally) - of(&window.from.tally);
    let (bytes, messages) = (grown(|t| t.bytes), grown(|t| t.messages));
    let mut put = |counter, n| {
        readings.insert(counter, Reading::Measured(n));
    };
    put(Counter::Bytes, bytes);
    put(Counter::Messages, messages);
    put(Counter::Calls, grown(|t| t.calls));
    if completes {
        put(Counter::Completions, grown(|t| t.released));
        put(Counter::CompletionsCopied, grown(|t| t.copied));
        put(Counter::Enobufs, grown(|t| t.enobufs));
    }
    let elapsed_ns = readings
        .get(&Counter::ElapsedNs)
        .and_then(Reading::measured)
        .unwrap_or(0);
    debug_assert!(cell.size_bytes > 0);
    FlowDone {
        readings,
        flow: FlowReading {
            bytes,
            messages,
            elapsed_ns,
        },
        total_bytes: window.total.bytes,
        compared_bytes,
        latency_ns,
    }
}

fn gather(flows: Vec<thread::Result<io::Result<FlowDone>>>) -> io::Result<Done> {
    let mut done = Done::default();
    let mut readings = Vec::with_capacity(flows.len());
    let mut merged: Option<Histogram<u64>> = None;
    for flow in flows {
        let flow = flow.map_err(|_| io::Error::other("a thread panicked"))??;
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
    done.side = SideReadings {
        readings: join(&readings),
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
