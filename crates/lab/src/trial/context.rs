//! The means of one trial, by which its sides are started, get ready, and end.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytecost_spec::Cell;
use bytecost_sys::clock;

use crate::endpoint_process::{Endpoint, GRACE_NS, StandbyEndpoints, all_ended, unexpected, wait};
use crate::networks::NetworkPath;
use crate::peer::PeerLink;
use crate::protocol::{ConnectionSetup, FromEndpoint, Role, Task, ToEndpoint};
use crate::settings::Settings;
use crate::trial_error::TrialError;
use crate::trial_output::{ReadingsOfHosts, TrialOutput};
use crate::trial_processes::{ListeningSide, TrialProcesses};

/// The task of another side of a trial, held to these CPUs.
pub(super) fn side(task: &Task, role: Role, pins: Vec<Vec<u32>>) -> Task {
    let mut side = Task {
        role,
        ..task.clone()
    };
    side.here.pins = pins;
    side
}

/// The cell of a trial, and what the trial uses of its testbed.
pub(super) struct TrialContext<'t> {
    pub(super) cell: &'t Cell,
    pub(super) window: Duration,
    pub(super) stop: &'t AtomicBool,
    pub(super) settings: &'t Settings,
    pub(super) standby: &'t mut StandbyEndpoints,
    /// The network between the sides; none for a side without another.
    pub(super) between: Option<NetworkPath<'t>>,
    /// The other host, for a cell that has one side there.
    pub(super) link: Option<&'t PeerLink>,
}

impl TrialContext<'_> {
    /// Starts the processes of these tasks and has them get ready, for `longer_ns` more than usual. Of
    /// two, the first one's side receives or serves; the one that listens is started before the other.
    pub(super) fn ready(
        &mut self,
        mut tasks: Vec<Task>,
        longer_ns: u64,
    ) -> Result<(Vec<Endpoint>, TrialProcesses), TrialError> {
        let listens_first = match self.link {
            Some(link) if !self.cell.is_served() => link.sides.listening() == Role::Receiver,
            _ => true,
        };
        if !listens_first {
            tasks.reverse();
        }
        let is_pair = tasks.len() > 1;
        let mut endpoints: Vec<Endpoint> = Vec::with_capacity(tasks.len());
        let mut listening = None;
        for task in tasks {
            let (role, listens) = (task.role, is_pair && listening.is_none());
            let connection = match &listening {
                Some(side) => self.connects(role, side)?,
                None if is_pair => self.listens(role),
                None => ConnectionSetup::None,
            };
            let mut endpoint = self.start(role)?;
            endpoint.order(&ToEndpoint::Prepare(Box::new(Task { connection, ..task })))?;
            if let Some(wire) = self.between.and_then(NetworkPath::wire).filter(|_| listens) {
                endpoint.send_descriptors(wire.descriptors())?;
            }
            let receives = matches!(role, Role::Receiver | Role::Server);
            endpoints.insert(if receives { 0 } else { endpoints.len() }, endpoint);
            if listens {
                listening = Some(self.listening(&mut endpoints, role)?);
            }
        }
        for _ in 0..endpoints.len() {
            match wait(
                &mut endpoints,
                clock::monotonic_ns() + GRACE_NS + longer_ns,
                self.stop,
            )? {
                (_, FromEndpoint::Ready) => {}
                (_, other) => return Err(unexpected("endpoint", &other)),
            }
        }
        let processes = TrialProcesses {
            listening,
            ..Endpoint::processes(&endpoints)
        };
        Ok((endpoints, processes))
    }

    fn start(&mut self, role: Role) -> Result<Endpoint, TrialError> {
        let network = self.between.and_then(|between| between.network(role));
        Ok(match self.link.filter(|link| link.sides.is_there(role)) {
            Some(link) => link.start(role, self.window)?,
            None => self.standby.take(&self.settings.program, role, network)?,
        })
    }

    fn listens(&self, role: Role) -> ConnectionSetup {
        let port = self.settings.port;
        let here = ConnectionSetup::Listen {
            at: None,
            port,
            from: None,
        };
        self.link.map_or(here, |link| link.sides.listen(role, port))
    }

    fn connects(&self, role: Role, to: &ListeningSide) -> Result<ConnectionSetup, TrialError> {
        Ok(ConnectionSetup::Connect(match self.link {
            Some(link) => link.sides.reach(role, &to.address)?,
            None => to.address.clone(),
        }))
    }

    /// Waits until the only end so far listens.
    fn listening(
        &self,
        endpoints: &mut [Endpoint],
        role: Role,
    ) -> Result<ListeningSide, TrialError> {
        match wait(endpoints, clock::monotonic_ns() + GRACE_NS, self.stop)? {
            (_, FromEndpoint::Listening { address, process }) => Ok(ListeningSide {
                role,
                address,
                server: process,
            }),
            (_, other) => Err(unexpected("endpoint", &other)),
        }
    }

    /// Starts processes of the next trial, while no window is open.
    pub(super) fn start_standby(&mut self) {
        self.standby.start(&self.settings.program);
    }

    /// Adds the readings of the other host, and the circumstances on both, to the results of a trial, whose
    /// processes end.
    pub(super) fn end(
        &mut self,
        mut output: TrialOutput,
        hosts: ReadingsOfHosts,
        endpoints: Vec<Endpoint>,
    ) -> Result<TrialOutput, TrialError> {
        let ReadingsOfHosts { here, there } = hosts;
        output.peer_machine.extend(there.machine);
        output.evidence = here.evidence;
        output.packet_sockets = [here.packet_sockets, there.packet_sockets].concat();
        let named = |link: &PeerLink| link.circumstances(there.obstacles);
        let on_other = self.link.map_or_else(Vec::new, named);
        output.obstacles = [here.obstacles, on_other].concat();
        if self.settings.keeps_processes(self.cell) {
            self.standby.keep(endpoints);
        } else {
            all_ended(endpoints, self.stop)?;
        }
        Ok(output)
    }
}
