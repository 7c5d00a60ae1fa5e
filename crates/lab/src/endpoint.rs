//! One side of a trial in a process of its own: `bytecost endpoint`, driven over its standard
//! input, which is a socket.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use bytecost_meter::KnownThreads;
use bytecost_sys::{clock, process};

use crate::classes;
use crate::greeters::Greeters;
use crate::groups;
use crate::passes::Passes;
use crate::phase::{EIGHTHS, Phase, SharedGate};
use crate::program;
use crate::protocol::{self, Done, FromEndpoint, Meets, Role, Schedule, Task, ToEndpoint};
use crate::transports;
use crate::window::may_grow;

mod file_side;
mod growth;
mod neighbour;
mod probed;
mod sending;
mod serving;
mod side;
mod turn;
mod wire_side;

use growth::Growth;
pub(crate) use serving::served::looked_at;
use side::{gather, one_flow};
use turn::{Signal, Turn};

/// How long before its end nobody looks into a window.
const UNDISTURBED_NS: u64 = 300_000_000;

/// The life of an endpoint: prepare, go, tell. It dies with its coordinator, whose process id is
/// `parent`.
///
/// # Errors
/// When the coordinator cannot be told any more.
pub fn run(control: OwnedFd, parent: u32) -> io::Result<()> {
    process::die_with_parent(parent)?;
    let mut control = UnixStream::from(control);
    // Started from a descriptor, it would be known by the descriptor's number.
    let _ = rustix::thread::set_name(c"bytecost");
    let served = match greeted(&mut control).and_then(|()| protocol::read(&mut control)) {
        Ok(ToEndpoint::Prepare(task)) => serve(*task, &mut control),
        Ok(ToEndpoint::Disturb(what)) => neighbour::run(&what, &mut control),
        Ok(_) => Err(out_of_turn()),
        Err(e) => Err(e),
    };
    let answer = match served {
        Ok(done) => FromEndpoint::Done(Box::new(done)),
        Err(e) => FromEndpoint::Failed {
            reason: explain(&e),
        },
    };
    protocol::write(&mut control, &answer)
}

/// Tells what this is, and makes sure that the coordinator is the same.
fn greeted(control: &mut UnixStream) -> io::Result<()> {
    let own = program::own_build()?;
    let hello = FromEndpoint::Hello { build: own.clone() };
    protocol::write(control, &hello)?;
    match protocol::read(control)? {
        ToEndpoint::Hello { build } if build == own => Ok(()),
        ToEndpoint::Hello { build } => Err(io::Error::other(program::another_build(
            "coordinator",
            &build,
            &own,
        ))),
        _ => Err(out_of_turn()),
    }
}

/// An error with what to do about it, where that is known.
pub(crate) fn explain(error: &io::Error) -> String {
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

fn serve(task: Task, control: &mut UnixStream) -> io::Result<Done> {
    match task.role {
        Role::Server => return serving::served::run(&task, control),
        Role::Client => return serving::asking::run(&task, control),
        Role::Receiver if !task.cell.transport.has_receiver() => {
            return wire_side::run(&task, control);
        }
        Role::Sender | Role::Receiver | Role::Neighbour => {}
    }
    groups::enter(&task.doors)?;
    classes::watch(task.cell.class)?;
    let gate = SharedGate::default();
    let known = KnownThreads::new(task.cell.threads as usize + 1);
    known.add();
    thread::scope(|scope| {
        let (sockets, strangers) = connections(&task, control)?;
        let growth = match may_grow(&task.cell) {
            true => Growth::of(task.role, &sockets)?,
            false => None,
        };
        let (tell, told) = mpsc::channel();
        let mut threads = Vec::with_capacity(sockets.len());
        for (flow, socket) in sockets.into_iter().enumerate() {
            let (task, gate, known, tell) = (&task, &gate, &known, tell.clone());
            threads.push(scope.spawn(move || {
                known.add();
                let turn = Turn {
                    gate,
                    tell: &tell,
                    threads: known,
                };
                let done = one_flow(task, socket, flow as u32, turn);
                let _ = tell.send(Signal::Ended);
                done
            }));
        }
        let mut edges_ns = 0;
        let followed = follow(
            control,
            &gate,
            &threads,
            &told,
            &task,
            growth,
            &mut edges_ns,
        );
        gate.set(Phase::Stop);
        threads.iter().for_each(|t| t.thread().unpark());
        let flows: Vec<_> = threads.into_iter().map(|t| t.join()).collect();
        followed?;
        let done = gather(&task, flows, edges_ns)?;
        Ok(Done { strangers, ..done })
    })
}

/// Moves the gate on as the coordinator says. Returns early when a thread ended before its time;
/// why it did is told when it is joined. What watching the window took goes into
/// `edges_ns`.
fn follow<T>(
    control: &mut UnixStream,
    gate: &SharedGate,
    threads: &[thread::ScopedJoinHandle<'_, T>],
    told: &mpsc::Receiver<Signal>,
    task: &Task,
    growth: Option<Growth>,
    edges_ns: &mut u64,
) -> io::Result<()> {
    let some = |count, signal| (0..count).all(|_| told.recv() == Ok(signal));
    let all = |signal| some(threads.len(), signal);
    let go_on = |phase| {
        gate.set(phase);
        threads.iter().for_each(|t| t.thread().unpark());
    };
    if !all(Signal::Ready) {
        return Ok(());
    }
    protocol::write(control, &FromEndpoint::Ready)?;
    let ToEndpoint::Go(schedule) = protocol::read(control)? else {
        return Err(out_of_turn());
    };
    clock::sleep_until_ns(schedule.begin_ns);
    go_on(Phase::Warmup);
    let passes = Passes::of(&task.cell);
    let mut closed = Some(0);
    match (passes, task.role) {
        (None, _) => {
            let Some(schedule) = warmed_up(control, told, schedule, growth)? else {
                return Ok(());
            };
            clock::sleep_until_ns(schedule.window_from_ns);
            let from_ns = clock::thread_cpu_ns();
            closed = window(gate, told, schedule);
            *edges_ns = clock::thread_cpu_ns().saturating_sub(from_ns);
        }
        (Some(_), Role::Sender) => {
            if !all(Signal::Opening) {
                return Ok(());
            }
            protocol::write(control, &FromEndpoint::Opening)?;
            let ToEndpoint::Open = protocol::read(control)? else {
                return Err(out_of_turn());
            };
            let window_ns = schedule.window_to_ns - schedule.window_from_ns;
            let until_ns = clock::monotonic_ns() + window_ns;
            go_on(Phase::Window);
            closed = slept(told, until_ns);
            gate.set(Phase::Cooldown);
        }
        // It goes by what comes.
        (Some(_), _) => {
            if !all(Signal::Opening) {
                return Ok(());
            }
            protocol::write(control, &FromEndpoint::Opening)?;
        }
    }
    match closed {
        Some(early) if some(threads.len() - early, Signal::Closed) => {}
        _ => return Ok(()),
    }
    if task.role == Role::Sender && task.meets == Meets::Nobody && task.cell.class.needs_watchdog()
    {
        // Nobody's window depends on theirs, and all others wait for their CPUs.
        gate.set(Phase::Stop);
    }
    protocol::write(control, &FromEndpoint::Closed)?;
    if task.role == Role::Receiver && passes.is_none() {
        // It ends with its connections.
        return Ok(());
    }
    match protocol::read(control)? {
        ToEndpoint::Stop => Ok(()),
        _ => Err(out_of_turn()),
    }
}

/// The schedule of the window: the one that was given, or where that says so, another one once
/// connections have stopped growing. None where a thread ended before its time.
fn warmed_up(
    control: &mut UnixStream,
    told: &mpsc::Receiver<Signal>,
    schedule: Schedule,
    mut growth: Option<Growth>,
) -> io::Result<Option<Schedule>> {
    let Some(by_ns) = schedule.steady_by_ns else {
        return Ok(Some(schedule));
    };
    // Two slices have no growth in them before it ends, so that it is as long as was asked for.
    let slice_ns = ((schedule.window_from_ns - schedule.begin_ns) / 2).max(1);
    let mut steady = growth.is_none();
    if steady {
        clock::sleep_until_ns(schedule.window_from_ns);
    }
    while let (Some(growth), false) = (&mut growth, steady) {
        steady = growth.has_stopped();
        let now_ns = clock::monotonic_ns();
        if steady || now_ns >= by_ns {
            break;
        }
        clock::sleep_until_ns((now_ns + slice_ns).min(by_ns));
        if told.try_recv().is_ok() {
            return Ok(None);
        }
    }
    drop(growth);
    protocol::write(control, &FromEndpoint::Warm { steady })?;
    match protocol::read(control)? {
        ToEndpoint::Go(schedule) => Ok(Some(schedule)),
        _ => Err(out_of_turn()),
    }
}

/// The window, an eighth after the other where a flow asks for that: how many threads closed
/// theirs meanwhile, or none where one ended before its time.
fn window(gate: &SharedGate, told: &mpsc::Receiver<Signal>, schedule: Schedule) -> Option<usize> {
    let (from_ns, to_ns) = (schedule.window_from_ns, schedule.window_to_ns);
    let eighth_ns = (to_ns - from_ns) / EIGHTHS.len() as u64;
    gate.set_eighth_ns(eighth_ns);
    gate.set(EIGHTHS[0]);
    let mut closed = 0;
    let steps = EIGHTHS.iter().zip(0..).skip(1);
    for (eighth, n) in steps.filter(|_| gate.is_stepped()) {
        closed += slept(told, from_ns + n * eighth_ns)?;
        gate.set(*eighth);
    }
    closed += slept(told, to_ns)?;
    gate.set(Phase::Cooldown);
    Some(closed)
}

/// Sleeps until then: how many threads closed their windows meanwhile, or none where one ended
/// before its time. A short sleep is not interrupted, since that would disturb the window.
fn slept(told: &mpsc::Receiver<Signal>, until_ns: u64) -> Option<usize> {
    let mut closed = 0;
    loop {
        let left_ns = until_ns.saturating_sub(clock::monotonic_ns());
        if left_ns <= UNDISTURBED_NS {
            clock::sleep_until_ns(until_ns);
            return Some(closed);
        }
        match told.recv_timeout(Duration::from_nanos(left_ns - UNDISTURBED_NS)) {
            Ok(Signal::Closed) => closed += 1,
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Ok(_) | Err(mpsc::RecvTimeoutError::Disconnected) => return None,
        }
    }
}

fn out_of_turn() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "protocol error: unexpected message from the coordinator",
    )
}

/// One connection for each flow, in their order, nothing for a mover without a peer; and how many
/// others were turned away.
fn connections(task: &Task, control: &mut UnixStream) -> io::Result<(Vec<Option<OwnedFd>>, u64)> {
    let flows = task.cell.threads as usize;
    let patience = Duration::from_millis(task.patience_ms);
    let mut sockets: Vec<Option<OwnedFd>> = (0..flows).map(|_| None).collect();
    if task.meets != Meets::Nobody && task.keys.len() != flows {
        return Err(out_of_turn());
    }
    match &task.meets {
        Meets::Nobody => Ok((sockets, 0)),
        Meets::Connects { to } => {
            for (place, key) in sockets.iter_mut().zip(&task.keys) {
                let socket = transports::connect(&task.cell, to)?;
                transports::set_patience(&socket, patience)?;
                key.say(&socket)?;
                *place = Some(socket);
            }
            Ok((sockets, 0))
        }
        Meets::Listens { at, port, .. } => {
            let listener = match at {
                Some(at) => transports::listen_for_peer(&task.cell, *at, *port)?,
                None => transports::listen(&task.cell, *port)?,
            };
            let listening = FromEndpoint::Listening {
                address: listener.address(),
                process: None,
            };
            protocol::write(control, &listening)?;
            let listeners = [listener];
            let mut greeters = Greeters::new(&task.keys);
            for _ in 0..flows {
                let (flow, socket) = greeters.next(&listeners, patience)?;
                transports::set_patience(&socket, patience)?;
                sockets[flow] = Some(socket);
            }
            Ok((sockets, greeters.strangers()))
        }
    }
}
