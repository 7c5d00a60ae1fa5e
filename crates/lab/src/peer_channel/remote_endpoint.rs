//! An endpoint of the other host, and the state that all of them share with the threads of the link.

use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};

use bytecost_spec::host::Obstacle;
use bytecost_spec::{PacketSocket, units};
use bytecost_sys::clock;

use super::{ClockShift, FromAgent, MAX_QUEUED, Reply, ToAgent};
use crate::protocol::{
    self, FromEndpoint, HostEvidence, HostReadings, ObserverStage, ObserverTask, Task, ToEndpoint,
};

/// The most obstacles, and the most packet sockets, that are kept of one answer.
const MOST_OBSTACLES: usize = 16;
/// The most answers of one endpoint in a trial: it gives each kind once.
const MAX_ANSWERS: u32 = 16;

/// The state of a link, shared by its threads and its endpoints.
#[derive(Debug)]
pub(crate) struct LinkState {
    /// The name of the other host in messages, by its command.
    pub(crate) name: String,
    outgoing: mpsc::SyncSender<ToAgent>,
    endpoints: Mutex<BTreeMap<u64, AnswersOf>>,
    expected: Mutex<Expected>,
    pub(crate) down: Mutex<Option<String>>,
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
    pub(crate) fn begin(&self, id: u64, to: UnixStream) {
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

/// The part of a task that the other host gets.
fn elsewhere(task: &Task) -> Box<Task> {
    Box::new(Task {
        here: task.here.elsewhere(),
        ..task.clone()
    })
}

/// The endpoint; dropping it has it ended there.
pub(crate) struct RemoteEndpoint {
    pub(crate) id: u64,
    pub(crate) window_ns: u64,
    pub(crate) link: Arc<LinkState>,
}

impl RemoteEndpoint {
    /// Sends an order; false when the other host is lost.
    pub(crate) fn order(&self, order: &ToEndpoint) -> bool {
        let id = self.id;
        if let ToEndpoint::Trial(_) = order {
            self.link.begin_trial(id);
        }
        let (is_first, order) = match order {
            ToEndpoint::Prepare(task) => (true, ToEndpoint::Prepare(elsewhere(task))),
            ToEndpoint::Observe(_) => (true, ToEndpoint::Observe(ObserverTask::default())),
            ToEndpoint::Trial(trial) => (false, ToEndpoint::Trial(Box::new(trial.elsewhere()))),
            other => (false, other.clone()),
        };
        let order = Box::new(order);
        self.link.send(if is_first {
            ToAgent::Start {
                id,
                window_ns: self.window_ns,
                order,
            }
        } else {
            ToAgent::To {
                id,
                now_ns: clock::monotonic_ns(),
                order,
            }
        })
    }

    pub(crate) fn is_connected(&self) -> bool {
        lock(&self.link.down).is_none()
    }

    pub(crate) fn host(&self) -> &str {
        &self.link.name
    }

    pub(crate) fn why_gone(&self) -> String {
        let why = self.link.why_down();
        why.unwrap_or_else(|| format!("the endpoint on {} is gone", self.link.name))
    }
}

impl Drop for RemoteEndpoint {
    fn drop(&mut self) {
        self.link.end(self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr};

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
        let (ours, theirs) = UnixStream::pair().unwrap();
        link.begin(7, theirs);
        let endpoint = RemoteEndpoint {
            id: 7,
            window_ns: 0,
            link: Arc::clone(&link),
        };
        assert!(link.pass(answer(7)).is_ok());
        assert_eq!(
            protocol::read::<FromEndpoint>(&mut &ours).unwrap(),
            FromEndpoint::Ready
        );
        drop(endpoint);
        assert!(matches!(requests.recv().unwrap(), ToAgent::End { id: 7 }));
        let late = (0..).take_while(|_| link.pass(answer(7)).is_ok()).count();
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
