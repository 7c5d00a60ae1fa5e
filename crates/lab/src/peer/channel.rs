//! This end of the channel to the other host: requests with their replies, and the endpoints there.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use bytecost_spec::units;

use super::command::PeerError;
use crate::peer_channel::{
    FromAgent, IncomingMessages, LinkState, Reply, ToAgent, Unexpected, VERSION, lock, write_out,
};

/// The time between checks of the stop flag.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A channel, which one thread reads and another one writes. Dropping it has the agent end.
#[derive(Debug)]
pub(super) struct Channel {
    pub(super) state: Arc<LinkState>,
    replies: mpsc::Receiver<FromAgent>,
}

/// The pipes of a channel.
pub(super) struct Pipes {
    pub(super) from: OwnedFd,
    pub(super) to: OwnedFd,
    /// A copy of the program, which is written before anything else.
    pub(super) copy: Option<File>,
    /// The longest time until the first message.
    pub(super) greets_within: Duration,
}

impl Channel {
    /// A channel to the host of that name, over pipes.
    pub(super) fn open(name: &str, pipes: Pipes) -> io::Result<Channel> {
        let (state, messages) = LinkState::new(name);
        state.expect(&[(Reply::Hello, 1)]);
        // As many as were asked for.
        let (replies_to, replies) = mpsc::channel();
        let incoming = IncomingMessages::new(pipes.from, pipes.greets_within);
        let reading = Arc::clone(&state);
        thread::Builder::new().spawn(move || read_in(incoming, &reading, &replies_to))?;
        let (mut to, copy) = (File::from(pipes.to), pipes.copy);
        thread::Builder::new().spawn(move || {
            // If the copy fails, no agent responds, which is reported elsewhere.
            if let Some(mut program) = copy {
                let _ = io::copy(&mut program, &mut to);
            }
            let is_last = |message: &ToAgent| matches!(message, ToAgent::Bye);
            write_out(to.into(), &messages, || ToAgent::Beat, is_last);
        })?;
        Ok(Channel { state, replies })
    }

    /// The name of the other host in messages, by its command.
    pub(super) fn name(&self) -> &str {
        &self.state.name
    }

    /// Sends the first message, to which an agent of the same build describes its machine.
    pub(super) fn send_hello(&self, own_build: &str) {
        let hello = ToAgent::Hello {
            version: VERSION,
            build: own_build.to_owned(),
        };
        self.ask(hello, &[(Reply::Description, 1)]);
    }

    /// Sends a request that gets at most so many replies of each of these kinds, or a refusal.
    pub(super) fn ask(&self, request: ToAgent, replies: &[(Reply, usize)]) {
        // Where it is down, the wait for the reply says so.
        self.state.ask(request, replies);
    }

    /// Waits for a reply; the first that `reply` makes something of.
    pub(super) fn wait_for<T>(
        &self,
        timeout: Duration,
        stop: &AtomicBool,
        reply: impl Fn(FromAgent) -> Option<T>,
    ) -> Result<T, PeerError> {
        let name = self.name();
        let until = Instant::now() + timeout;
        loop {
            if stop.load(Ordering::Relaxed) {
                return Err(PeerError::interrupted());
            }
            let left = until.saturating_duration_since(Instant::now());
            match self.replies.recv_timeout(left.min(POLL_INTERVAL)) {
                Ok(FromAgent::Refused(why)) => return Err(PeerError::of_peer(name, why)),
                Ok(message) => {
                    if let Some(found) = reply(message) {
                        return Ok(found);
                    }
                }
                Err(RecvTimeoutError::Timeout) if left.is_zero() => {
                    let why = format!(
                        "no response within {}: does the command run bytecost there, and is the network up?",
                        units::duration(timeout)
                    );
                    return Err(PeerError::of_peer(name, why));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(PeerError::new(self.why_down().unwrap_or_default()));
                }
            }
        }
    }

    /// The reason why the channel is down; none while it is not.
    pub(super) fn why_down(&self) -> Option<String> {
        self.state.why_down()
    }

    /// The first line that came in place of the agent's first message.
    pub(super) fn printed(&self) -> Option<String> {
        lock(&self.state.printed).clone()
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.state.send_last(ToAgent::Bye);
    }
}

/// Passes on the messages of the agent until the channel is lost.
fn read_in(
    mut incoming: IncomingMessages,
    state: &LinkState,
    replies_to: &mpsc::Sender<FromAgent>,
) {
    let name = &state.name;
    let mut message = incoming.first();
    let is_first = message.is_err();
    let lost = loop {
        match message.map(|message| state.pass(message)) {
            Ok(Ok(reply)) => {
                let _ = reply.map(|reply| replies_to.send(reply));
            }
            Ok(Err(Unexpected)) => {
                return state.mark_down(format!(
                    "peer {name}: protocol error: the agent sent a message that nobody asked for"
                ));
            }
            Err(e) => break e,
        }
        message = incoming.next();
    };
    let timeout = incoming.timeout;
    if is_first {
        *lock(&state.printed) = incoming.first_line();
    }
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

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::io::Write as _;
    use std::net::{IpAddr, Ipv4Addr};
    use std::os::unix::net::UnixStream;

    use bytecost_sys::clock;

    use crate::endpoint_process::Endpoint;
    use crate::peer_channel::RemoteEndpoint;
    use crate::protocol::{self, FromEndpoint, Role, Schedule, ToEndpoint};
    use crate::trial_error::TrialFailure;

    /// Long enough for a busy machine: what is waited for comes, or never will.
    pub(in crate::peer) const LONG: Duration = Duration::from_secs(60);
    const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    /// The other end of a channel, played by a test.
    pub(in crate::peer) struct PlayedAgent(UnixStream);

    impl PlayedAgent {
        /// A channel and its agent, which has sent nothing.
        pub(in crate::peer) fn silent(greets_within: Duration) -> (Channel, PlayedAgent) {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let pipes = Pipes {
                from: ours.try_clone().unwrap().into(),
                to: ours.into(),
                copy: None,
                greets_within,
            };
            theirs.set_read_timeout(Some(LONG)).unwrap();
            (Channel::open("b", pipes).unwrap(), PlayedAgent(theirs))
        }

        /// A channel and its agent, which has greeted.
        pub(in crate::peer) fn greeting() -> (Channel, PlayedAgent) {
            let (channel, mut agent) = PlayedAgent::silent(LONG);
            agent.send(&FromAgent::Hello {
                version: VERSION,
                build: "build".to_owned(),
            });
            let hello = channel.wait_for(LONG, &AtomicBool::new(false), |message| {
                matches!(message, FromAgent::Hello { .. }).then_some(())
            });
            hello.unwrap();
            (channel, agent)
        }

        pub(in crate::peer) fn send(&mut self, message: &FromAgent) {
            protocol::write(&mut self.0, message).unwrap();
        }

        /// The next message that is no heartbeat.
        pub(in crate::peer) fn next(&mut self) -> ToAgent {
            loop {
                match protocol::read(&mut self.0).unwrap() {
                    ToAgent::Beat => {}
                    message => return message,
                }
            }
        }

        fn answer(&mut self, id: u64, answer: FromEndpoint) {
            self.send(&FromAgent::From {
                id,
                now_ns: clock::monotonic_ns(),
                answer: Box::new(answer),
            });
        }
    }

    fn ask_for_cards(channel: &Channel) {
        channel.ask(ToAgent::Cards { at: LOOPBACK }, &[(Reply::Cards, 1)]);
    }

    fn endpoint(channel: &Channel, role: Role) -> Endpoint {
        let window = Duration::from_nanos(7);
        let (endpoint, answers) = RemoteEndpoint::new(&channel.state, window).unwrap();
        Endpoint::remote(role, endpoint, answers).unwrap()
    }

    /// The error of a wait for a reply.
    fn failure(channel: &Channel) -> String {
        let waited = channel.wait_for(LONG, &AtomicBool::new(false), FromAgent::try_as_cards);
        waited.unwrap_err().to_string()
    }

    #[test]
    fn a_request_gets_its_reply_or_a_refusal_in_one_line() {
        let (channel, mut agent) = PlayedAgent::greeting();
        ask_for_cards(&channel);
        assert!(matches!(agent.next(), ToAgent::Cards { at: LOOPBACK }));
        agent.send(&FromAgent::Beat);
        agent.send(&FromAgent::Cards(Vec::new()));
        let cards = channel.wait_for(LONG, &AtomicBool::new(false), FromAgent::try_as_cards);
        assert_eq!(cards.unwrap(), []);
        ask_for_cards(&channel);
        agent.send(&FromAgent::Refused("there\nis none".to_owned()));
        let why = failure(&channel);
        assert!(
            why.starts_with("peer b: there") && why.ends_with("is none"),
            "{why}"
        );
        assert!(!why.contains('\n'), "{why}");
        assert_eq!(channel.why_down(), None);
    }

    #[test]
    fn a_wait_ends_with_the_run() {
        let (channel, _agent) = PlayedAgent::greeting();
        let stop = AtomicBool::new(true);
        let waited = channel.wait_for(LONG, &stop, FromAgent::try_as_cards);
        assert!(waited.unwrap_err().is_interruption());
    }

    // Invariant 8.
    #[test]
    fn a_message_that_nobody_asked_for_ends_the_channel_and_all_its_endpoints() {
        let (channel, mut agent) = PlayedAgent::greeting();
        let mut endpoint = endpoint(&channel, Role::Receiver);
        agent.send(&FromAgent::Cards(Vec::new()));
        let why = failure(&channel);
        assert!(why.contains("nobody asked for"), "{why}");
        assert_eq!(endpoint.answer().unwrap_err().to_string(), why);
        assert_eq!(channel.why_down(), Some(why));
        assert!(!endpoint.is_alive() && endpoint.order(&ToEndpoint::Stop).is_err());
    }

    #[test]
    fn the_end_of_the_pipe_is_the_error_of_all_that_wait() {
        let (channel, agent) = PlayedAgent::greeting();
        let mut endpoint = endpoint(&channel, Role::Sender);
        drop(agent);
        let why = failure(&channel);
        assert_eq!(why, "peer b is gone: its command has ended");
        assert_eq!(endpoint.answer().unwrap_err().to_string(), why);
    }

    // Invariant 8.
    #[test]
    fn bytes_that_are_no_message_end_the_channel_whatever_length_they_name() {
        for length in [u32::MAX, 5] {
            let (channel, mut agent) = PlayedAgent::greeting();
            // At once, as the channel may end with the length.
            let bytes = [&length.to_le_bytes()[..], b"oops\n\x1b[2J"].concat();
            agent.0.write_all(&bytes).unwrap();
            let why = failure(&channel);
            assert!(
                why.contains("is not bytecost's") && why.contains("oops"),
                "{why}"
            );
            assert!(!why.contains(['\n', '\x1b']), "{why}");
        }
    }

    #[test]
    fn what_a_shell_prints_in_place_of_the_first_message_is_kept_for_the_error() {
        let (channel, mut agent) = PlayedAgent::silent(LONG);
        agent.0.write_all(b"Welcome to db7\nno such host").unwrap();
        drop(agent);
        assert_eq!(failure(&channel), "peer b is gone: its command has ended");
        assert_eq!(channel.printed().as_deref(), Some("Welcome to db7"));
    }

    #[test]
    fn an_agent_that_is_silent_is_lost() {
        let (channel, _agent) = PlayedAgent::silent(Duration::ZERO);
        let why = failure(&channel);
        assert!(why.contains("no response within"), "{why}");
    }

    #[test]
    fn a_reply_that_does_not_come_in_time_is_reported() {
        let (channel, _agent) = PlayedAgent::silent(LONG);
        let stop = AtomicBool::new(false);
        let waited = channel.wait_for(Duration::ZERO, &stop, FromAgent::try_as_cards);
        let why = waited.unwrap_err().to_string();
        assert!(why.contains("does the command run bytecost there"), "{why}");
    }

    #[test]
    fn orders_go_to_the_agent_and_answers_come_back_by_the_number_of_their_endpoint() {
        let (channel, mut agent) = PlayedAgent::greeting();
        let [mut first, mut second] =
            [Role::Sender, Role::Observer].map(|role| endpoint(&channel, role));
        let schedule = Schedule::of_window(0..10);
        second
            .order(&ToEndpoint::Observe(Default::default()))
            .unwrap();
        first.order(&ToEndpoint::Go(schedule)).unwrap();
        assert!(matches!(
            agent.next(),
            ToAgent::Start {
                id: 1,
                window_ns: 7,
                ..
            }
        ));
        let ToAgent::To { id, order, .. } = agent.next() else {
            panic!("another order is passed on");
        };
        assert_eq!((id, *order), (0, ToEndpoint::Go(schedule)));
        agent.answer(1, FromEndpoint::Closed);
        agent.answer(0, FromEndpoint::Ready);
        assert_eq!(first.answer().unwrap(), FromEndpoint::Ready);
        assert_eq!(second.answer().unwrap(), FromEndpoint::Closed);
        drop(second);
        assert!(matches!(agent.next(), ToAgent::End { id: 1 }));
        // Its answers may be on their way.
        agent.answer(1, FromEndpoint::Ready);
        agent.answer(0, FromEndpoint::Closed);
        assert_eq!(first.answer().unwrap(), FromEndpoint::Closed);
        assert_eq!(channel.why_down(), None);
    }

    // Invariant 8.
    #[test]
    fn the_reason_of_a_failure_there_is_one_line_with_the_host() {
        let (channel, mut agent) = PlayedAgent::greeting();
        let mut endpoint = endpoint(&channel, Role::Sender);
        agent.answer(
            0,
            FromEndpoint::Failed(TrialFailure::from("no\nroom".to_owned())),
        );
        let why = endpoint.answer().unwrap_err().to_string();
        assert!(why.starts_with("on b: no") && !why.contains('\n'), "{why}");
    }

    #[test]
    fn the_last_message_has_the_agent_end() {
        let (channel, mut agent) = PlayedAgent::greeting();
        channel.send_hello("build");
        drop(channel);
        assert!(matches!(agent.next(), ToAgent::Hello { .. }));
        assert!(matches!(agent.next(), ToAgent::Bye));
    }

    // Without its program nobody there could answer.
    #[test]
    fn a_copy_of_the_program_is_written_before_any_message() {
        let mut program = tempfile::tempfile().unwrap();
        program.write_all(b"ELF").unwrap();
        io::Seek::rewind(&mut program).unwrap();
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let pipes = Pipes {
            from: ours.try_clone().unwrap().into(),
            to: ours.into(),
            copy: Some(program),
            greets_within: LONG,
        };
        let channel = Channel::open("b", pipes).unwrap();
        channel.send_hello("build");
        let mut copied = [0; 3];
        io::Read::read_exact(&mut theirs, &mut copied).unwrap();
        assert_eq!(&copied, b"ELF");
        assert!(matches!(PlayedAgent(theirs).next(), ToAgent::Hello { .. }));
    }
}
