//! The other end of the channel: `bytecost agent`, started from another host by a user's command. It
//! starts the endpoints of one side of each trial and of this host's observer, and carries their orders
//! and answers. It and all its processes end with the channel, or its silence.

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

use bytecost_spec::{Cell, Host, NetworkCard, Survey};
use bytecost_sys::clock;
use rustix::io::Errno;
use rustix::process::{Gid, Resource, Rlimit, Uid, geteuid, setrlimit};

use super::copy::remove_own;
use super::fits::{Addresses, fits};
use super::probe::{self, ListeningCandidates, Permitted};
use crate::deadline::ready;
use crate::endpoint_process::{Endpoint, StandbyEndpoints};
use crate::groups::ControlGroups;
use crate::local_host::LocalHost;
use crate::peer_channel::{
    ClockShift, FromAgent, IncomingMessages, MAX_QUEUED, SILENCE, ToAgent, VERSION, lock, write_out,
};
use crate::program::{self, Program};
use crate::protocol::{
    FromEndpoint, ObservedTrial, ObserverStage, ObserverTask, Role, Schedule, Task, ToEndpoint,
};
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
    let mut agent = Agent {
        program,
        local: LocalHost::new(host.clone(), &survey),
        standby: StandbyEndpoints::default(),
        outgoing,
        playing: BTreeMap::new(),
        expected: None,
        ready: None,
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
    standby: StandbyEndpoints,
    outgoing: mpsc::SyncSender<FromAgent>,
    playing: BTreeMap<u64, StartedEndpoint>,
    /// The trial that the observer prepares for when its side is ready.
    expected: Option<ObservedTrial>,
    /// The answer of a side that is ready, until the observer is.
    ready: Option<ReadySide>,
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

/// An endpoint that was started here.
struct StartedEndpoint {
    end: Endpoint,
    /// The cell of its trial; none of the observer.
    cell: Option<Cell>,
    /// The control groups of a side, which are removed after its process.
    group: Option<ControlGroups>,
    /// True if it has sent its last answer.
    over: bool,
}

/// A side that is ready for the trial of that number.
struct ReadySide {
    id: u64,
    trial: u64,
}

impl Agent {
    fn live(&mut self, mut from: IncomingMessages) -> io::Result<()> {
        loop {
            let playing = self.playing.iter().filter(|(_, started)| !started.over);
            let ids: Vec<u64> = playing.map(|(id, _)| *id).collect();
            let mut polled = vec![from.poll_fd()];
            polled.extend(ids.iter().map(|id| self.playing[id].end.poll_fd()));
            let is_ready = ready(&mut polled, POLL_INTERVAL_NS)?;
            drop(polled);
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

    fn answer(&mut self, id: u64, answer: FromEndpoint) {
        self.send(FromAgent::From {
            id,
            now_ns: clock::monotonic_ns(),
            answer: Box::new(answer),
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
                order,
            } => match self.started(*order, Duration::from_nanos(window_ns)) {
                Ok(started) => drop(self.playing.insert(id, started)),
                Err(e) => self.fail(id, e),
            },
            ToAgent::To { id, now_ns, order } => {
                let shift = ClockShift::received_now(now_ns);
                self.order(id, shift.order(*order));
            }
            ToAgent::End { id } => {
                self.playing.remove(&id);
                self.ready.take_if(|side| side.id == id);
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

    /// Starts an endpoint with its first order, what depends on this host filled in.
    fn started(
        &mut self,
        order: ToEndpoint,
        window: Duration,
    ) -> Result<StartedEndpoint, TrialError> {
        if self.playing.len() >= MOST_ENDS {
            let why = "too many sides play here at one time".to_owned();
            return Err(TrialError::failed(why));
        }
        match order {
            ToEndpoint::Prepare(task) => self.started_side(*task, window),
            ToEndpoint::Observe(_) => self.started_observer(),
            _ => Err(no_order()),
        }
    }

    fn started_side(
        &mut self,
        task: Task,
        window: Duration,
    ) -> Result<StartedEndpoint, TrialError> {
        let addresses = Addresses {
            own: &self.own,
            partners: &lock(&self.partners),
        };
        fits(&task, window, addresses, self.memory_bytes).map_err(TrialError::failed)?;
        let (task, group) = self.local.task(task, window)?;
        let mut end = self.standby.take(&self.program, task.role, None)?;
        let cell = Some(task.cell.clone());
        end.order(&ToEndpoint::Prepare(Box::new(task)))?;
        Ok(StartedEndpoint {
            end,
            cell,
            group,
            over: false,
        })
    }

    fn started_observer(&self) -> Result<StartedEndpoint, TrialError> {
        let mut end = Endpoint::start(&self.program, Role::Observer, None)?;
        let cpus = self.local.host.cpus.iter().map(|c| c.cpu).collect();
        end.order(&ToEndpoint::Observe(ObserverTask { cpus }))?;
        Ok(StartedEndpoint {
            end,
            cell: None,
            group: None,
            over: false,
        })
    }

    /// Has the observer prepare for the trial of a side that is ready, if it is to.
    fn side_ready(&mut self, id: u64) {
        let is_observed = self.observer().is_some();
        let asked = self.expected.take().filter(|_| is_observed);
        let (Some(asked), Some(side)) = (asked, self.playing.get(&id)) else {
            return self.answer(id, FromEndpoint::Ready);
        };
        let trial = ObservedTrial {
            cell: side.cell.clone().unwrap_or_default(),
            processes: Endpoint::processes(slice::from_ref(&side.end)),
            throttling: side.group.as_ref().and_then(ControlGroups::throttling),
            cards: self.cards.iter().map(|card| card.name.clone()).collect(),
            ..asked.elsewhere()
        };
        self.ready = Some(ReadySide {
            id,
            trial: trial.number,
        });
        self.show_observer(&ToEndpoint::Trial(Box::new(trial)));
    }

    /// Passes on that a side is ready, since the observer is too.
    fn observer_ready(&mut self, trial: u64) {
        if let Some(side) = self.ready.take_if(|side| side.trial == trial) {
            self.answer(side.id, FromEndpoint::Ready);
        }
    }

    fn fail(&mut self, id: u64, error: TrialError) {
        self.playing.remove(&id);
        self.answer(id, FromEndpoint::Failed(error.into()));
        // A side whose observer fails waits no longer.
        let is_waiting = |side: &mut ReadySide| self.playing.contains_key(&side.id);
        if let Some(side) = self.ready.take_if(is_waiting) {
            self.answer(side.id, FromEndpoint::Ready);
        }
    }

    fn order(&mut self, id: u64, order: ToEndpoint) {
        let Some(role) = self.playing.get(&id).map(|started| started.end.role()) else {
            // It has failed, which the coordinator knows already.
            return;
        };
        match order {
            ToEndpoint::Trial(asked) if role == Role::Observer => {
                self.expected = Some(*asked);
                return;
            }
            ToEndpoint::Go(schedule) if is_of_window(role, &schedule) => {
                self.show_observer(&order);
            }
            ToEndpoint::Go(_) | ToEndpoint::Open | ToEndpoint::Stop => {}
            _ => return self.fail(id, no_order()),
        }
        if let Some(started) = self.playing.get_mut(&id)
            && let Err(e) = started.end.order(&order)
        {
            self.fail(id, e);
        }
    }

    /// Gives the observer an order that follows from those of its side, or from its answers. The
    /// coordinator's would come a round trip later.
    fn show_observer(&mut self, order: &ToEndpoint) {
        let Some((id, observer)) = self.observer() else {
            return;
        };
        if let Err(e) = observer.order(order) {
            self.fail(id, e);
        }
    }

    fn observer(&mut self) -> Option<(u64, &mut Endpoint)> {
        let mut ends = (self.playing.iter_mut()).map(|(id, started)| (*id, &mut started.end));
        ends.find(|(_, end)| end.role() == Role::Observer)
    }

    fn answered(&mut self, id: u64) {
        let Some(started) = self.playing.get_mut(&id) else {
            return;
        };
        match started.end.answer() {
            Ok(answer) => {
                started.over = matches!(answer, FromEndpoint::Done(_));
                match &answer {
                    FromEndpoint::Ready => return self.side_ready(id),
                    FromEndpoint::Observed {
                        trial,
                        stage: ObserverStage::Ready,
                    } => self.observer_ready(*trial),
                    FromEndpoint::Connected(window_ns) => {
                        self.show_observer(&ToEndpoint::Go(Schedule {
                            begin_ns: window_ns.start,
                            window_from_ns: window_ns.start,
                            window_to_ns: window_ns.end,
                            steady_by_ns: None,
                        }));
                    }
                    FromEndpoint::Closed => self.show_observer(&ToEndpoint::Close),
                    _ => {}
                }
                self.answer(id, answer);
            }
            Err(e) => self.fail(id, e),
        }
    }
}

/// Returns true if a schedule of a side has its window: another one follows where connections may grow, and
/// the clients of a server find theirs themselves.
fn is_of_window(role: Role, schedule: &Schedule) -> bool {
    schedule.steady_by_ns.is_none() && !matches!(role, Role::Client | Role::Observer)
}

fn no_order() -> TrialError {
    TrialError::failed("protocol error: no order for an endpoint of this host")
}
