//! The side that serves. The endpoint only watches: its child serves, and reports its usage on a signal.
//! So the process that forks has one thread, and no thread of ours shares a CPU with the others.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use bytecost_engine::Server;
use bytecost_engine::servers::{self, Limits, ServerTally};
use bytecost_meter::{ProcessTreeMeter, early_reading_ns, measured_ns, tree_memory};
use bytecost_spec::{Cell, Connect, Counter, Reading, Readings};
use bytecost_sys::child_end::{self, ChildProcess};
use bytecost_sys::sched::Promptness;
use bytecost_sys::{children, clock, process, tcp, usage};
use rustix::net::sockopt;
use rustix::pipe::PipeFlags;
use rustix::process::Pid;

use super::hold;
use crate::call_refusal;
use crate::descriptors;
use crate::listen_queue::ListenQueue;
use crate::protocol::{
    self, ConnectionSetup, Done, FromEndpoint, Schedule, Task, ToEndpoint, Traffic,
    unexpected_order,
};
use crate::server_setup::{self, ServedService, congestion, max_read_early};
use crate::trial_error::is_lacking;

/// The longest time for the end of the server once it is stopped.
const END: Duration = Duration::from_secs(3);
const BEGUN: u8 = 6;
/// The first byte of a report of failure; the second one is of lack of memory or threads.
const FAILED: u8 = 7;
const LACKING: u8 = 8;
/// The time before the window at which the server's memory is read, in ns.
const MEMORY_NS: u64 = 5_000_000;
/// The part of a window that a reading of all of a server may take, and the lead of a reading of a few.
const READING_SHARE: u64 = 20;
const FEW_NS: u64 = 4_000_000;

struct Child {
    pid: Pid,
    /// The pipe from which its usage comes.
    usage_from: OwnedFd,
    /// Dropping it is the stop signal.
    stop: Option<OwnedFd>,
    /// The pipe from which its tally comes, or the reason why it failed.
    report: OwnedFd,
}

pub(in crate::endpoint) fn run(task: &Task, control: &mut UnixStream) -> io::Result<Done> {
    let cell = &task.cell;
    let server = ServedService::find(cell)?.server;
    descriptors::make_room(server_setup::descriptors(cell))?;
    let (listener, address) = listen(task)?;
    if let Some(name) = congestion(cell) {
        sockopt::set_tcp_congestion(&listener, name)?;
    }
    let tree = task.here.meters.process_tree(cell);
    let mut child = Child::start(task, listener)?;
    let listening = FromEndpoint::Listening {
        address: address.to_string(),
        process: Some(child.number()),
    };
    protocol::write(control, &listening)?;
    let queue = ListenQueue::open();
    protocol::write(control, &FromEndpoint::Ready)?;
    let schedule = queue.scheduled(control)?;
    let mut done = Done::default();
    done.side.readings = child.watch(server, cell, &tree, schedule)?;
    task.here.meters.take_cpu(&mut done.side.readings);
    protocol::write(control, &FromEndpoint::Closed)?;
    protocol::read_order(control, &ToEndpoint::Stop)?;
    done.side.readings.extend(queue.readings());
    let tally = child.end()?;
    done.traffic = Traffic {
        connections: tally.connections,
        requests: tally.requests,
    };
    Ok(done)
}

/// Listens for the load. Beyond loopback a filter passes only the other side's packets, since a service
/// knows no keys.
fn listen(task: &Task) -> io::Result<(OwnedFd, SocketAddr)> {
    let ConnectionSetup::Listen { at, port, from } = &task.connection else {
        return Err(unexpected_order());
    };
    let address = SocketAddr::new(at.unwrap_or(Ipv4Addr::LOCALHOST.into()), port.unwrap_or(0));
    let listening = servers::listen(address, Limits::default().patience)?;
    if !address.ip().is_loopback() {
        tcp::admit_only(&listening.0, from.ok_or_else(unexpected_order)?)?;
    }
    Ok(listening)
}

impl Child {
    fn start(task: &Task, listener: OwnedFd) -> io::Result<Child> {
        let pipe = || rustix::pipe::pipe_with(PipeFlags::CLOEXEC);
        let ((usage_from, usage_to), (stopped, stop)) = (pipe()?, pipe()?);
        let (report, report_to) = pipe()?;
        if let Some(number) = children::fork_child()? {
            let pid = (i32::try_from(number).ok())
                .and_then(Pid::from_raw)
                .ok_or(io::ErrorKind::InvalidData)?;
            drop((usage_to, stopped, report_to));
            let child = Child {
                pid,
                usage_from,
                stop: Some(stop),
                report,
            };
            // Before it has begun, the signal that asks for its usage would end it.
            let mut first = [0];
            return match rustix::io::read(&child.report, &mut first)? {
                1 if first == [BEGUN] => Ok(child),
                _ => Err(child.why(io::Error::other("the server did not begin"))),
            };
        }
        // In any case, the child must not continue as if it were its parent.
        let _exits = children::ExitOnDrop;
        drop((usage_from, stop, report));
        let served = usage::report_on_signal(usage_to).and_then(|()| {
            rustix::io::write(&report_to, &[BEGUN])?;
            serve(task, listener, stopped)
        });
        let (bytes, status) = match served {
            Ok(tally) => (tally.to_bytes().to_vec(), 0),
            Err(e) => {
                let kind = if is_lacking(&e) { LACKING } else { FAILED };
                let reason = call_refusal::in_words(e, task).to_string();
                ([&[kind], reason.as_bytes()].concat(), 1)
            }
        };
        let _ = rustix::io::write(&report_to, &bytes);
        children::exit(status)
    }

    /// Reads its usage at both edges of the window, and its memory before.
    fn watch(
        &self,
        server: &Server,
        cell: &Cell,
        tree: &ProcessTreeMeter,
        schedule: Schedule,
    ) -> io::Result<Readings> {
        // A reading takes CPU time of the machine, that of the end within the window.
        let window_ns = schedule.window_to_ns - schedule.window_from_ns;
        let reading_ns = early_reading_ns(max_read_early(server, cell));
        let reads_early = reading_ns <= window_ns / READING_SHARE;
        let ahead_ns = FEW_NS + if reads_early { reading_ns } else { 0 };
        // As many threads as there are connections may be ready at the edges.
        let _prompt = Promptness::take(true);
        let come_and_go = server.task_per_connection && cell.serving.connect == Connect::New;
        // By then all are accepted; confirmed ones are so already, and many threads want CPUs.
        if come_and_go || !server.task_per_connection {
            let before_ns = ahead_ns + MEMORY_NS;
            clock::sleep_until_ns(schedule.window_from_ns.saturating_sub(before_ns));
        }
        let number = self.number();
        let memory = tree_memory(number);
        let live_children = || children::started_by(Path::new("/"), number);
        let at_first = live_children();
        let read = |at_ns: u64| {
            clock::sleep_until_ns(at_ns.saturating_sub(ahead_ns));
            let children = if come_and_go {
                live_children()
            } else {
                at_first.clone()
            };
            let early = tree.read_early(number, children, if reads_early { at_ns } else { 0 });
            clock::sleep_until_ns(at_ns);
            let read = tree.read_other(early, number, self.usage_from.as_fd());
            let mut pid = self.pid;
            read.map_err(|e| match pid.try_wait() {
                Ok(Some(status)) => self.ended_with(status).err().unwrap_or(e),
                _ => self.why(e),
            })
        };
        let start = read(schedule.window_from_ns)?;
        let end = read(schedule.window_to_ns)?;
        let mut readings = tree.difference(&start, &end, !come_and_go);
        match measured_ns(
            [&start, &end],
            schedule.window_from_ns,
            schedule.window_to_ns,
        ) {
            Ok(ns) => drop(readings.insert(Counter::ElapsedNs, Reading::Measured(ns))),
            Err(why) => (readings.values_mut()).for_each(|r| *r = Reading::absent(why.clone())),
        }
        readings.extend(memory);
        let cpus = match process::affinity_of(Some(self.pid)) {
            Ok(cpus) => Reading::Measured(cpus.len() as u64),
            Err(e) => Reading::absent(format!("sched_getaffinity: {e}")),
        };
        readings.insert(Counter::CpusAllowed, cpus);
        Ok(readings)
    }

    fn why(&self, error: io::Error) -> io::Error {
        let mut message = [0; 1024];
        let _ = rustix::io::ioctl_fionbio(&self.report, true);
        match rustix::io::read(&self.report, &mut message) {
            Ok(0) | Err(_) => error,
            Ok(length) => match &message[..length] {
                [LACKING, reason @ ..] => {
                    io::Error::new(io::ErrorKind::WouldBlock, String::from_utf8_lossy(reason))
                }
                [FAILED, reason @ ..] | reason => io::Error::other(String::from_utf8_lossy(reason)),
            },
        }
    }

    fn end(&mut self) -> io::Result<ServerTally> {
        self.stop = None;
        let end = child_end::wait_or_kill(&mut self.pid, END)?;
        if end.was_killed {
            let why = format!(
                "the server did not stop within {} s and was killed",
                END.as_secs()
            );
            return Err(io::Error::new(io::ErrorKind::TimedOut, why));
        }
        self.ended_with(end.status)?;
        let mut tally = [0; ServerTally::BYTES];
        rustix::io::read(&self.report, &mut tally)?;
        Ok(ServerTally::from_bytes(tally))
    }

    fn ended_with(&self, status: ExitStatus) -> io::Result<()> {
        let how = match (status.code(), status.signal()) {
            (Some(0), _) => return Ok(()),
            (_, Some(signal)) => format!("was ended by signal {signal}"),
            (code, _) => format!("ended with status {}", code.unwrap_or(-1)),
        };
        Err(self.why(io::Error::other(format!("its process {how}"))))
    }

    fn number(&self) -> u32 {
        self.pid.as_raw_pid() as u32
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // A process that was waited for before is not killed.
        let _ = child_end::wait_or_kill(&mut self.pid, Duration::ZERO);
    }
}

/// Serves, held to the side's CPUs.
fn serve(task: &Task, listener: OwnedFd, stop: OwnedFd) -> io::Result<ServerTally> {
    let cell = &task.cell;
    hold(task)?;
    // The thread that accepts only reports usage in the window, unless connections are new: then it must
    // not come before those that serve.
    if ServedService::find(cell)?.server.task_per_connection {
        Promptness::take(cell.serving.connect == Connect::Kept).keep();
    }
    server_setup::serve(cell, listener, stop)
}
