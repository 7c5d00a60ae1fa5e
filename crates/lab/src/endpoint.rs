//! One side of a trial in a process of its own: `bytecost endpoint`, driven over its standard
//! input, which is a socket.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use bytecost_meter::KnownThreads;
use bytecost_sys::process;

use crate::classes;
use crate::flow_setup::mover_of;
use crate::greeters::Greeters;
use crate::groups;
use crate::phase::{Phase, SharedGate};
use crate::program;
use crate::protocol::{self, Done, FromEndpoint, Meets, Role, Task, ToEndpoint, out_of_turn};
use crate::thread_binding::ThreadBinding;
use crate::transports;
use crate::window::may_grow;

mod course;
mod file_side;
mod growth;
mod neighbour;
mod probed;
mod sending;
mod serving;
mod side;
mod turn;
mod wire_side;

use course::follow;
use growth::Growth;
pub(crate) use serving::served::looked_at;
use side::{FlowDone, gather};
use turn::{Signal, Turn};

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

fn one_flow(
    task: &Task,
    socket: Option<OwnedFd>,
    flow: u32,
    turn: Turn<'_>,
) -> io::Result<FlowDone> {
    if task.role == Role::Sender && mover_of(&task.cell)?.route.is_ping() {
        return sending::take_turns(task, flow, turn);
    }
    let hold = ThreadBinding::take(&task.pins, flow, task.cell.mem_node)?;
    // Deadline threads cannot be pinned, so this comes after.
    let hold = hold.with_class(task.cell.class)?;
    let mut done = match task.role {
        Role::Sender => sending::run(task, socket, flow, turn),
        Role::Receiver => side::receive(task, socket, flow, turn),
        Role::Neighbour | Role::Server | Role::Client => {
            Err(io::Error::from(io::ErrorKind::InvalidInput))
        }
    }?;
    done.held = hold.held()?.into_iter().collect();
    Ok(done)
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
