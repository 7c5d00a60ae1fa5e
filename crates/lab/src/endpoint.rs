//! `bytecost endpoint`: a process that plays one side of a trial. Its stdin is a socket, over which the
//! coordinator sends orders and receives answers.

use std::borrow::Cow;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use bytecost_host::Roots;
use bytecost_meter::KnownThreads;
use bytecost_sys::process;
use rustix::io::Errno;

use crate::call_refusal;
use crate::classes;
use crate::flow_acceptor::FlowAcceptor;
use crate::flow_setup::mover_of;
use crate::groups;
use crate::limits;
use crate::phase::{Phase, SharedGate};
use crate::protocol::{
    self, ConnectionSetup, Done, FromEndpoint, Role, Task, ToEndpoint, unexpected_order,
};
use crate::socket::Socket;
use crate::thread_binding::ThreadBinding;
use crate::transports;
use crate::trial_error::TrialFailure;
use crate::warmup::may_grow;

mod background;
mod file_side;
mod gate_control;
mod growth;
mod observing;
mod probed;
mod sending;
mod serving;
mod side;
mod wire_side;

use gate_control::{FlowHandle, GateControl, Signal};
use growth::Growth;
use side::{FlowDone, gather};

/// Plays one side of a trial by the coordinator's orders, and sends the result. Ends with its parent, the
/// coordinator.
pub fn run(control: OwnedFd, parent: u32) -> io::Result<()> {
    process::die_with_parent(parent)?;
    let mut control = UnixStream::from(control);
    // The name of a process that was executed from a descriptor (fexecve(3)) is the descriptor's number.
    let _ = rustix::thread::set_name(c"bytecost");
    loop {
        let order = protocol::read(&mut control);
        let stays = matches!(&order, Ok(ToEndpoint::Prepare(task)) if task.here.stays);
        let outcome = order.and_then(|order| match order {
            ToEndpoint::Prepare(task) => {
                carry_out(&task, &mut control).map_err(|e| call_refusal::in_words(e, &task))
            }
            ToEndpoint::Background(task) => background::run(&task, &mut control),
            ToEndpoint::Observe(task) => observing::run(&task, parent, &mut control),
            _ => Err(unexpected_order()),
        });
        let is_over = outcome.is_err() || !stays;
        let answer = match outcome {
            Ok(done) => FromEndpoint::Done(Box::new(done)),
            Err(error) => FromEndpoint::Failed(TrialFailure::from_error(&error, explain(&error))),
        };
        protocol::write(&mut control, &answer)?;
        if is_over {
            return Ok(());
        }
    }
}

/// The text of an error, with its remedy or its cause where that is known.
pub(crate) fn explain(error: &io::Error) -> String {
    match Errno::from_io_error(error) {
        Some(Errno::MFILE) => format!("{error}: raise the limit of open files (`ulimit -n`)"),
        Some(Errno::NOMEM) => format!(
            "{error}: {}",
            bytecost_host::limits::memory_refusal(&Roots::real())
        ),
        Some(Errno::PIPE) => format!("{error}: the other side is gone"),
        _ => error.to_string(),
    }
}

/// Carries out the task of a side, with a thread for each flow; returns the side's result.
fn carry_out(task: &Task, control: &mut UnixStream) -> io::Result<Done> {
    match task.role {
        Role::Server => return serving::served::run(task, control),
        Role::Client => return serving::ask(task, control),
        Role::Receiver if !task.cell.transport.has_receiver() => {
            return wire_side::run(task, control);
        }
        Role::Background | Role::Observer => return Err(unexpected_order()),
        Role::Sender | Role::Receiver => {}
    }
    groups::enter(&task.here.cgroup_procs, 0)?;
    classes::become_watchdog(task.cell.class)?;
    let gate = SharedGate::default();
    let known = KnownThreads::new(task.cell.threads as usize + 1);
    known.add();
    thread::scope(|scope| {
        let (sockets, strangers) = connections(task, control)?;
        let grows = may_grow(&task.cell);
        let growth = grows
            .then(|| Growth::open(task.role, &sockets))
            .transpose()?;
        let (signals, received) = mpsc::channel();
        let mut threads = Vec::with_capacity(sockets.len());
        for (flow, socket) in (0..).zip(sockets) {
            let (gate, known, signals) = (&gate, &known, signals.clone());
            let started = limits::start(scope, move || {
                known.add();
                let handle = FlowHandle {
                    task,
                    flow,
                    gate,
                    signals: &signals,
                    threads: known,
                };
                let done = one_flow(handle, socket);
                let _ = signals.send(Signal::Ended);
                done
            });
            match started {
                Ok(thread) => threads.push(thread),
                Err(e) => {
                    gate.set(Phase::Stop);
                    threads.iter().for_each(|t| t.thread().unpark());
                    return Err(e);
                }
            }
        }
        let phases = GateControl {
            task,
            control,
            gate: &gate,
            signals: received,
            growth: growth.flatten(),
        };
        let trial = phases.run(threads)?;
        let mut done = gather(task, trial.flows, trial.edges_ns)?;
        done.side.readings.extend(trial.huge_memory);
        Ok(Done { strangers, ..done })
    })
}

/// Runs one flow on the calling thread, with the CPU pins and scheduler class of the task.
fn one_flow(handle: FlowHandle<'_>, socket: Option<OwnedFd>) -> io::Result<FlowDone> {
    let task = handle.task;
    if task.role == Role::Sender && mover_of(&task.cell)?.route.is_ping() {
        return sending::ping_pong(handle);
    }
    // A SCHED_DEADLINE thread cannot be pinned, so the scheduler class is set after the pins.
    let hold = ThreadBinding::bind(&task.here.pins, handle.flow, task.cell.mem_node)?
        .with_class(task.cell.class)?;
    let mut done = match task.role {
        Role::Sender => sending::run(handle, socket)?,
        _ => side::receive(handle, socket)?,
    };
    done.held = hold.held()?.into_iter().collect();
    Ok(done)
}

/// The socket of each flow, in the order of flows (none where the cell has no peer), and the number of
/// strangers: connections without a flow's key, which were closed.
fn connections(task: &Task, control: &mut UnixStream) -> io::Result<(Vec<Option<OwnedFd>>, u64)> {
    let timeout = Duration::from_millis(task.timeout_ms);
    let mut sockets: Vec<Option<OwnedFd>> = task.keys.iter().map(|_| None).collect();
    if sockets.len() != task.cell.threads as usize {
        return Err(unexpected_order());
    }
    let cell = match task.role {
        Role::Receiver => transports::of_receiver(&task.cell),
        _ => Cow::Borrowed(&task.cell),
    };
    match &task.connection {
        ConnectionSetup::None => Ok((sockets, 0)),
        ConnectionSetup::Connect(to) => {
            for (slot, key) in sockets.iter_mut().zip(&task.keys) {
                let socket = transports::connect(&cell, to, timeout)?;
                key.send(&mut Socket(&socket))?;
                *slot = Some(socket);
            }
            Ok((sockets, 0))
        }
        ConnectionSetup::Listen { at, port, .. } => {
            let listener = match at {
                Some(at) => transports::listen_for_peer(&cell, *at, *port)?,
                None => transports::listen(&cell, *port)?,
            };
            let listening = FromEndpoint::Listening {
                address: listener.address(),
                process: None,
            };
            protocol::write(control, &listening)?;
            let listeners = [listener];
            let mut acceptor = FlowAcceptor::new(&task.keys);
            for _ in &task.keys {
                let (flow, socket) = acceptor.next(&listeners, timeout)?;
                transports::set_timeout(&socket, timeout)?;
                sockets[flow] = Some(socket);
            }
            Ok((sockets, acceptor.strangers()))
        }
    }
}
