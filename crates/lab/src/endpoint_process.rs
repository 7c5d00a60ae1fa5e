//! The endpoints of a trial, as the coordinator sees them: started, ordered, awaited and ended.

use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytecost_engine::java::PASSED_ON;
use bytecost_sys::child_end::{self, GRACE};
use bytecost_sys::network::Network;
use bytecost_sys::{clock, proc_view};
use rustix::event::{PollFd, PollFlags};

use crate::coordinator_stop;
use crate::deadline::{DeadlineReader, after, poll, ready};
use crate::limits;
use crate::peer_channel::RemoteEndpoint;
use crate::program::Program;
use crate::protocol::{self, FromEndpoint, Role, ToEndpoint};
use crate::trial_error::{TrialError, TrialFailure};
use crate::trial_processes::{SideProcess, TrialProcesses};

/// The longest time of a call without progress.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);
/// The time between the coordinator's checks of its stop flag, in ns.
const POLL_INTERVAL_NS: u64 = 50_000_000;
/// The silence of all sides after which the coordinator checks if one of them is stopped, in ns.
const SILENCE_NS: u64 = 3_000_000_000;
/// The time for the other side's last messages when one has failed, in ns.
const LAST_MESSAGES_NS: u64 = 1_000_000_000;
/// The time for the end of a process that has closed its socket, whose status says more.
const ENDING: Duration = Duration::from_millis(200);
/// The longest time of a side for anything outside of its schedule, in ns.
pub(crate) const GRACE_NS: u64 = 10_000_000_000;

enum EndpointProcess {
    Here(Child),
    There(RemoteEndpoint),
}

/// One side's process. Dropping it ends the process, and waits for that with a bound.
pub(crate) struct Endpoint {
    role: Role,
    process: EndpointProcess,
    control: UnixStream,
    /// The descriptor of the network that it is in; none for that of this process.
    network: Option<RawFd>,
    over: bool,
    /// True if its last answer was that it has failed, or none.
    failed: bool,
    /// The order that it waits for and does nothing before; none that is known at other times.
    awaited: Option<AwaitedOrder>,
}

/// An order that a side waits for after a message of its own.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AwaitedOrder {
    /// Its schedule: it can neither fail nor send anything before.
    Schedule,
    /// To stop, once it has closed its window: it reports a failure only then.
    Stop,
}

impl Endpoint {
    /// Starts it, in a network of its own where there is one.
    pub(crate) fn start(
        program: &Program,
        role: Role,
        network: Option<&Network>,
    ) -> io::Result<Endpoint> {
        let (ours, theirs) = UnixStream::pair()?;
        let mut command = program.command();
        if let Some(network) = network {
            network.start_in(&mut command)?;
        }
        let variables = PASSED_ON
            .iter()
            .filter_map(|name| Some((name, std::env::var_os(name)?)));
        let child = command
            .arg("endpoint")
            .arg(std::process::id().to_string())
            // An observer is not of one trial, which its name in lists of processes shows.
            .args((role == Role::Observer).then(|| role.name()))
            .env_clear()
            .envs(variables)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            // So that Ctrl-C at a terminal reaches the coordinator alone, which ends the trial.
            .process_group(0)
            .spawn()
            .map_err(limits::named)
            .map_err(|e| {
                let (name, path) = (role.name(), program.path().display());
                let why = format!("the {name} cannot be started from {path}: {e}");
                io::Error::new(e.kind(), why)
            })?;
        let mut endpoint = Endpoint::new(role, EndpointProcess::Here(child), ours)?;
        endpoint.network = network.map(descriptor);
        Ok(endpoint)
    }

    /// An endpoint on the other host, whose answers come by this socket.
    pub(crate) fn remote(
        role: Role,
        endpoint: RemoteEndpoint,
        answers: UnixStream,
    ) -> io::Result<Endpoint> {
        Endpoint::new(role, EndpointProcess::There(endpoint), answers)
    }

    fn new(role: Role, process: EndpointProcess, control: UnixStream) -> io::Result<Endpoint> {
        control.set_write_timeout(Some(TIMEOUT))?;
        Ok(Endpoint {
            role,
            process,
            control,
            network: None,
            over: false,
            failed: false,
            awaited: None,
        })
    }

    /// Returns true if it can get another order.
    pub(crate) fn is_alive(&mut self) -> bool {
        match &mut self.process {
            _ if self.failed => false,
            EndpointProcess::Here(child) => matches!(child.try_wait(), Ok(None)),
            EndpointProcess::There(endpoint) => endpoint.is_connected(),
        }
    }

    /// Gives it no more orders, as it does not answer.
    pub(crate) fn give_up(&mut self) {
        self.failed = true;
    }

    /// Checks that its process has not ended; an error says how it did.
    pub(crate) fn check_alive(&mut self) -> Result<(), TrialError> {
        if self.is_alive() {
            Ok(())
        } else {
            Err(self.end_error())
        }
    }

    pub(crate) fn role(&self) -> Role {
        self.role
    }

    /// Returns true once it has sent its result.
    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    /// The processes of those that play on this host, in their order.
    pub(crate) fn processes(endpoints: &[Endpoint]) -> TrialProcesses {
        let process = |endpoint: &Endpoint| {
            let pid = endpoint.local_pid()?;
            Some(SideProcess {
                role: endpoint.role,
                pid,
            })
        };
        TrialProcesses {
            sides: endpoints.iter().filter_map(process).collect(),
            ..TrialProcesses::default()
        }
    }

    /// Its process, where that is on this host.
    pub(crate) fn local_pid(&self) -> Option<u32> {
        match &self.process {
            EndpointProcess::Here(child) => Some(child.id()),
            EndpointProcess::There(_) => None,
        }
    }

    /// Returns true if a signal has stopped its process on this host, proc_pid_stat(5).
    fn is_stopped(&self) -> bool {
        let dir = self.local_pid().and_then(proc_view::directory);
        let stat = dir.and_then(|dir| fs::read_to_string(dir.join("stat")).ok());
        stat.is_some_and(|stat| stat.rsplit(')').next().is_some_and(|s| s.starts_with(" T")))
    }

    pub(crate) fn poll_fd(&self) -> PollFd<'_> {
        PollFd::new(&self.control, PollFlags::IN)
    }

    pub(crate) fn order(&mut self, order: &ToEndpoint) -> Result<(), TrialError> {
        self.awaited = None;
        let is_sent = match &self.process {
            EndpointProcess::Here(_) => protocol::write(&mut self.control, order).is_ok(),
            EndpointProcess::There(endpoint) => endpoint.order(order),
        };
        if is_sent {
            Ok(())
        } else {
            Err(self.end_error())
        }
    }

    /// Gives it descriptors that belong to the last order.
    pub(crate) fn send_descriptors(
        &mut self,
        descriptors: [BorrowedFd<'_>; protocol::DESCRIPTORS],
    ) -> Result<(), TrialError> {
        protocol::send_descriptors(&self.control, descriptors).map_err(|_| self.end_error())
    }

    /// Its next answer, which has begun to come; an error where it has failed.
    pub(crate) fn answer(&mut self) -> Result<FromEndpoint, TrialError> {
        match self
            .message_within(TIMEOUT)
            .inspect_err(|_| self.failed = true)?
        {
            FromEndpoint::Failed(failure) => {
                self.failed = true;
                let side_reason = Some(failure.reason.clone());
                let named = failure.map(|reason| match &self.process {
                    EndpointProcess::Here(_) => format!("{}: {reason}", self.role.name()),
                    EndpointProcess::There(endpoint) => {
                        format!("on {}: {reason}", endpoint.host())
                    }
                });
                Err(TrialError::Failed(TrialFailure {
                    side_reason,
                    ..named
                }))
            }
            answer => Ok(answer),
        }
    }

    /// Its next message, also that it has failed; an error where it is gone or slower than `timeout`.
    pub(crate) fn message_within(&mut self, timeout: Duration) -> Result<FromEndpoint, TrialError> {
        match protocol::read(&mut DeadlineReader::within(timeout, self.control.as_fd())) {
            Ok(message) => {
                self.over = matches!(message, FromEndpoint::Done(_));
                self.awaited = match message {
                    FromEndpoint::Ready => Some(AwaitedOrder::Schedule),
                    FromEndpoint::Closed => Some(AwaitedOrder::Stop),
                    _ => None,
                };
                Ok(message)
            }
            Err(e) if e.kind() == io::ErrorKind::InvalidData => {
                let name = self.role.name();
                Err(TrialError::failed(format!("{name}: protocol error: {e}")))
            }
            Err(_) => Err(self.end_error()),
        }
    }

    /// The error of an endpoint whose connection has ended, with the end of its process.
    fn end_error(&mut self) -> TrialError {
        let child = match &mut self.process {
            EndpointProcess::Here(child) => child,
            EndpointProcess::There(endpoint) => return TrialError::failed(endpoint.why_gone()),
        };
        let ended = child_end::wait_or_kill(child, ENDING);
        let mut written = Vec::new();
        if let Some(stderr) = &mut child.stderr {
            // A process that it has started may hold the other end.
            let _ = rustix::io::ioctl_fionbio(&*stderr, true);
            let _ = stderr.take(2048).read_to_end(&mut written);
        }
        let text = String::from_utf8_lossy(&written);
        let mut lines = text.lines().map(str::trim);
        let first = lines.find(|line| !line.is_empty()).unwrap_or_default();
        let how = match ended {
            Ok(end) if end.was_killed => "did not respond and was killed".to_owned(),
            Ok(end) => limits::how_ended(end.status, first),
            Err(e) => format!("is gone: {e}"),
        };
        TrialError::failed(format!("the {} {how}, in mid-trial", self.role.name()))
    }

    /// Waits for the end of its process, which has sent its result, and kills it at `until_ns`.
    fn ended_by(&mut self, until_ns: u64, stop: &AtomicBool) -> Result<(), TrialError> {
        let EndpointProcess::Here(child) = &mut self.process else {
            return Ok(());
        };
        loop {
            let left_ns = until_ns.saturating_sub(clock::monotonic_ns());
            let wait = Duration::from_nanos(left_ns.min(POLL_INTERVAL_NS));
            if child_end::wait_for(child, wait)?.is_some() {
                return Ok(());
            }
            if left_ns == 0 || stop.load(Ordering::Relaxed) {
                break;
            }
        }
        let how = match child_end::wait_or_kill(child, Duration::ZERO) {
            Ok(end) if !end.was_killed => return Ok(()),
            Ok(_) => "was killed".to_owned(),
            Err(e) => e.to_string(),
        };
        if stop.load(Ordering::Relaxed) {
            return Err(TrialError::Interrupted);
        }
        let (name, seconds) = (self.role.name(), GRACE.as_secs());
        let late = format!("the {name} did not end within {seconds} s of its result");
        Err(TrialError::failed(format!("{late}: it {how}")))
    }
}

/// Waits until the processes of a trial have ended, which have sent their results. One that has to be
/// killed fails the trial.
pub(crate) fn all_ended(mut endpoints: Vec<Endpoint>, stop: &AtomicBool) -> Result<(), TrialError> {
    let until_ns = after(GRACE);
    let ended = endpoints
        .iter_mut()
        .map(|endpoint| endpoint.ended_by(until_ns, stop));
    ended.collect::<Vec<_>>().into_iter().collect()
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        // One of the other host is ended there as this is dropped.
        if let EndpointProcess::Here(child) = &mut self.process {
            // A process that has sent its result ends by itself; any other one is killed.
            let grace = if self.over { GRACE } else { Duration::ZERO };
            let _ = child_end::wait_or_kill(child, grace);
        }
    }
}

/// Processes that were started before their trial, which then begins sooner. They have no thread, socket
/// or memory of a trial, unless they are kept, and end with their coordinator.
#[derive(Default)]
pub(crate) struct StandbyEndpoints {
    waiting: Vec<Endpoint>,
    pub(crate) wanted: usize,
}

impl StandbyEndpoints {
    /// Starts as many as are wanted; to be called while no window is open. A trial starts missing ones, with
    /// an error where that fails.
    pub(crate) fn start(&mut self, program: &Program) {
        while self.waiting.len() < self.wanted {
            match Endpoint::start(program, Role::Sender, None) {
                Ok(endpoint) => self.waiting.push(endpoint),
                Err(_) => return,
            }
        }
    }

    /// Keeps processes that have played their task and wait for another one.
    pub(crate) fn keep(&mut self, endpoints: Vec<Endpoint>) {
        let over = |mut endpoint: Endpoint| {
            endpoint.over = false;
            endpoint
        };
        self.waiting.extend(endpoints.into_iter().map(over));
    }

    /// The first of them in that network that still runs, else a new process.
    pub(crate) fn take(
        &mut self,
        program: &Program,
        role: Role,
        network: Option<&Network>,
    ) -> io::Result<Endpoint> {
        let is_there = |endpoint: &Endpoint| endpoint.network == network.map(descriptor);
        while let Some(first) = self.waiting.iter().position(is_there) {
            let mut endpoint = self.waiting.remove(first);
            if endpoint.is_alive() {
                endpoint.role = role;
                return Ok(endpoint);
            }
        }
        Endpoint::start(program, role, network)
    }
}

/// The number of a network's descriptor, which no other has while the network is there.
fn descriptor(network: &Network) -> RawFd {
    network.as_fd().as_raw_fd()
}

/// The next answer of any side; an error where none comes in time.
pub(crate) fn wait(
    endpoints: &mut [Endpoint],
    deadline_ns: u64,
    stop: &AtomicBool,
) -> Result<(usize, FromEndpoint), TrialError> {
    wait_until(endpoints, deadline_ns, stop)?.ok_or_else(|| no_response(&*endpoints))
}

/// The error of endpoints of which none answers in time.
pub(crate) fn no_response<'e>(endpoints: impl IntoIterator<Item = &'e Endpoint>) -> TrialError {
    let waiting = endpoints.into_iter().filter(|endpoint| !endpoint.over);
    let names: Vec<&str> = waiting.map(|endpoint| endpoint.role.name()).collect();
    TrialError::failed(format!(
        "no response from the {} in time",
        names.join(" and the ")
    ))
}

/// The next answer of any side, or none by `until_ns`.
pub(crate) fn wait_until(
    endpoints: &mut [Endpoint],
    until_ns: u64,
    stop: &AtomicBool,
) -> Result<Option<(usize, FromEndpoint)>, TrialError> {
    let mut all: Vec<&mut Endpoint> = endpoints.iter_mut().collect();
    next_answer(&mut all, until_ns, stop)
}

/// The next answer of any endpoint, or none by `until_ns`.
pub(crate) fn next_answer(
    endpoints: &mut [&mut Endpoint],
    until_ns: u64,
    stop: &AtomicBool,
) -> Result<Option<(usize, FromEndpoint)>, TrialError> {
    let mut silent_by_ns = clock::monotonic_ns() + SILENCE_NS;
    loop {
        if stop.load(Ordering::Relaxed) {
            return Err(TrialError::Interrupted);
        }
        let left_ns = until_ns.saturating_sub(clock::monotonic_ns());
        let waiting: Vec<usize> = (0..endpoints.len())
            .filter(|&i| !endpoints[i].over)
            .collect();
        let mut polled: Vec<PollFd<'_>> = waiting.iter().map(|&i| endpoints[i].poll_fd()).collect();
        let wait_ns = left_ns.min(POLL_INTERVAL_NS);
        let ready = coordinator_stop::watched(wait_ns, || ready(&mut polled, wait_ns))?;
        if let Some(at) = ready.iter().position(|ready| *ready) {
            let i = waiting[at];
            return match endpoints[i].answer() {
                Ok(answer) => Ok(Some((i, answer))),
                Err(TrialError::Failed(failure)) => {
                    Err(TrialError::Failed(failures_of_all(endpoints, i, failure)))
                }
                Err(interrupted) => Err(interrupted),
            };
        }
        let now_ns = clock::monotonic_ns();
        if now_ns >= silent_by_ns {
            silent_by_ns = now_ns + SILENCE_NS;
            if let Some(endpoint) = endpoints
                .iter_mut()
                .find(|endpoint| !endpoint.over && endpoint.is_stopped())
            {
                endpoint.give_up();
                let why = "was stopped by a signal (SIGSTOP, a debugger), in mid-trial";
                return Err(TrialError::failed(format!(
                    "the {} {why}",
                    endpoint.role.name()
                )));
            }
        }
        if now_ns >= until_ns {
            return Ok(None);
        }
    }
}

/// The error of a side that sends a message out of order.
pub(crate) fn unexpected(from: &str, answer: &FromEndpoint) -> TrialError {
    TrialError::failed(format!(
        "protocol error: unexpected message from the {from}: {answer:?}"
    ))
}

/// Adds the other side's reason to that of a failed one: a failure of one ends both, and either may be
/// heard first.
fn failures_of_all(
    endpoints: &mut [&mut Endpoint],
    failed: usize,
    first: TrialFailure,
) -> TrialFailure {
    let is_observer = endpoints[failed].role == Role::Observer;
    let others = endpoints.iter_mut().enumerate();
    let mut failures = vec![first];
    let until_ns = clock::monotonic_ns() + LAST_MESSAGES_NS;
    // The failure of a side does not end an observer, nor that of an observer a side.
    let ends = |endpoint: &Endpoint| !is_observer && endpoint.role != Role::Observer;
    let ending = others.filter(|(i, endpoint)| *i != failed && !endpoint.over && ends(endpoint));
    for (_, endpoint) in ending {
        // Earlier messages of it may come before its reason, above all from another host.
        while !endpoint.over && endpoint.awaited != Some(AwaitedOrder::Schedule) {
            let awaits_stop = endpoint.awaited == Some(AwaitedOrder::Stop);
            if awaits_stop && endpoint.order(&ToEndpoint::Stop).is_err() {
                break;
            }
            let left_ns = until_ns.saturating_sub(clock::monotonic_ns());
            if !matches!(poll(&mut [endpoint.poll_fd()], left_ns), Ok(1)) {
                break;
            }
            if let Err(TrialError::Failed(failure)) = endpoint.answer() {
                failures.push(failure);
                break;
            }
        }
    }
    let reasons: Vec<&str> = failures.iter().map(|f| f.reason.as_str()).collect();
    let reason = reasons.join("; ");
    let wrong_bytes = failures.iter().any(|failure| failure.wrong_bytes);
    let lacks_resources = failures.iter().any(|failure| failure.lacks_resources);
    if failures.len() > 1 {
        failures.retain(|failure| !failure.is_consequence);
    }
    let cause = failures.pop().filter(|_| failures.is_empty());
    TrialFailure {
        reason,
        wrong_bytes,
        lacks_resources,
        is_consequence: cause.as_ref().is_some_and(|cause| cause.is_consequence),
        side_reason: cause.and_then(|cause| cause.side_reason),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    use rustix::process::{Pid, Signal, kill_process};

    #[test]
    fn one_that_is_stopped_is_not_waited_for_until_the_deadline() {
        let child = std::process::Command::new("sleep").arg("600").spawn();
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let process = EndpointProcess::Here(child.unwrap());
        let mut endpoints = [Endpoint::new(Role::Sender, process, ours).unwrap()];
        let pid = Pid::from_raw(endpoints[0].local_pid().unwrap() as i32).unwrap();
        kill_process(pid, Signal::STOP).unwrap();
        let until_ns = clock::monotonic_ns() + 600_000_000_000;
        let error = wait(&mut endpoints, until_ns, &AtomicBool::new(false)).unwrap_err();
        let why = "the sender was stopped by a signal (SIGSTOP, a debugger), in mid-trial";
        assert_eq!(error.to_string(), why);
    }

    /// An endpoint that has sent these messages.
    fn having_sent(role: Role, messages: &[FromEndpoint]) -> Endpoint {
        let child = std::process::Command::new("sleep").arg("60").spawn();
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        for message in messages {
            protocol::write(&mut theirs, message).unwrap();
        }
        let process = EndpointProcess::Here(child.unwrap());
        Endpoint::new(role, process, ours).unwrap()
    }

    fn failed(reason: &str, wrong_bytes: bool) -> FromEndpoint {
        FromEndpoint::Failed(TrialFailure {
            reason: reason.to_owned(),
            wrong_bytes,
            ..TrialFailure::default()
        })
    }

    fn failure_of(endpoints: &mut [Endpoint]) -> TrialFailure {
        let until_ns = clock::monotonic_ns() + 60_000_000_000;
        match wait(endpoints, until_ns, &AtomicBool::new(false)) {
            Err(TrialError::Failed(failure)) => failure,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn wrong_bytes_stay_known_next_to_the_failure_of_the_other_side() {
        let failure = failure_of(&mut [
            having_sent(Role::Sender, &[failed("the other side is gone", false)]),
            having_sent(Role::Receiver, &[failed("byte 7 is wrong", true)]),
        ]);
        assert!(failure.wrong_bytes);
        let both = "sender: the other side is gone; receiver: byte 7 is wrong";
        assert_eq!(failure.reason, both);
        assert_eq!(failure.side_reason, None);
    }

    #[test]
    fn the_cause_is_that_of_the_side_that_did_not_fail_by_the_end_of_the_other() {
        let gone =
            TrialFailure::from_error(&io::ErrorKind::UnexpectedEof.into(), "gone".to_owned());
        let failure = failure_of(&mut [
            having_sent(Role::Sender, &[failed("this socket cannot", false)]),
            having_sent(Role::Receiver, &[FromEndpoint::Failed(gone)]),
        ]);
        assert_eq!(failure.reason, "sender: this socket cannot; receiver: gone");
        assert_eq!(failure.side_reason.as_deref(), Some("this socket cannot"));
    }

    #[test]
    fn a_side_that_waits_for_its_schedule_is_not_asked_why_the_other_has_failed() {
        let later = failed("the other side is gone", false);
        let failure = failure_of(&mut [
            having_sent(Role::Sender, &[failed("this socket cannot", false)]),
            having_sent(Role::Receiver, &[FromEndpoint::Ready, later]),
        ]);
        assert_eq!(failure.reason, "sender: this socket cannot");
        assert_eq!(failure.side_reason.as_deref(), Some("this socket cannot"));
    }

    // Invariant 8.
    #[test]
    fn an_answer_that_comes_in_crumbs_has_a_bound_as_a_whole() {
        let child = std::process::Command::new("sleep").arg("60").spawn();
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let process = EndpointProcess::Here(child.unwrap());
        let mut endpoint = Endpoint::new(Role::Sender, process, ours).unwrap();
        std::thread::spawn(move || {
            // A frame of 64 KiB, by a byte every 10 ms.
            let _ = theirs.write_all(&65_536_u32.to_le_bytes());
            while theirs.write_all(b" ").is_ok() {
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        let error = endpoint
            .message_within(Duration::from_millis(100))
            .unwrap_err();
        let why = "the sender did not respond and was killed, in mid-trial";
        assert_eq!(error.to_string(), why);
    }

    #[test]
    fn the_end_of_an_endpoint_is_reported_with_its_remedy() {
        // `yes` in its place.
        let program = Program::at("/usr/bin/yes".as_ref()).unwrap();
        let mut endpoints = [Endpoint::start(&program, Role::Sender, None).unwrap()];
        let pid = Pid::from_raw(endpoints[0].local_pid().unwrap() as i32).unwrap();
        kill_process(pid, Signal::XCPU).unwrap();
        let until_ns = clock::monotonic_ns() + 60_000_000_000;
        let why = wait(&mut endpoints, until_ns, &AtomicBool::new(false)).unwrap_err();
        let why = why.to_string();
        assert!(why.contains("did not block for 10 s"), "{why}");
        assert!(why.contains("shorten --window"), "{why}");
    }
}
