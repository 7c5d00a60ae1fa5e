//! This end of the channel to the other host.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use bytecost_host::{Roots, boot_id};
use bytecost_spec::host::Obstacle;
use bytecost_spec::{Host, PeerHost, PeerSide, units};
use bytecost_sys::child_end;
use rustix::process::{Pid, Signal, kill_process_group};

use super::command::{ENDED_WITHIN, PeerError, PeerOptions};
use super::copy::{self, COPIED_WITHIN};
use super::probe::{self, ListeningCandidates, MOST_ADDRESSES, Permitted, TRIED_WITHIN};
use crate::endpoint_process::Endpoint;
use crate::limits;
use crate::peer_channel::{
    FoundPath, FromAgent, IncomingMessages, LinkState, RemoteEndpoint, Reply, ToAgent, Unexpected,
    VERSION, lock, write_out,
};
use crate::program;
use crate::protocol::{ConnectionSetup, Role};
use crate::trial_error::TrialError;

/// The longest time until bytecost answers there.
const JOINED_WITHIN: Duration = Duration::from_secs(10);
/// The longest time for the description of the other host, with its survey.
const DESCRIBED_WITHIN: Duration = Duration::from_secs(180);
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);
/// The time for which a lost link is opened again.
const REOPENED_WITHIN: Duration = Duration::from_secs(10);
/// The time between checks of the stop flag.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// The most bytes that are kept of the command's stderr.
const MOST_SAID_BYTES: u64 = 4096;
/// Statuses of a shell that finds no program, or may not run it.
const NO_PROGRAM: [i32; 2] = [126, 127];
/// The message of another command without the program, as ip-netns(8) with status 1.
const NO_SUCH_FILE: &str = "No such file or directory";
/// The status of a bytecost that does not know a word of its command line.
const NO_SUCH_WORD: i32 = 2;

/// A command that runs, and bytecost at its other end.
#[derive(Debug)]
struct JoinedCommand {
    child: Child,
    state: Arc<LinkState>,
    replies: mpsc::Receiver<FromAgent>,
    /// The first line of its stderr, or an empty one once that has ended.
    stderr_line: mpsc::Receiver<String>,
    /// The longest time until its first message.
    greets_within: Duration,
    /// True if the program is copied there first.
    is_copied: bool,
}

impl JoinedCommand {
    /// Starts it; a copy of the program is written to its stdin before anything else.
    fn start(
        mut command: Command,
        copy: Option<File>,
        name: &str,
    ) -> Result<JoinedCommand, PeerError> {
        let failed = |e: io::Error| PeerError::of_peer(name, e);
        let (pipe, command_name) = (Stdio::piped, command.get_program().to_os_string());
        command.stdin(pipe()).stdout(pipe()).stderr(pipe());
        // So that Ctrl-C at a terminal reaches the coordinator alone.
        let mut child = command.process_group(0).spawn().map_err(|e| {
            let why = format!(
                "`{}` cannot be started: {e}: is it installed?",
                command_name.display()
            );
            PeerError::of_peer(name, why)
        })?;
        let (Some(mut to), Some(from), Some(beside)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(failed(io::ErrorKind::BrokenPipe.into()));
        };
        let (state, messages) = LinkState::new(name);
        state.expect(&[(Reply::Hello, 1)]);
        // As many as were asked for.
        let (replies_to, replies) = mpsc::channel();
        let (note, stderr_line) = mpsc::channel();
        let copied_within = copy.as_ref().map_or(Duration::ZERO, |_| COPIED_WITHIN);
        let joined = JoinedCommand {
            child,
            state: Arc::clone(&state),
            replies,
            stderr_line,
            greets_within: copied_within + JOINED_WITHIN,
            is_copied: copy.is_some(),
        };
        let incoming = IncomingMessages::new(OwnedFd::from(from), joined.greets_within);
        let write_all = move || {
            // If the copy fails, no agent responds, which is reported elsewhere.
            if let Some(mut program) = copy {
                let _ = io::copy(&mut program, &mut to);
            }
            let is_last = |message: &ToAgent| matches!(message, ToAgent::Bye);
            write_out(OwnedFd::from(to), &messages, || ToAgent::Beat, is_last);
        };
        let threads = [
            thread::Builder::new().spawn(write_all),
            thread::Builder::new().spawn(move || read_in(incoming, &state, &replies_to)),
            thread::Builder::new().spawn(move || read_stderr(beside, &note)),
        ];
        for thread in threads {
            thread.map_err(failed)?;
        }
        Ok(joined)
    }

    fn send_hello(&self, own_build: &str) {
        self.state.send(ToAgent::Hello {
            version: VERSION,
            build: own_build.to_owned(),
        });
    }

    /// Exchanges the first messages, whose builds must be the same.
    fn greet(&mut self, own_build: &str, stop: &AtomicBool) -> Result<(), PeerError> {
        // A shell that receives a copy of the program may take bytes behind it for a part of it.
        if !self.is_copied {
            self.send_hello(own_build);
        }
        let hello = self.wait_for(self.greets_within, stop, |message| match message {
            FromAgent::Hello { version, build } => Some((version, build)),
            _ => None,
        });
        let (version, build) = hello.map_err(|e| self.explained(e))?;
        if self.is_copied {
            self.send_hello(own_build);
        }
        if version == VERSION && build == own_build {
            return Ok(());
        }
        let build = units::one_line(&build);
        Err(PeerError {
            wants_program: true,
            ..PeerError::of_peer(
                &self.state.name,
                format!(
                    "bytecost there is another build ({build}) than this one ({own_build}): put the same program there and name it with --peer-program, or use --copy-program"
                ),
            )
        })
    }

    /// The error of the first message with the end of the command, and what it has printed.
    fn explained(&mut self, error: PeerError) -> PeerError {
        if error.is_interruption() {
            return error;
        }
        let status = child_end::wait_for(&mut self.child, ENDED_WITHIN)
            .ok()
            .flatten();
        // The last message of a command that has ended may still be on its way.
        let timeout = status.map_or(Duration::ZERO, |_| ENDED_WITHIN);
        let line = self.stderr_line.recv_timeout(timeout).unwrap_or_default();
        let mut beside = String::new();
        if !line.is_empty() {
            beside += &format!(" ({line})");
        }
        if let Some(printed) = &*lock(&self.state.printed) {
            beside += &format!("; it printed `{printed}`");
        }
        let Some(code) = status.and_then(|status| status.code()) else {
            return PeerError {
                why: error.why + &beside,
                ..error
            };
        };
        let has_no_program =
            !self.is_copied && (NO_PROGRAM.contains(&code) || line.contains(NO_SUCH_FILE));
        let why = match code {
            _ if has_no_program => format!(
                "the program is not there, or cannot be run{beside}: name it with --peer-program, or use --copy-program"
            ),
            NO_SUCH_WORD if line.contains("agent") => "bytecost there is too old to know `agent`: put this version there and name it with --peer-program, or use --copy-program".to_owned(),
            code if self.is_copied => format!(
                "the program cannot be put there: `sh` there ended with status {code}{beside}: is there room in its directory of temporary files, and may programs run from it?"
            ),
            code => format!(
                "the command ended with status {code}{beside}: try it with `true` in place of bytecost"
            ),
        };
        PeerError {
            wants_program: has_no_program || code == NO_SUCH_WORD,
            ..PeerError::of_peer(&self.state.name, why)
        }
    }

    fn wait_for<T>(
        &self,
        timeout: Duration,
        stop: &AtomicBool,
        reply: impl Fn(FromAgent) -> Option<T>,
    ) -> Result<T, PeerError> {
        let name = &self.state.name;
        let until = Instant::now() + timeout;
        loop {
            if stop.load(Ordering::Relaxed) {
                return Err(PeerError::interrupted());
            }
            let left = until.saturating_duration_since(Instant::now());
            let why = match self.replies.recv_timeout(left.min(POLL_INTERVAL)) {
                Ok(FromAgent::Refused(why)) => format!("peer {name}: {why}"),
                Ok(message) => match reply(message) {
                    Some(found) => return Ok(found),
                    None => continue,
                },
                Err(RecvTimeoutError::Timeout) if left.is_zero() => format!(
                    "peer {name}: no response within {}: does the command run bytecost there, and is the network up?",
                    units::duration(timeout)
                ),
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => self.state.why_down().unwrap_or_default(),
            };
            return Err(PeerError::new(why));
        }
    }
}

impl Drop for JoinedCommand {
    fn drop(&mut self) {
        self.state.send_last(ToAgent::Bye);
        let group = Pid::from_child(&self.child);
        for signal in [Signal::TERM, Signal::KILL] {
            if !matches!(child_end::wait_for(&mut self.child, ENDED_WITHIN), Ok(None)) {
                return;
            }
            let _ = kill_process_group(group, signal);
        }
        let _ = child_end::wait_or_kill(&mut self.child, Duration::ZERO);
    }
}

fn read_in(
    mut incoming: IncomingMessages,
    state: &LinkState,
    replies_to: &mpsc::Sender<FromAgent>,
) {
    let mut message = incoming.first();
    let is_first = message.is_err();
    let lost = loop {
        match message {
            Ok(message) => match state.pass(message) {
                Ok(reply) => {
                    let _ = reply.map(|reply| replies_to.send(reply));
                }
                Err(Unexpected) => {
                    let name = &state.name;
                    state.mark_down(format!(
                        "peer {name}: protocol error: the agent sent a message that nobody asked for"
                    ));
                    return;
                }
            },
            Err(e) => break e,
        }
        message = incoming.next();
    };
    let timeout = incoming.timeout;
    if is_first {
        *lock(&state.printed) = incoming.first_line();
    }
    let name = &state.name;
    state.mark_down(match lost.kind() {
        io::ErrorKind::UnexpectedEof => format!("peer {name} is gone: its command has ended"),
        io::ErrorKind::TimedOut => format!(
            "peer {name}: no response within {}: is the network up?",
            units::duration(timeout)
        ),
        io::ErrorKind::InvalidData => {
            let line = incoming.first_line().unwrap_or_else(|| lost.to_string());
            format!(
                "peer {name}: what comes from there is not bytecost's: {line}: does a shell print something there when it starts?"
            )
        }
        _ => format!("peer {name} is lost: {lost}"),
    });
}

fn read_stderr(from: ChildStderr, note: &mpsc::Sender<String>) {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    let _ = (&mut from)
        .take(MOST_SAID_BYTES)
        .read_until(b'\n', &mut line);
    let _ = note.send(units::one_line(String::from_utf8_lossy(&line).trim()));
    let _ = io::copy(&mut from, &mut io::sink());
}

/// The addresses between which data go.
#[derive(Clone, Copy, Debug)]
struct DataPath {
    /// This host's, and the one that the other host sees in its place.
    here: IpAddr,
    here_seen: IpAddr,
    /// The other host's, and the one that this host sees in its place.
    there: IpAddr,
    there_seen: IpAddr,
}

/// The other host, reached.
#[derive(Debug)]
pub struct PeerLink {
    options: PeerOptions,
    host: PeerHost,
    path: DataPath,
    /// The names of the network cards of this host that the path goes by.
    pub(crate) own_card_names: Vec<String>,
    joined: JoinedCommand,
    next: AtomicU64,
}

impl PeerLink {
    /// Starts the command, and describes the other host and finds the path to it.
    pub fn open(options: &PeerOptions, stop: &AtomicBool) -> Result<PeerLink, PeerError> {
        let build = program::own_build().map_err(|e| PeerError::new(e.to_string()))?;
        let joined = join(options, &build, stop)?;
        joined
            .state
            .ask(ToAgent::Describe, &[(Reply::Description, 1)]);
        let (host, survey) =
            *joined.wait_for(DESCRIBED_WITHIN, stop, FromAgent::try_as_description)?;
        let (path, found) = if options.data_from_here {
            path_here(&joined, options, stop)?
        } else {
            path_there(&joined, options, &host, stop)?
        };
        joined
            .state
            .ask(ToAgent::Cards { at: path.there }, &[(Reply::Cards, 1)]);
        let cards = joined.wait_for(ANSWERED_WITHIN, stop, FromAgent::try_as_cards)?;
        let host = PeerHost {
            name: match options.command.host() {
                Some(named) => named.to_owned(),
                None => path.there.to_string(),
            },
            program: options.command.program_name().to_owned(),
            command_digest: options.command.digest(),
            address: path.there.to_string(),
            side: options.side,
            build,
            host,
            survey,
            cards,
            round_trip_us: found.round_trip_us,
            path_mtu: found.path_mtu,
        };
        Ok(PeerLink {
            options: options.clone(),
            host,
            own_card_names: probe::cards(path.here)
                .into_iter()
                .map(|card| card.name)
                .collect(),
            path,
            joined,
            next: AtomicU64::new(0),
        })
    }

    /// The description of the other host, and the path to it.
    pub fn host(&self) -> &PeerHost {
        &self.host
    }

    /// The network cards of this host that the path goes by.
    pub fn own_cards(&self) -> Vec<bytecost_spec::NetworkCard> {
        probe::cards(self.path.here)
    }

    /// The circumstances on the other host, as it has read them, with its name.
    pub(crate) fn circumstances(&self, there: Vec<Obstacle>) -> Vec<Obstacle> {
        let name = &self.host.name;
        let named = there.into_iter().map(|obstacle| Obstacle {
            place: format!("{} on {name}", obstacle.place),
            ..obstacle
        });
        named.collect()
    }

    /// The reason why the link is down; none while it is not.
    pub(crate) fn why_down(&self) -> Option<String> {
        self.joined.state.why_down()
    }

    /// Opens it anew after it was lost: for some time, and to the same host and build alone.
    pub fn reopen(&mut self, stop: &AtomicBool) -> Result<(), PeerError> {
        let until = Instant::now() + REOPENED_WITHIN;
        let link = loop {
            match PeerLink::open(&self.options, stop) {
                Ok(link) => break link,
                Err(e) if e.is_interruption() || Instant::now() >= until => return Err(e),
                Err(_) => thread::sleep(10 * POLL_INTERVAL),
            }
        };
        if link.host.host.identity != self.host.host.identity {
            let name = &self.options.command;
            return Err(PeerError::of_peer(
                &name.to_string(),
                "that is another host now",
            ));
        }
        self.path = link.path;
        self.own_card_names = link.own_card_names;
        self.joined = link.joined;
        Ok(())
    }

    /// Returns true if a side plays on the other host.
    pub(crate) fn plays(&self, role: Role) -> bool {
        let receives = matches!(role, Role::Receiver | Role::Server);
        receives == (self.options.side == PeerSide::Receiver)
    }

    /// The side of a stream that listens.
    pub(crate) fn side_listens(&self) -> Role {
        let is_receiver_there = self.options.side == PeerSide::Receiver;
        if is_receiver_there != self.options.data_from_here {
            Role::Receiver
        } else {
            Role::Sender
        }
    }

    /// The address of a side's host, and the address of the other one as that host sees it.
    fn addresses(&self, role: Role) -> (IpAddr, IpAddr) {
        if self.plays(role) {
            (self.path.there, self.path.here_seen)
        } else {
            (self.path.here, self.path.there_seen)
        }
    }

    pub(crate) fn listens(&self, role: Role, port: Option<u16>) -> ConnectionSetup {
        let (at, from) = self.addresses(role);
        ConnectionSetup::Listen {
            at: Some(at),
            port,
            from: Some(from),
        }
    }

    /// The address at which a side reaches the other one, of whose own address the port alone is used.
    pub(crate) fn reached(&self, role: Role, address: &str) -> Result<String, TrialError> {
        let name = &self.joined.state.name;
        let nowhere = |_| TrialError::failed(format!("on {name}: it listens nowhere"));
        let at: SocketAddr = address.parse().map_err(nowhere)?;
        let (_, to) = self.addresses(role);
        Ok(SocketAddr::new(to, at.port()).to_string())
    }

    /// An endpoint there, for a window of that length, which starts with its first order.
    pub(crate) fn start(&self, role: Role, window: Duration) -> io::Result<Endpoint> {
        let (ours, theirs) = UnixStream::pair()?;
        theirs.set_write_timeout(Some(Duration::from_secs(1)))?;
        let endpoint = RemoteEndpoint {
            id: self.next.fetch_add(1, Ordering::Relaxed),
            window_ns: window.as_nanos() as u64,
            link: Arc::clone(&self.joined.state),
        };
        endpoint.link.begin(endpoint.id, theirs);
        Endpoint::remote(role, endpoint, ours)
    }
}

/// Has bytecost run there: the program that is there, or, where the user wants that, this one.
fn join(
    options: &PeerOptions,
    own_build: &str,
    stop: &AtomicBool,
) -> Result<JoinedCommand, PeerError> {
    let command = &options.command;
    let name = command.to_string();
    let start = |agent: Command, copy: Option<File>| -> Result<JoinedCommand, PeerError> {
        let mut joined = JoinedCommand::start(agent, copy, &name)?;
        joined.greet(own_build, stop)?;
        Ok(joined)
    };
    match start(command.agent(), None) {
        Err(refused) if refused.wants_program && options.copy_program => {
            let failed = |e| PeerError::of_peer(&name, format!("the program cannot be read: {e}"));
            let (agent, program) = copy::agent(command).map_err(failed)?;
            start(agent, Some(program))
        }
        other => other,
    }
}

/// The path of the data where the other host listens.
fn path_there(
    joined: &JoinedCommand,
    options: &PeerOptions,
    host: &Host,
    stop: &AtomicBool,
) -> Result<(DataPath, FoundPath), PeerError> {
    let name = &joined.state.name;
    let at = options.address;
    let replies = [(Reply::Listening, 1), (Reply::Reached, MOST_ADDRESSES)];
    joined.state.ask(ToAgent::Listen { at }, &replies);
    let candidates = joined.wait_for(ANSWERED_WITHIN, stop, FromAgent::try_as_listening)?;
    let permitted = match at {
        Some(at) => Permitted::One(at),
        None if is_this_machine(host) => Permitted::OnThisMachine,
        None => Permitted::Others,
    };
    let Some((index, found)) = probe::reach(&candidates, permitted) else {
        let first = candidates.iter().take(MOST_ADDRESSES);
        let tried: Vec<String> = first.map(|c| c.at.ip().to_string()).collect();
        return Err(PeerError::of_peer(
            name,
            format!(
                "none of its addresses can be reached from here ({}): name one with --address, let it connect to this host with --data-from here, or open its ports in the firewall",
                tried.join(", ")
            ),
        ));
    };
    let here_seen = joined.wait_for(TRIED_WITHIN, stop, |message| match message {
        FromAgent::Reached { candidate, from } if candidate as usize == index => Some(from),
        _ => None,
    })?;
    let path = DataPath {
        here: found.from,
        here_seen,
        there: found.to,
        there_seen: found.to,
    };
    Ok((path, found))
}

fn path_here(
    joined: &JoinedCommand,
    options: &PeerOptions,
    stop: &AtomicBool,
) -> Result<(DataPath, FoundPath), PeerError> {
    let name = &joined.state.name;
    let failed = |e: io::Error| PeerError::of_peer(name, e);
    let addresses = match options.address {
        Some(at) => vec![at],
        None => probe::addresses().map_err(failed)?,
    };
    let open = ListeningCandidates::open(&addresses).map_err(failed)?;
    let candidates = open.candidates.clone();
    let request = ToAgent::Reach { candidates };
    joined.state.ask(request, &[(Reply::Found, 1)]);
    let over = AtomicBool::new(false);
    let (found, checks) = thread::scope(|scope| -> io::Result<_> {
        let listening = limits::start(scope, || {
            let mut checks = Vec::new();
            open.respond(&over, |index, from| checks.push((index, from)));
            checks
        })?;
        let found = joined.wait_for(ANSWERED_WITHIN, stop, FromAgent::try_as_found);
        over.store(true, Ordering::Relaxed);
        Ok((found, listening.join().unwrap_or_default()))
    })
    .map_err(failed)?;
    let found = found?;
    let mut listening = open.candidates.iter();
    let index = listening.position(|candidate| candidate.at.ip() == found.to);
    let from = checks.iter().find(|(at, _)| Some(*at) == index);
    let Some((_, there_seen)) = from else {
        let why = format!("it says that it reached {}, and nobody came", found.to);
        return Err(PeerError::of_peer(name, why));
    };
    let path = DataPath {
        here: found.to,
        here_seen: found.to,
        there: found.from,
        there_seen: *there_seen,
    };
    Ok((path, found))
}

/// Returns true if a host is this machine, as in another network namespace: the boot is the same.
fn is_this_machine(host: &Host) -> bool {
    let own = boot_id(&Roots::real());
    own.is_some() && own == host.identity.boot_id
}
