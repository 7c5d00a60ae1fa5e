//! The start of a trial's sides: each on its host, one listens, the other connects.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytecost_sys::clock;

use crate::endpoint_process::{Endpoint, GRACE_NS, StandbyEndpoints, unexpected, wait};
use crate::networks::NetworkPath;
use crate::peer::PeerLink;
use crate::protocol::{ConnectionSetup, FromEndpoint, Role, Task, ToEndpoint};
use crate::settings::Settings;
use crate::trial_error::TrialError;
use crate::watch::Listens;

/// The places of a trial's sides, and the network between them.
pub(super) struct Sides<'l> {
    pub(super) settings: &'l Settings,
    pub(super) standby: &'l mut StandbyEndpoints,
    pub(super) between: NetworkPath<'l>,
    /// The other host, for a cell that has one side there.
    pub(super) link: Option<&'l PeerLink>,
    /// The length of the window.
    pub(super) window: Duration,
}

impl Sides<'_> {
    pub(super) fn start(&mut self, role: Role) -> Result<Endpoint, TrialError> {
        let (program, network) = (&self.settings.program, self.between.network(role));
        Ok(match self.link.filter(|link| link.plays(role)) {
            Some(link) => link.start(role, self.window)?,
            None => self.standby.take(program, role, network)?,
        })
    }

    /// The connection of a side to the other one, which reports that it listens at that address.
    pub(super) fn connects(
        &self,
        role: Role,
        address: &str,
    ) -> Result<ConnectionSetup, TrialError> {
        Ok(ConnectionSetup::Connect(match self.link {
            Some(link) => link.reached(role, address)?,
            None => address.to_owned(),
        }))
    }

    /// Starts the processes of a trial and has them get ready: the receiver's first, where there is one
    /// with these pins. Returns them, and the side that listens with its address.
    pub(super) fn ready(
        &mut self,
        task: Task,
        receiver: Option<Vec<Vec<u32>>>,
        ready_ns: u64,
        stop: &AtomicBool,
    ) -> Result<(Vec<Endpoint>, Option<Listens>), TrialError> {
        let mut ends = Vec::with_capacity(2);
        let mut listens = None;
        let mut tasks = vec![task];
        if let Some(pins) = receiver {
            let mut receiver = Task {
                role: Role::Receiver,
                ..tasks[0].clone()
            };
            receiver.here.pins = pins;
            tasks.push(receiver);
            // The side that listens is started first, from the end of the list.
            if (self.link).is_some_and(|link| link.side_listens() == Role::Sender) {
                tasks.reverse();
            }
            if let Some(task) = tasks.pop() {
                listens = Some((task.role, self.listening(&mut ends, task, stop)?.0));
            }
        }
        for task in tasks {
            let role = task.role;
            let mut end = self.start(role)?;
            let connection = match &listens {
                Some((_, address)) => self.connects(role, address)?,
                None => ConnectionSetup::None,
            };
            end.order(&ToEndpoint::Prepare(Box::new(Task { connection, ..task })))?;
            let place = match role {
                Role::Receiver => 0,
                _ => ends.len(),
            };
            ends.insert(place, end);
        }
        for _ in 0..ends.len() {
            one_ready(&mut ends, ready_ns, stop)?;
        }
        Ok((ends, listens))
    }

    /// Starts the side that listens. Returns its address, and the process of a server.
    pub(super) fn listening(
        &mut self,
        ends: &mut Vec<Endpoint>,
        task: Task,
        stop: &AtomicBool,
    ) -> Result<(String, Option<u32>), TrialError> {
        let mut end = self.start(task.role)?;
        let port = self.settings.port;
        let connection = match self.link {
            Some(link) => link.listens(task.role, port),
            None => ConnectionSetup::Listen {
                at: None,
                port,
                from: None,
            },
        };
        end.order(&ToEndpoint::Prepare(Box::new(Task { connection, ..task })))?;
        if let Some(wire) = self.between.wire() {
            end.hand_over(wire.descriptors())?;
        }
        ends.push(end);
        match wait(ends, clock::monotonic_ns() + GRACE_NS, stop)? {
            (_, FromEndpoint::Listening { address, process }) => Ok((address, process)),
            (_, other) => Err(unexpected("endpoint", &other)),
        }
    }
}

/// Waits until one more of the ends is ready, for `longer_ns` more than usual.
pub(super) fn one_ready(
    ends: &mut [Endpoint],
    longer_ns: u64,
    stop: &AtomicBool,
) -> Result<(), TrialError> {
    match wait(ends, clock::monotonic_ns() + GRACE_NS + longer_ns, stop)? {
        (_, FromEndpoint::Ready) => Ok(()),
        (_, other) => Err(unexpected("endpoint", &other)),
    }
}
