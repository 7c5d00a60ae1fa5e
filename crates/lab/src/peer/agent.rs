//! The other end of the channel: `bytecost agent`, started from another host by a user's command. It
//! starts one side of each trial and the observer of this host, and carries their orders and answers. It
//! and all its processes end with the channel, or its silence.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use bytecost_spec::{Host, Survey};
use bytecost_sys::clock;
use rustix::event::PollFd;

use super::copy::remove_own;
use super::known_addresses::KnownAddresses;
use super::started_endpoint::{EndpointStarter, StartedEndpoint};
use crate::deadline::ready;
use crate::endpoint_process::Endpoint;
use crate::peer_channel::{
    ClockShift, FromAgent, IncomingMessages, MAX_QUEUED, SILENCE, ToAgent, VERSION, write_out,
};
use crate::program::{self, Program};
use crate::protocol::{FromEndpoint, Schedule, ToEndpoint};
use crate::trial_error::TrialError;

/// The time between checks if the channel is silent, in ns.
const POLL_INTERVAL_NS: u64 = 500_000_000;

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
    let starter = EndpointStarter::new(program, host.clone(), &survey);
    let _ = outgoing.send(FromAgent::Description(Box::new((host, survey))));
    let mut agent = Agent {
        starter,
        addresses: KnownAddresses::new(),
        card_names: Vec::new(),
        side: None,
        observer: None,
        outgoing,
        is_unread: false,
    };
    agent.live(from)
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

/// The endpoints that play here, and the channel to their coordinator.
struct Agent {
    starter: EndpointStarter,
    addresses: KnownAddresses,
    /// The cards that the path goes by.
    card_names: Vec<String>,
    /// The side of the present trial.
    side: Option<StartedEndpoint>,
    observer: Option<StartedEndpoint>,
    outgoing: mpsc::SyncSender<FromAgent>,
    /// True if messages were lost, since the coordinator reads none.
    is_unread: bool,
}

impl Agent {
    fn live(&mut self, mut from: IncomingMessages) -> io::Result<()> {
        loop {
            let started = self.side.iter().chain(&self.observer);
            let (ids, endpoints): (Vec<u64>, Vec<PollFd<'_>>) = started
                .filter(|playing| !playing.endpoint.is_over())
                .map(|playing| (playing.id, playing.endpoint.poll_fd()))
                .unzip();
            let mut polled = vec![from.poll_fd()];
            polled.extend(endpoints);
            let is_ready = ready(&mut polled, POLL_INTERVAL_NS)?;
            drop(polled);
            // An answer follows from messages that were sent before it.
            while ready(&mut [from.poll_fd()], 0)?[0] {
                if !next_message(&mut from)?.is_some_and(|message| self.on_message(message)) {
                    return Ok(());
                }
            }
            for (id, _) in ids.iter().zip(&is_ready[1..]).filter(|(_, ready)| **ready) {
                self.pass_answer(*id);
            }
            if from.is_silent() || self.is_unread {
                return Ok(());
            }
        }
    }

    fn endpoint(&mut self, id: u64) -> Option<&mut Endpoint> {
        let mut all = self.side.iter_mut().chain(&mut self.observer);
        let started = all.find(|started| started.id == id)?;
        Some(&mut started.endpoint)
    }

    fn end(&mut self, id: u64) {
        for slot in [&mut self.side, &mut self.observer] {
            slot.take_if(|started| started.id == id);
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

    /// Reports that an endpoint has failed, and ends it.
    fn fail(&mut self, id: u64, error: TrialError) {
        self.end(id);
        self.answer(id, FromEndpoint::Failed(error.into()));
    }

    /// Handles a message. Returns false at the last one.
    fn on_message(&mut self, message: ToAgent) -> bool {
        match message {
            ToAgent::Hello { .. } | ToAgent::Beat => {}
            ToAgent::Listen { at } => match self.addresses.listen(at, &self.outgoing) {
                Ok(candidates) => self.send(candidates),
                Err(e) => self.send(FromAgent::Refused(e.to_string())),
            },
            ToAgent::Reach { candidates } => {
                if let Err(e) = self.addresses.reach(candidates, &self.outgoing) {
                    self.send(FromAgent::Refused(e.to_string()));
                }
            }
            ToAgent::Cards { at } => {
                let cards = self.addresses.cards(at);
                self.card_names = cards.iter().map(|card| card.name.clone()).collect();
                self.send(FromAgent::Cards(cards));
            }
            ToAgent::Start {
                id,
                window_ns,
                order,
            } => {
                if let Err(e) = self.start(id, *order, Duration::from_nanos(window_ns)) {
                    self.fail(id, e);
                }
            }
            ToAgent::To { id, now_ns, order } => {
                let order = ClockShift::received_now(now_ns).order(*order);
                if let Err(e) = self.order(id, order) {
                    self.fail(id, e);
                }
            }
            ToAgent::End { id } => {
                self.end(id);
                self.starter.start_standby();
            }
            ToAgent::Bye => return false,
        }
        true
    }

    /// Starts an endpoint with its first order, what depends on this host filled in.
    fn start(&mut self, id: u64, order: ToEndpoint, window: Duration) -> Result<(), TrialError> {
        match order {
            ToEndpoint::Prepare(task) if self.side.is_none() => {
                let memory_bytes = self.starter.memory_bytes();
                let fits = self.addresses.check(&task, window, memory_bytes);
                fits.map_err(TrialError::failed)?;
                self.side = Some(self.starter.side(id, *task, window)?);
            }
            ToEndpoint::Observe(_) if self.observer.is_none() => {
                self.observer = Some(self.starter.observer(id)?);
            }
            _ => return Err(no_order()),
        }
        Ok(())
    }

    /// Passes on an order. An endpoint that has failed gets none, which the coordinator learns.
    fn order(&mut self, id: u64, mut order: ToEndpoint) -> Result<(), TrialError> {
        if self.endpoint(id).is_none() {
            return Ok(());
        }
        let side = self.side.as_ref();
        let own = side.filter(|side| side.id == id);
        match (&mut order, own) {
            (ToEndpoint::Trial(trial), None) => {
                **trial = side.map_or_else(
                    || trial.elsewhere(),
                    |side| side.observed(trial, &self.card_names),
                );
            }
            (ToEndpoint::Go(schedule), Some(own)) => {
                if own.has_window(schedule) {
                    self.order_observer(&order);
                }
            }
            (ToEndpoint::Open | ToEndpoint::Stop, _) => {}
            _ => return Err(no_order()),
        }
        self.endpoint(id).map_or(Ok(()), |end| end.order(&order))
    }

    /// Has the observer open and close its window with its side. An order of the coordinator would come
    /// later, by the delay of the link, and have its times shifted by that.
    fn order_observer(&mut self, order: &ToEndpoint) {
        if let Some(StartedEndpoint { id, endpoint, .. }) = &mut self.observer
            && let Err(e) = endpoint.order(order)
        {
            let id = *id;
            self.fail(id, e);
        }
    }

    /// Passes on an answer of an endpoint.
    fn pass_answer(&mut self, id: u64) {
        let Some(answer) = self.endpoint(id).map(Endpoint::answer) else {
            return;
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(e) => return self.fail(id, e),
        };
        match &answer {
            FromEndpoint::Connected(window_ns) => {
                let schedule = Schedule::of_window(window_ns.clone());
                self.order_observer(&ToEndpoint::Go(schedule));
            }
            FromEndpoint::Closed => self.order_observer(&ToEndpoint::Close),
            _ => {}
        }
        self.answer(id, answer);
    }
}

fn no_order() -> TrialError {
    TrialError::failed("protocol error: no order for an endpoint of this host")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr};
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;

    use bytecost_spec::{Axis, Cell};

    use crate::flow_key::FlowKey;
    use crate::peer_channel::{LinkState, RemoteEndpoint};
    use crate::protocol::{
        self, ConnectionSetup, ContentCheck, LocalSettings, ObservedTrial, Role, Task,
    };

    /// A coordinator, played by a test, with an agent in a thread of its own.
    struct PlayedCoordinator {
        stream: UnixStream,
        agent: thread::JoinHandle<io::Result<()>>,
    }

    impl PlayedCoordinator {
        fn with_build(build: &str) -> PlayedCoordinator {
            let (mut ours, theirs) = UnixStream::pair().unwrap();
            ours.set_read_timeout(Some(Duration::from_secs(60)))
                .unwrap();
            let from = theirs.try_clone().unwrap();
            let agent = thread::spawn(move || {
                run(from.into(), theirs.into(), &|| {
                    (Host::default(), Survey::default())
                })
            });
            let hello = ToAgent::Hello {
                version: VERSION,
                build: build.to_owned(),
            };
            protocol::write(&mut ours, &hello).unwrap();
            let mut coordinator = PlayedCoordinator {
                stream: ours,
                agent,
            };
            assert!(matches!(coordinator.next(), Some(FromAgent::Hello { .. })));
            coordinator
        }

        fn send(&mut self, message: &ToAgent) {
            protocol::write(&mut self.stream, message).unwrap();
        }

        /// The next message that is no heartbeat; none where the agent is gone.
        fn next(&mut self) -> Option<FromAgent> {
            loop {
                match protocol::read(&mut self.stream).ok()? {
                    FromAgent::Beat => {}
                    message => return Some(message),
                }
            }
        }

        fn start(&mut self, id: u64, order: ToEndpoint) {
            self.send(&ToAgent::Start {
                id,
                window_ns: 0,
                order: Box::new(order),
            });
        }

        /// The reason why the endpoint of that number has failed.
        fn failure(&mut self, failed: u64) -> String {
            match self.next() {
                Some(FromAgent::From { id, answer, .. }) if id == failed => match *answer {
                    FromEndpoint::Failed(failure) => failure.reason,
                    other => panic!("{other:?}"),
                },
                other => panic!("{other:?}"),
            }
        }
    }

    fn task(here: LocalSettings) -> ToEndpoint {
        let cell = Cell::default().with(&[(Axis::Transport, "peer")]).unwrap();
        ToEndpoint::Prepare(Box::new(Task {
            role: Role::Receiver,
            cell,
            connection: ConnectionSetup::Connect("192.0.2.7:80".to_owned()),
            keys: vec![FlowKey::default()],
            check: ContentCheck::Quick,
            min_messages: 0,
            timeout_ms: 0,
            here,
        }))
    }

    #[test]
    fn a_coordinator_of_another_build_is_left() {
        let mut coordinator = PlayedCoordinator::with_build("another");
        assert!(coordinator.next().is_none());
        coordinator.agent.join().unwrap().unwrap();
    }

    #[test]
    fn an_order_that_no_endpoint_here_gets_fails_by_its_number_and_the_agent_ends_with_the_pipe() {
        let build = program::own_build().unwrap();
        let mut coordinator = PlayedCoordinator::with_build(&build);
        let described = coordinator.next();
        assert!(matches!(described, Some(FromAgent::Description(_))));
        let path = LocalSettings {
            java: Some("/bin/sh".into()),
            ..LocalSettings::default()
        };
        coordinator.start(1, task(path));
        let of_path = coordinator.failure(1);
        assert!(of_path.contains("not for the other host"), "{of_path}");
        coordinator.start(2, task(LocalSettings::default()));
        let why = coordinator.failure(2);
        assert!(
            why.contains("none of the host that runs the study"),
            "{why}"
        );
        coordinator.start(3, ToEndpoint::Stop);
        assert!(coordinator.failure(3).contains("no order"));
        let nowhere = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 9));
        coordinator.send(&ToAgent::Listen { at: Some(nowhere) });
        assert!(matches!(coordinator.next(), Some(FromAgent::Refused(_))));
        drop(coordinator.stream);
        coordinator.agent.join().unwrap().unwrap();
    }

    /// An agent with a side of that role, whose number is 0, and an observer, whose number is 1; and the
    /// link by which they get their orders in place of their processes'.
    fn with_endpoints(side: Role) -> (Agent, Arc<LinkState>, mpsc::Receiver<ToAgent>) {
        let (link, orders) = LinkState::new("b");
        let started = |id, role| {
            let (endpoint, answers) = RemoteEndpoint::new(&link, Duration::ZERO).unwrap();
            let endpoint = Endpoint::remote(role, endpoint, answers).unwrap();
            Some(StartedEndpoint::without_cell(id, endpoint))
        };
        let (outgoing, _) = mpsc::sync_channel(MAX_QUEUED);
        let program = Program::own().unwrap();
        let agent = Agent {
            starter: EndpointStarter::new(program, Host::default(), &Survey::default()),
            addresses: KnownAddresses::new(),
            card_names: vec!["eth0".to_owned()],
            side: started(0, side),
            observer: started(1, Role::Observer),
            outgoing,
            is_unread: false,
        };
        (agent, link, orders)
    }

    /// The orders so far, each with the number of its endpoint.
    fn given(orders: &mpsc::Receiver<ToAgent>) -> Vec<(u64, ToEndpoint)> {
        let given = orders.try_iter().map(|message| match message {
            ToAgent::To { id, order, .. } => (id, *order),
            other => panic!("{other:?}"),
        });
        given.collect()
    }

    fn answer(agent: &mut Agent, link: &LinkState, answer: FromEndpoint) {
        let message = FromAgent::From {
            id: 0,
            now_ns: clock::monotonic_ns(),
            answer: Box::new(answer),
        };
        link.pass(message).unwrap();
        agent.pass_answer(0);
    }

    #[test]
    fn the_observer_opens_and_closes_its_window_with_its_side() {
        let (mut agent, link, orders) = with_endpoints(Role::Receiver);
        let window = Schedule::of_window(10..20);
        let warmup = Schedule {
            steady_by_ns: Some(5),
            ..window
        };
        agent.order(0, ToEndpoint::Go(warmup)).unwrap();
        assert_eq!(given(&orders), [(0, ToEndpoint::Go(warmup))]);
        agent.order(0, ToEndpoint::Go(window)).unwrap();
        let go = ToEndpoint::Go(window);
        assert_eq!(given(&orders), [(1, go.clone()), (0, go)]);
        answer(&mut agent, &link, FromEndpoint::Closed);
        assert_eq!(given(&orders), [(1, ToEndpoint::Close)]);
        agent.order(1, ToEndpoint::Stop).unwrap();
        assert_eq!(given(&orders), [(1, ToEndpoint::Stop)]);
    }

    #[test]
    fn the_observer_of_clients_has_the_window_that_they_find() {
        let (mut agent, link, orders) = with_endpoints(Role::Client);
        let begin = ToEndpoint::Go(Schedule::of_window(0..10));
        agent.order(0, begin.clone()).unwrap();
        assert_eq!(given(&orders), [(0, begin)]);
        answer(&mut agent, &link, FromEndpoint::Connected(0..u64::MAX / 4));
        let [(1, ToEndpoint::Go(found))] = given(&orders)[..] else {
            panic!("the observer has no window");
        };
        assert!(found.window_to_ns >= u64::MAX / 4);
    }

    #[test]
    fn an_observer_reads_the_trial_of_its_side_and_of_nothing_that_the_coordinator_names() {
        let (agent, ..) = with_endpoints(Role::Receiver);
        let named = ObservedTrial {
            number: 7,
            cards: vec!["eth9".to_owned()],
            ..ObservedTrial::default()
        };
        let observed = agent
            .side
            .as_ref()
            .unwrap()
            .observed(&named, &agent.card_names);
        assert_eq!(
            (observed.number, &*observed.cards),
            (7, &["eth0".to_owned()][..])
        );
    }

    #[test]
    fn orders_that_are_of_another_role_are_refused() {
        let (mut agent, _link, orders) = with_endpoints(Role::Receiver);
        let trial = || ToEndpoint::Trial(Box::default());
        for (id, order) in [
            (0, trial()),
            (0, ToEndpoint::Close),
            (1, ToEndpoint::Close),
            (1, ToEndpoint::Go(Schedule::of_window(0..1))),
        ] {
            assert!(agent.order(id, order.clone()).is_err(), "{id} {order:?}");
        }
        assert_eq!(given(&orders), []);
        agent.order(1, trial()).unwrap();
        assert_eq!(given(&orders).len(), 1);
        agent.end(0);
        agent.order(0, ToEndpoint::Stop).unwrap();
    }
}
