//! `fork`: a process for each connection, with blocking calls.
//!
//! Servers were written so before there were threads, and still are where clients must be isolated
//! (sshd, PostgreSQL): a child that crashes ends no other connection, and has all limits for
//! itself. It costs a copy of the page tables for each connection, and the parent must wait for
//! its children, or they stay as zombies.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use bytecost_sys::child_end;
use bytecost_sys::children::{self, ChildExits};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::SocketFlags;
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use super::accepted::Accepted;
use super::address_limit::{AddressLimit, AddressSlot};
use super::connection::Connection;
use super::conversation::Worker;
use super::open_connections::{RETRY, serve_to_end};
use super::ticker::Ticker;
use crate::servers::{Limits, ONE_THREAD, Server, ServerFacts, ServerSetup, ServerTally};

pub const SERVER: Server = Server {
    facts: ServerFacts {
        name: "fork",
        summary: "a process for each connection, forked when it comes",
        task_per_connection: true,
        needs_lone_thread: true,
        caution: Some("counters of the server must include its children's, which end before it"),
        ..ONE_THREAD
    },
    serve,
};

struct Parent {
    listener: Option<OwnedFd>,
    stop: OwnedFd,
    child_exits: ChildExits,
    /// Children write their tallies here: a pipe takes so few bytes in one piece, pipe(7).
    reports: OwnedFd,
    report_to: OwnedFd,
    children: BTreeMap<i32, (Pid, AddressSlot)>,
    addresses: AddressLimit,
    limits: Limits,
    tally: ServerTally,
}

fn serve(setup: ServerSetup) -> io::Result<ServerTally> {
    let mut worker = Worker::new(&setup);
    let mut parent = Parent::new(setup)?;
    loop {
        let [stop, dead, connection] = parent.wait()?;
        if dead {
            parent.bury()?;
        }
        if stop {
            return parent.stop();
        }
        while connection && parent.has_room() {
            let Some((socket, slot)) = parent.take() else {
                break;
            };
            if parent.fork(&socket, slot)? {
                parent.be_child(socket, &mut worker);
            }
        }
    }
}

impl Parent {
    fn new(setup: ServerSetup) -> io::Result<Parent> {
        rustix::io::ioctl_fionbio(&setup.listener, true)?;
        let (reports, report_to) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&reports, true)?;
        Ok(Parent {
            addresses: AddressLimit::new(&setup.limits),
            listener: Some(setup.listener),
            stop: setup.stop,
            child_exits: ChildExits::new()?,
            reports,
            report_to,
            children: BTreeMap::new(),
            limits: setup.limits,
            tally: ServerTally::default(),
        })
    }

    fn has_room(&self) -> bool {
        self.children.len() < self.limits.connections
    }

    fn wait(&self) -> io::Result<[bool; 3]> {
        let mut waiting = vec![
            PollFd::new(&self.stop, PollFlags::IN),
            PollFd::new(&self.child_exits, PollFlags::IN),
            PollFd::new(&self.reports, PollFlags::IN),
        ];
        if let Some(listener) = self.listener.as_ref().filter(|_| self.has_room()) {
            waiting.push(PollFd::new(listener, PollFlags::IN));
        }
        retry_on_intr(|| poll(&mut waiting, None))?;
        let is_ready = |at: usize| waiting.get(at).is_some_and(|w| !w.revents().is_empty());
        Ok([is_ready(0), is_ready(1) || is_ready(2), is_ready(3)])
    }

    /// The next connection. Where there is no room for one, its place may come free with any
    /// child, or elsewhere: that is waited for.
    fn take(&mut self) -> Option<(OwnedFd, AddressSlot)> {
        match Accepted::take(self.listener.as_ref()?, SocketFlags::empty()) {
            Accepted::Socket(socket) => {
                let slot = self.addresses.admit(&socket);
                self.tally.crowded += u64::from(slot.is_none());
                Some((socket, slot?))
            }
            Accepted::None | Accepted::Closed => None,
            Accepted::NoRoom => {
                self.put_off();
                None
            }
        }
    }

    fn put_off(&mut self) {
        self.tally.put_off += 1;
        let mut waiting = [
            PollFd::new(&self.stop, PollFlags::IN),
            PollFd::new(&self.child_exits, PollFlags::IN),
        ];
        let moment = Timespec {
            tv_sec: 0,
            tv_nsec: RETRY.subsec_nanos().into(),
        };
        // Whatever woke it is seen again by the next wait.
        let _ = poll(&mut waiting, Some(&moment));
    }

    /// True in the child; the connection is closed where no process is left.
    fn fork(&mut self, socket: &OwnedFd, slot: AddressSlot) -> io::Result<bool> {
        match children::fork_server(socket.as_fd()) {
            Ok(None) => return Ok(true),
            Ok(Some(child)) => {
                self.tally.connections += 1;
                let pid = Pid::from_raw(child as i32);
                (self.children).extend(pid.map(|pid| (child as i32, (pid, slot))));
            }
            Err(e) if e.kind() == io::ErrorKind::Unsupported => return Err(e),
            Err(_) => {
                self.tally.broken += 1;
                self.put_off();
            }
        }
        Ok(false)
    }

    /// It has copies of all that its parent has.
    fn be_child(&mut self, socket: OwnedFd, worker: &mut Worker) -> ! {
        // Whatever happens, the child must not go on as if it were its parent.
        let _exits = children::ExitOnDrop;
        self.children.clear(); // its siblings are not its own to end
        self.listener = None;
        let connection = Connection::new(socket, AddressSlot::default());
        serve_to_end(connection, worker, &self.limits);
        let _ = rustix::io::write(&self.report_to, &worker.tally.to_bytes());
        children::exit(0)
    }

    fn bury(&mut self) -> io::Result<()> {
        self.read_reports();
        self.child_exits.clear();
        loop {
            match waitpid(None, WaitOptions::NOHANG) {
                Ok(Some((child, _))) => {
                    self.children.remove(&child.as_raw_pid());
                }
                Ok(None) | Err(Errno::CHILD) => break,
                Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
        // A child reports before it ends, so nothing of those who are gone is missing now.
        self.read_reports();
        Ok(())
    }

    fn read_reports(&mut self) {
        let mut report = [0; ServerTally::BYTES];
        while rustix::io::read(&self.reports, &mut report) == Ok(report.len()) {
            self.tally.add(ServerTally::from_bytes(report));
        }
    }

    /// Has all children finish, and ends those that have not when the grace is over.
    fn stop(mut self) -> io::Result<ServerTally> {
        self.listener = None;
        self.signal(Signal::TERM);
        let grace = Ticker::new(self.limits.grace)?;
        while !self.children.is_empty() {
            let mut waiting = [
                PollFd::new(&self.child_exits, PollFlags::IN),
                PollFd::new(&self.reports, PollFlags::IN),
                PollFd::new(&grace, PollFlags::IN),
            ];
            retry_on_intr(|| poll(&mut waiting, None))?;
            if grace.ticked() {
                self.signal(Signal::KILL);
            }
            self.bury()?;
        }
        self.read_reports();
        Ok(self.tally)
    }

    fn signal(&self, signal: Signal) {
        for (child, _) in self.children.values() {
            // One that has ended is there until it is waited for, so none is mistaken.
            let _ = kill_process(*child, signal);
        }
    }
}

impl Drop for Parent {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        for (child, _) in self.children.values_mut() {
            let _ = child_end::wait_or_kill(child, Duration::ZERO);
        }
    }
}
