//! The other end of the channel: `bytecost agent`, started from another host by a user's command.
//! It plays one side of each trial. It and all its processes end with the channel, or its silence.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::slice;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use bytecost_spec::{Host, NetworkCard, Survey};
use bytecost_sys::clock;
use rustix::io::Errno;
use rustix::process::{Gid, Resource, Rlimit, Uid, geteuid, setrlimit};

use super::copy::remove_own;
use super::fits::{Addresses, fits};
use super::probe::{self, ListeningCandidates, Permitted};
use crate::deadline::ready;
use crate::endpoint_process::{Endpoint, StandbyEndpoints};
use crate::host_window::HostWindow;
use crate::instruments::Instruments;
use crate::local_host::LocalHost;
use crate::networks::PacketTaps;
use crate::obstacles;
use crate::passes::Passes;
use crate::peer_channel::{
    ClockShift, FromAgent, IncomingMessages, MAX_QUEUED, SILENCE, ToAgent, VERSION, lock, write_out,
};
use crate::program::{self, Program};
use crate::protocol::{FromEndpoint, HostReadings, Role, Schedule, Task, ToEndpoint};
use crate::trial_error::TrialError;

/// The time between checks if the channel is silent, in ns.
const POLL_INTERVAL_NS: u64 = 500_000_000;
/// The number of the user and the group `nobody`.
const NOBODY: u32 = 65534;
/// The most endpoints that play at one time.
const MOST_ENDS: usize = 4;

/// Plays sides of trials for a coordinator on another host, over `from` and `to`, its stdin and stdout,
/// until the channel ends; `machine` describes this host. Refuses a coordinator of another build.
pub fn run(from: OwnedFd, to: OwnedFd, machine: &dyn Fn() -> (Host, Survey)) -> io::Result<()> {
    // The program is held from the start, so that a copy can be taken away.
    let program = Program::own()?;
    let build = program::own_build()?;
    remove_own();
    let (outgoing, messages) = mpsc::sync_channel(MAX_QUEUED);
    thread::Builder::new()
        .spawn(move || write_out(to, &messages, || FromAgent::Beat, |_| false))?;
    let _ = outgoing.send(FromAgent::Hello {
        version: VERSION,
        build: build.clone(),
    });
    let mut from = IncomingMessages::new(from, SILENCE);
    match next_message(&mut from)? {
        Some(ToAgent::Hello {
            version,
            build: other,
        }) if version == VERSION && other == build => {}
        // An agent of another build has said so, and leaves.
        _ => return Ok(()),
    }
    let (host, survey) = machine();
    let mut instruments = Instruments::default();
    instruments.read_frequency(&host);
    let mut agent = Agent {
        program,
        local: LocalHost::new(host.clone(), &survey),
        instruments,
        standby: StandbyEndpoints::default(),
        outgoing,
        playing: BTreeMap::new(),
        cards: Vec::new(),
        is_path_known: Arc::default(),
        partners: Arc::default(),
        is_unread: false,
        own: probe::addresses().unwrap_or_default(),
        memory_bytes: host.memory_bytes,
        description: Some(Box::new((host, survey))),
    };
    agent.live(from)
}

/// Restarts root's program without rights: as `caller`, who is not root, else as nobody. Returns for
/// other users, and where the user cannot be changed, as in a container without other users. An error
/// where that user cannot run the program.
pub fn give_up_root(caller: Option<(Uid, Gid)>) -> io::Result<()> {
    if !geteuid().is_root() {
        return Ok(());
    }
    let program = Program::own()?.for_all()?;
    remove_own();
    // Root's memory may be locked without a bound, which trials need.
    let unbound = Rlimit {
        current: None,
        maximum: None,
    };
    let _ = setrlimit(Resource::Memlock, unbound);
    let plain = caller
        .map(|(user, group)| (user.as_raw(), group.as_raw()))
        .filter(|(user, group)| *user > 0 && *group > 0);
    let (user, group) = plain.unwrap_or((NOBODY, NOBODY));
    let mut command = program.command();
    command.args(std::env::args_os().skip(1));
    // Supplementary groups are dropped too.
    let failed = command.uid(user).gid(group).exec();
    if let Some(Errno::PERM | Errno::INVAL) = Errno::from_io_error(&failed)
        && geteuid().is_root()
    {
        return Ok(());
    }
    let why = format!(
        "{} as user {user}: {failed}: have the peer's command name another user than root",
        program.path().display()
    );
    Err(io::Error::new(failed.kind(), why))
}

/// The coordinator's next message; none where it is gone or silent.
fn next_message(from: &mut IncomingMessages) -> io::Result<Option<ToAgent>> {
    match from.next() {
        Ok(message) => Ok(Some(message)),
        Err(e) => match e.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::TimedOut => Ok(None),
            _ => Err(e),
        },
    }
}

/// The endpoints that play here, the means of starting them, and the channel to their coordinator.
struct Agent {
    program: Program,
    local: LocalHost,
    instruments: Instruments,
    standby: StandbyEndpoints,
    outgoing: mpsc::SyncSender<FromAgent>,
    playing: BTreeMap<u64, PlayedSide>,
    /// The cards that the path goes by.
    cards: Vec<NetworkCard>,
    /// Set when connectivity checks need no response any more.
    is_path_known: Arc<AtomicBool>,
    /// The addresses of the coordinator's host that a check has found: endpoints connect there alone.
    partners: Arc<Mutex<Vec<IpAddr>>>,
    /// True if messages were lost, since the coordinator reads none.
    is_unread: bool,
    own: Vec<IpAddr>,
    memory_bytes: u64,
    /// The description of this host, until it is sent.
    description: Option<Box<(Host, Survey)>>,
}

/// An endpoint of a trial, with the readings of this machine around its window.
struct PlayedSide {
    end: Endpoint,
    window: HostWindow,
    taps: PacketTaps,
    /// True if its window is a number of passes.
    has_passes: bool,
    /// True if it has sent its last answer.
    over: bool,
}

impl PlayedSide {
    fn prepare(&mut self, instruments: &mut Instruments) {
        let processes = Endpoint::processes(slice::from_ref(&self.end));
        self.window.prepare(instruments, &processes);
    }

    /// Sets the window of a schedule, unless another one is to follow, or passes or the clients of a
    /// server set it.
    fn go(&mut self, instruments: &mut Instruments, schedule: &Schedule) {
        let is_by_clock = schedule.steady_by_ns.is_none() && !self.has_passes;
        if is_by_clock && self.end.role() != Role::Client {
            self.prepare(instruments);
            (self.window).schedule(schedule.window_from_ns..schedule.window_to_ns);
        }
    }
}

impl Agent {
    fn live(&mut self, mut from: IncomingMessages) -> io::Result<()> {
        loop {
            let playing = self.playing.iter().filter(|(_, side)| !side.over);
            let ids: Vec<u64> = playing.map(|(id, _)| *id).collect();
            let mut polled = vec![from.poll_fd()];
            polled.extend(ids.iter().map(|id| self.playing[id].end.poll_fd()));
            let now_ns = clock::monotonic_ns();
            let edges = self.playing.values();
            let edge_ns = edges.filter_map(|side| side.window.next_edge_ns()).min();
            let wait_ns = edge_ns.map_or(POLL_INTERVAL_NS, |at| {
                at.saturating_sub(now_ns).min(POLL_INTERVAL_NS)
            });
            let is_ready = ready(&mut polled, wait_ns)?;
            drop(polled);
            self.pass_edges();
            // An answer follows from messages that were sent before it.
            while ready(&mut [from.poll_fd()], 0)?[0] {
                if !next_message(&mut from)?.is_some_and(|message| self.on_message(message)) {
                    return Ok(());
                }
            }
            for (id, _) in ids.iter().zip(&is_ready[1..]).filter(|(_, ready)| **ready) {
                self.answered(*id);
            }
            if from.is_silent() || self.is_unread {
                return Ok(());
            }
        }
    }

    fn send(&mut self, message: FromAgent) {
        self.is_unread |= self.outgoing.try_send(message).is_err();
    }

    fn answer(&mut self, id: u64, answer: FromEndpoint, host: HostReadings) {
        self.send(FromAgent::From {
            id,
            now_ns: clock::monotonic_ns(),
            answer: Box::new(answer),
            host,
        });
    }

    /// Handles a message. Returns false at the last one.
    fn on_message(&mut self, message: ToAgent) -> bool {
        match message {
            ToAgent::Hello { .. } | ToAgent::Beat => {}
            ToAgent::Describe => {
                if let Some(description) = self.description.take() {
                    self.send(FromAgent::Description(description));
                }
            }
            ToAgent::Listen { at } => {
                if let Err(e) = self.listen(at) {
                    self.send(FromAgent::Refused(e.to_string()));
                }
            }
            ToAgent::Reach { candidates } => {
                let (outgoing, partners) = (self.outgoing.clone(), Arc::clone(&self.partners));
                let reach = move || {
                    // The coordinator's machine may be this one.
                    outgoing.send(match probe::reach(&candidates, Permitted::OnThisMachine) {
                        Some((_, path)) => {
                            lock(&partners).push(path.to);
                            FromAgent::Found(path)
                        }
                        None => FromAgent::Refused("none of the addresses of the host that runs the study can be reached from there: name one with --address".to_owned()),
                    })
                };
                let _ = thread::Builder::new().spawn(reach);
            }
            ToAgent::Cards { at } => {
                self.is_path_known.store(true, Ordering::Relaxed);
                self.cards = probe::cards(at);
                self.send(FromAgent::Cards(self.cards.clone()));
            }
            ToAgent::Start {
                id,
                window_ns,
                task,
            } => match self.started(*task, Duration::from_nanos(window_ns)) {
                Ok(side) => drop(self.playing.insert(id, side)),
                Err(e) => self.fail(id, e),
            },
            ToAgent::To { id, now_ns, order } => {
                let shift = ClockShift::received_now(now_ns);
                self.order(id, &shift.order(*order));
            }
            ToAgent::Opens { id } => {
                if let Some(side) = self.playing.get_mut(&id) {
                    side.prepare(&mut self.instruments);
                    side.window.open(&mut self.instruments);
                }
            }
            ToAgent::End { id } => {
                self.playing.remove(&id);
                // That of the next trial, while no window is open.
                self.standby.wanted = 1;
                self.standby.start(&self.program);
            }
            ToAgent::Bye => return false,
        }
        true
    }

    fn listen(&mut self, at: Option<IpAddr>) -> io::Result<()> {
        let addresses = at.map_or_else(|| self.own.clone(), |at| vec![at]);
        let open = ListeningCandidates::open(&addresses)?;
        if open.candidates.is_empty() {
            let why =
                "there is no address there to listen at: name one of that host's with --address";
            return Err(io::Error::new(io::ErrorKind::AddrNotAvailable, why));
        }
        self.send(FromAgent::Listening(open.candidates.clone()));
        let (outgoing, over) = (self.outgoing.clone(), Arc::clone(&self.is_path_known));
        let partners = Arc::clone(&self.partners);
        thread::Builder::new().spawn(move || {
            open.respond(&over, |index, from| {
                lock(&partners).push(from);
                let candidate = index as u32;
                let _ = outgoing.send(FromAgent::Reached { candidate, from });
            });
        })?;
        Ok(())
    }

    /// Has an endpoint get ready, what depends on this host filled in.
    fn started(&mut self, task: Task, window: Duration) -> Result<PlayedSide, TrialError> {
        if self.playing.len() >= MOST_ENDS {
            let why = "too many sides play here at one time".to_owned();
            return Err(TrialError::failed(why));
        }
        let addresses = Addresses {
            own: &self.own,
            partners: &lock(&self.partners),
        };
        fits(&task, window, addresses, self.memory_bytes).map_err(TrialError::failed)?;
        let (task, group) = self.local.task(task, window)?;
        let end = self.standby.take(&self.program, task.role, None)?;
        let mut side = PlayedSide {
            taps: PacketTaps::open(&task.cell, &Endpoint::processes(slice::from_ref(&end))),
            end,
            has_passes: Passes::new(&task.cell).is_some(),
            window: HostWindow::new(&task.cell, group),
            over: false,
        };
        side.end.order(&ToEndpoint::Prepare(Box::new(task)))?;
        Ok(side)
    }

    fn fail(&mut self, id: u64, error: TrialError) {
        self.playing.remove(&id);
        let reason = FromEndpoint::Failed(error.into());
        self.answer(id, reason, HostReadings::default());
    }

    fn order(&mut self, id: u64, order: &ToEndpoint) {
        let Some(side) = self.playing.get_mut(&id) else {
            // It has failed, which the coordinator knows already.
            return;
        };
        let given = match order {
            ToEndpoint::Prepare(_) | ToEndpoint::Background(_) => Err(TrialError::failed(
                "protocol error: no order for a side of a trial",
            )),
            ToEndpoint::Go(_) | ToEndpoint::Open | ToEndpoint::Stop => {
                if let ToEndpoint::Go(schedule) = order {
                    side.go(&mut self.instruments, schedule);
                }
                side.end.order(order)
            }
        };
        if let Err(e) = given {
            self.fail(id, e);
        }
    }

    fn answered(&mut self, id: u64) {
        let Some(side) = self.playing.get_mut(&id) else {
            return;
        };
        match side.end.answer() {
            Ok(answer) => {
                let mut host = HostReadings::default();
                match &answer {
                    FromEndpoint::Connected(window_ns) => {
                        side.prepare(&mut self.instruments);
                        side.window.schedule(window_ns.clone());
                    }
                    FromEndpoint::Closed if side.has_passes => {
                        side.window.pass_edge(&mut self.instruments);
                    }
                    FromEndpoint::Done(_) => {
                        side.over = true;
                        host.machine = side.window.machine_readings(&mut self.instruments);
                        host.machine.extend(side.window.network_readings());
                        host.machine.extend(self.instruments.quotas.since_last());
                        host.packet_sockets = side.taps.all();
                        let cards = self.cards.iter();
                        host.obstacles = cards.flat_map(|c| obstacles::of_card(&c.name)).collect();
                    }
                    _ => {}
                }
                self.answer(id, answer, host);
            }
            Err(e) => self.fail(id, e),
        }
    }

    fn pass_edges(&mut self) {
        let now_ns = clock::monotonic_ns();
        for side in self.playing.values_mut() {
            while (side.window.next_edge_ns()).is_some_and(|at_ns| at_ns <= now_ns) {
                side.window.pass_edge(&mut self.instruments);
            }
        }
    }
}
