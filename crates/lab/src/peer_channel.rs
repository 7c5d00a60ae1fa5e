//! The messages between the two hosts: frames as in [`crate::protocol`]. Each side sends one a second
//! at least, and a side that is silent for three seconds is taken for lost.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};

use bytecost_spec::host::Obstacle;
use bytecost_spec::{Host, NetworkCard, PacketSocket, Survey, units};
use bytecost_sys::clock;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use strum::{EnumDiscriminants, EnumTryAs};

use crate::flow_key::FlowKey;
use crate::protocol::{
    self, FromEndpoint, HostEvidence, HostReadings, ObserverStage, Schedule, ToEndpoint,
};

mod incoming;
mod remote_endpoint;

pub(crate) use incoming::{IncomingMessages, SILENCE, write_out};
pub(crate) use remote_endpoint::RemoteEndpoint;

pub(crate) const VERSION: u32 = 1;

/// The most obstacles, and the most packet sockets, that are kept of one answer.
const MOST_OBSTACLES: usize = 16;
/// The most answers of one endpoint in a trial: it gives each kind once.
const MAX_ANSWERS: u32 = 16;

/// Messages that wait to be written; one more means that the other side reads none.
pub(crate) const MAX_QUEUED: usize = 256;

/// An address at which a host listens for a connectivity check, with the keys of both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Candidate {
    pub(crate) at: SocketAddr,
    /// The key of the side that connects, which sends a digest of it: so nobody can choose bytes that
    /// another host sends.
    pub(crate) key: FlowKey,
    /// The response.
    pub(crate) answer: FlowKey,
}

/// A network path that a check has found, as the side sees it that connected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FoundPath {
    pub(crate) to: IpAddr,
    pub(crate) from: IpAddr,
    pub(crate) round_trip_us: u64,
    /// The largest packet that the path takes, in bytes.
    pub(crate) path_mtu: Option<u64>,
}

/// Coordinator to agent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum ToAgent {
    /// The first message, which an agent of the same build answers by a description of its machine.
    Hello {
        version: u32,
        build: String,
    },
    /// Asks to listen for a connectivity check: at this address, else at every one.
    Listen {
        at: Option<IpAddr>,
    },
    Reach {
        candidates: Vec<Candidate>,
    },
    /// Asks for the network cards of this address of the agent, which the path goes by.
    Cards {
        at: IpAddr,
    },
    /// Asks for an endpoint with this first order: a side of a trial with a window of that length, or the
    /// observer of that host.
    Start {
        id: u64,
        window_ns: u64,
        order: Box<ToEndpoint>,
    },
    To {
        id: u64,
        now_ns: u64,
        order: Box<ToEndpoint>,
    },
    End {
        id: u64,
    },
    /// A heartbeat.
    Beat,
    Bye,
}

/// Agent to coordinator.
#[derive(Debug, EnumDiscriminants, EnumTryAs, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[strum_discriminants(name(Reply), derive(PartialOrd, Ord), vis(pub(crate)))]
pub(crate) enum FromAgent {
    /// The first message, which another build reads too.
    Hello {
        version: u32,
        build: String,
    },
    Description(Box<(Host, Survey)>),
    Listening(Vec<Candidate>),
    /// A connection by the candidate of this index, and the address that it came from.
    Reached {
        candidate: u32,
        from: IpAddr,
    },
    Found(FoundPath),
    Cards(Vec<NetworkCard>),
    From {
        id: u64,
        now_ns: u64,
        answer: Box<FromEndpoint>,
    },
    Refused(String),
    /// A heartbeat.
    Beat,
}

/// Reads a whole message of the channel, and writes it again: one that the agent receives, or one that
/// it sends.
///
/// # Errors
/// Those of [`protocol::read`].
pub fn reread(frame: &[u8], by_agent: bool) -> io::Result<Vec<u8>> {
    fn again<T: Serialize + DeserializeOwned>(mut frame: &[u8]) -> io::Result<Vec<u8>> {
        let mut written = Vec::new();
        protocol::write(&mut written, &protocol::read::<T>(&mut frame)?)?;
        Ok(written)
    }
    if by_agent {
        again::<ToAgent>(frame)
    } else {
        again::<FromAgent>(frame)
    }
}

/// The number of ns by which a time is later on this host's clock than on the other one's.
#[derive(Clone, Copy)]
pub(crate) struct ClockShift(i128);

impl ClockShift {
    /// The shift if a message with this time of its sender is received now.
    pub(crate) fn received_now(now_ns: u64) -> ClockShift {
        ClockShift(i128::from(clock::monotonic_ns()) - i128::from(now_ns))
    }

    fn here_ns(self, at_ns: u64) -> u64 {
        (i128::from(at_ns) + self.0).clamp(0, i128::from(u64::MAX / 2)) as u64
    }

    /// The order, with its times by this host's clock.
    pub(crate) fn order(self, order: ToEndpoint) -> ToEndpoint {
        match order {
            ToEndpoint::Go(schedule) => ToEndpoint::Go(Schedule {
                begin_ns: self.here_ns(schedule.begin_ns),
                window_from_ns: self.here_ns(schedule.window_from_ns),
                window_to_ns: self.here_ns(schedule.window_to_ns),
                steady_by_ns: schedule.steady_by_ns.map(|at_ns| self.here_ns(at_ns)),
            }),
            other => other,
        }
    }

    /// The answer, with its times by this host's clock.
    pub(crate) fn answer(self, answer: FromEndpoint) -> FromEndpoint {
        match answer {
            FromEndpoint::Connected(window_ns) => {
                FromEndpoint::Connected(self.here_ns(window_ns.start)..self.here_ns(window_ns.end))
            }
            other => other,
        }
    }
}

/// The state of a link, shared by its threads and its endpoints.
#[derive(Debug)]
pub(crate) struct LinkState {
    /// The name of the other host in messages, by its command.
    pub(crate) name: String,
    outgoing: mpsc::SyncSender<ToAgent>,
    /// The number of the next endpoint.
    next_id: AtomicU64,
    endpoints: Mutex<BTreeMap<u64, AnswersOf>>,
    expected: Mutex<Expected>,
    down: Mutex<Option<String>>,
    /// The first line that came in place of the agent's first message.
    pub(crate) printed: Mutex<Option<String>>,
}

/// Messages that the agent may still send; any other one ends the link.
#[derive(Debug, Default)]
struct Expected {
    /// Replies to requests, with their number.
    replies: BTreeMap<Reply, usize>,
    /// The number of answers of endpoints that are ended already, which may be on their way.
    late_answers: u64,
}

/// The socket to which the answers of an endpoint are written.
#[derive(Debug)]
struct AnswersOf {
    to: UnixStream,
    /// Answers that may still come.
    left: u32,
}

/// A message of the agent that nobody asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unexpected;

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LinkState {
    /// The state of a link, and the messages that are to be sent over it.
    pub(crate) fn new(name: &str) -> (Arc<LinkState>, mpsc::Receiver<ToAgent>) {
        let (outgoing, messages) = mpsc::sync_channel(MAX_QUEUED);
        let state = LinkState {
            name: name.to_owned(),
            outgoing,
            next_id: AtomicU64::new(0),
            endpoints: Mutex::default(),
            expected: Mutex::default(),
            down: Mutex::default(),
            printed: Mutex::default(),
        };
        (Arc::new(state), messages)
    }

    /// Queues a message. False when nobody reads it any more.
    pub(crate) fn send(&self, message: ToAgent) -> bool {
        lock(&self.down).is_none() && self.outgoing.try_send(message).is_ok()
    }

    /// Queues the last message, also where the link is down.
    pub(crate) fn send_last(&self, message: ToAgent) {
        let _ = self.outgoing.try_send(message);
    }

    /// Queues a request that gets at most so many replies of each of these kinds, or a refusal.
    pub(crate) fn ask(&self, request: ToAgent, replies: &[(Reply, usize)]) -> bool {
        self.expect(replies);
        self.expect(&[(Reply::Refused, 1)]);
        self.send(request)
    }

    /// Expects so many more replies of each of these kinds.
    pub(crate) fn expect(&self, replies: &[(Reply, usize)]) {
        let mut expected = lock(&self.expected);
        for (kind, number) in replies {
            *expected.replies.entry(*kind).or_default() += number;
        }
    }

    /// Has the answers of an endpoint with this number written to a socket.
    fn begin(&self, id: u64, to: UnixStream) {
        let answers = AnswersOf {
            to,
            left: MAX_ANSWERS,
        };
        lock(&self.endpoints).insert(id, answers);
    }

    /// Expects the answers of another trial of an endpoint.
    fn begin_trial(&self, id: u64) {
        if let Some(answers) = lock(&self.endpoints).get_mut(&id) {
            answers.left = MAX_ANSWERS;
        }
    }

    fn end(&self, id: u64) {
        if let Some(answers) = lock(&self.endpoints).remove(&id) {
            lock(&self.expected).late_answers += u64::from(answers.left);
        }
        self.send(ToAgent::End { id });
    }

    pub(crate) fn why_down(&self) -> Option<String> {
        lock(&self.down).clone()
    }

    /// Marks the link as lost for a reason. The sockets of all endpoints end, so that nobody waits.
    pub(crate) fn mark_down(&self, why: String) {
        lock(&self.down).get_or_insert(why);
        lock(&self.endpoints).clear();
    }

    /// Passes on the answer of an endpoint, and gives back a reply that was asked for.
    pub(crate) fn pass(&self, message: FromAgent) -> Result<Option<FromAgent>, Unexpected> {
        match message {
            FromAgent::Beat => Ok(None),
            FromAgent::From { id, now_ns, answer } => {
                let answer = ClockShift::received_now(now_ns).answer(self.plain(*answer));
                let mut endpoints = lock(&self.endpoints);
                let Some(answers) = endpoints.get_mut(&id) else {
                    let late = &mut lock(&self.expected).late_answers;
                    *late = late.checked_sub(1).ok_or(Unexpected)?;
                    return Ok(None);
                };
                answers.left = answers.left.checked_sub(1).ok_or(Unexpected)?;
                // An error means that the reader is gone, which does not matter.
                let _ = protocol::write(&mut answers.to, &answer);
                Ok(None)
            }
            reply => {
                let mut expected = lock(&self.expected);
                let replies = &mut expected.replies;
                let left = replies.get_mut(&Reply::from(&reply)).ok_or(Unexpected)?;
                *left = left.checked_sub(1).ok_or(Unexpected)?;
                Ok(Some(reply))
            }
        }
    }

    /// An answer without process numbers, which mean nothing here, with text in single lines, and with few
    /// circumstances.
    fn plain(&self, answer: FromEndpoint) -> FromEndpoint {
        match answer {
            FromEndpoint::Failed(failure) => FromEndpoint::Failed(failure.map(units::one_line)),
            FromEndpoint::Listening { address, .. } => FromEndpoint::Listening {
                address: units::one_line(&address),
                process: None,
            },
            FromEndpoint::Observed {
                trial,
                stage: ObserverStage::Over(readings),
            } => FromEndpoint::Observed {
                trial,
                stage: ObserverStage::Over(Box::new(self.plain_readings(*readings))),
            },
            other => other,
        }
    }

    fn plain_readings(&self, readings: HostReadings) -> HostReadings {
        let name = &self.name;
        let obstacles = readings.obstacles.into_iter().take(MOST_OBSTACLES);
        let sockets = readings.packet_sockets.into_iter().take(MOST_OBSTACLES);
        HostReadings {
            machine: readings.machine,
            obstacles: obstacles
                .map(|obstacle| Obstacle {
                    place: units::one_line(&obstacle.place),
                    found: units::one_line(&obstacle.found),
                    ..obstacle
                })
                .collect(),
            packet_sockets: sockets
                .map(|socket| {
                    let device = socket.device.as_deref().unwrap_or("all devices");
                    PacketSocket {
                        device: Some(format!("{} on {name}", units::one_line(device))),
                        holder: socket.holder.as_deref().map(units::one_line),
                    }
                })
                .collect(),
            // None is asked for there.
            evidence: HostEvidence::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use std::time::Duration;

    fn schedule(at_ns: u64) -> Schedule {
        Schedule {
            begin_ns: at_ns,
            window_from_ns: at_ns + 10,
            window_to_ns: at_ns + 20,
            steady_by_ns: Some(at_ns + 30),
        }
    }

    #[test]
    fn a_moment_means_the_same_time_from_when_it_is_heard() {
        let shift = ClockShift(1_000_000 - 50);
        let order = shift.order(ToEndpoint::Go(schedule(150)));
        assert_eq!(order, ToEndpoint::Go(schedule(1_000_100)));
        let answer = shift.answer(FromEndpoint::Connected(0..u64::MAX));
        assert_eq!(answer, FromEndpoint::Connected(999_950..u64::MAX / 2));
    }

    fn answer(id: u64) -> FromAgent {
        FromAgent::From {
            id,
            now_ns: clock::monotonic_ns(),
            answer: Box::new(FromEndpoint::Ready),
        }
    }

    // Invariant 8.
    #[test]
    fn an_agent_sends_what_was_asked_for_and_no_more() {
        let (link, requests) = LinkState::new("b");
        let cards = || FromAgent::Cards(Vec::new());
        assert_eq!(link.pass(cards()).unwrap_err(), Unexpected);
        let at = IpAddr::V4(Ipv4Addr::LOCALHOST);
        assert!(link.ask(ToAgent::Cards { at }, &[(Reply::Cards, 1)]));
        assert!(matches!(requests.recv().unwrap(), ToAgent::Cards { .. }));
        assert!(matches!(link.pass(FromAgent::Beat), Ok(None)));
        assert!(matches!(link.pass(cards()), Ok(Some(FromAgent::Cards(_)))));
        assert_eq!(link.pass(cards()).unwrap_err(), Unexpected);
        let refused = || FromAgent::Refused("no".to_owned());
        assert!(link.pass(refused()).is_ok());
        assert_eq!(link.pass(refused()).unwrap_err(), Unexpected);
    }

    // Invariant 8.
    #[test]
    fn answers_of_an_endpoint_are_bounded_in_number_while_it_lives_and_after() {
        let (link, requests) = LinkState::new("b");
        assert_eq!(
            link.pass(answer(7)).unwrap_err(),
            Unexpected,
            "none was started"
        );
        let (endpoint, ours) = RemoteEndpoint::new(&link, Duration::ZERO).unwrap();
        assert!(link.pass(answer(0)).is_ok());
        assert_eq!(
            protocol::read::<FromEndpoint>(&mut &ours).unwrap(),
            FromEndpoint::Ready
        );
        drop(endpoint);
        assert!(matches!(requests.recv().unwrap(), ToAgent::End { id: 0 }));
        let late = (0..).take_while(|_| link.pass(answer(0)).is_ok()).count();
        assert_eq!(late as u32, MAX_ANSWERS - 1);
        let (_ours, second) = UnixStream::pair().unwrap();
        link.begin(8, second);
        let all = (0..).take_while(|_| link.pass(answer(8)).is_ok()).count();
        assert_eq!(all as u32, MAX_ANSWERS);
    }

    // Invariant 8.
    #[test]
    fn packet_sockets_of_the_other_host_are_few_and_name_it_in_one_line() {
        let (link, _requests) = LinkState::new("b");
        let (ours, theirs) = UnixStream::pair().unwrap();
        link.begin(7, theirs);
        let socket = PacketSocket {
            device: Some("eth0\n".to_owned()),
            holder: None,
        };
        let message = FromAgent::From {
            id: 7,
            now_ns: 0,
            answer: Box::new(FromEndpoint::Observed {
                trial: 1,
                stage: ObserverStage::Over(Box::new(HostReadings {
                    packet_sockets: vec![socket; 2 * MOST_OBSTACLES],
                    ..HostReadings::default()
                })),
            }),
        };
        assert!(link.pass(message).is_ok());
        let FromEndpoint::Observed {
            stage: ObserverStage::Over(readings),
            ..
        } = protocol::read(&mut &ours).unwrap()
        else {
            panic!("another answer came");
        };
        let found = readings.packet_sockets;
        assert_eq!(found.len(), MOST_OBSTACLES);
        let device = found[0].device.as_deref().unwrap();
        assert!(
            device.starts_with("eth0") && device.ends_with(" on b"),
            "{device}"
        );
        assert!(!device.contains('\n'), "{device}");
    }
}
