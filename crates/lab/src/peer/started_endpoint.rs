//! Endpoints that the agent starts: the side of a trial that plays on its host, and the observer.

use std::slice;
use std::time::Duration;

use bytecost_spec::{Cell, Host, Survey};

use crate::endpoint_process::{Endpoint, StandbyEndpoints};
use crate::groups::ControlGroups;
use crate::local_host::LocalHost;
use crate::program::Program;
use crate::protocol::{ObservedTrial, ObserverTask, Role, Schedule, Task, ToEndpoint};
use crate::trial_error::TrialError;

/// An endpoint that was started here, with its number on the channel.
pub(super) struct StartedEndpoint {
    pub(super) id: u64,
    pub(super) endpoint: Endpoint,
    /// The cell of a side.
    cell: Cell,
    /// The control groups of a side, which are removed after its process.
    groups: Option<ControlGroups>,
}

impl StartedEndpoint {
    pub(super) fn without_cell(id: u64, endpoint: Endpoint) -> StartedEndpoint {
        StartedEndpoint {
            id,
            endpoint,
            cell: Cell::default(),
            groups: None,
        }
    }

    /// Returns true if a schedule of a side has its window: another one follows where connections may grow,
    /// and the clients of a server find theirs themselves.
    pub(super) fn has_window(&self, schedule: &Schedule) -> bool {
        schedule.steady_by_ns.is_none() && self.endpoint.role() != Role::Client
    }

    /// The trial of a side for the observer of this host.
    pub(super) fn observed(&self, trial: &ObservedTrial, card_names: &[String]) -> ObservedTrial {
        ObservedTrial {
            cell: self.cell.clone(),
            processes: Endpoint::processes(slice::from_ref(&self.endpoint)),
            throttling: self.groups.as_ref().and_then(ControlGroups::throttling),
            cards: card_names.to_vec(),
            ..trial.elsewhere()
        }
    }
}

/// The means of starting endpoints on this host.
pub(super) struct EndpointStarter {
    program: Program,
    local: LocalHost,
    standby: StandbyEndpoints,
}

impl EndpointStarter {
    pub(super) fn new(program: Program, host: Host, survey: &Survey) -> EndpointStarter {
        EndpointStarter {
            program,
            local: LocalHost::new(host, survey),
            standby: StandbyEndpoints::default(),
        }
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        self.local.host.memory_bytes
    }

    /// Starts a side with its task, what depends on this host filled in.
    pub(super) fn side(
        &mut self,
        id: u64,
        task: Task,
        window: Duration,
    ) -> Result<StartedEndpoint, TrialError> {
        let (task, groups) = self.local.task(task, window)?;
        let mut side = StartedEndpoint {
            id,
            endpoint: self.standby.take(&self.program, task.role, None)?,
            cell: task.cell.clone(),
            groups,
        };
        let order = ToEndpoint::Prepare(Box::new(task));
        side.endpoint.order(&order)?;
        Ok(side)
    }

    /// Starts the observer of this host.
    pub(super) fn observer(&self, id: u64) -> Result<StartedEndpoint, TrialError> {
        let mut endpoint = Endpoint::start(&self.program, Role::Observer, None)?;
        let cpus = self.local.host.cpus.iter().map(|c| c.cpu).collect();
        endpoint.order(&ToEndpoint::Observe(ObserverTask { cpus }))?;
        Ok(StartedEndpoint::without_cell(id, endpoint))
    }

    /// Starts the process of the next trial's side, while no window is open.
    pub(super) fn start_standby(&mut self) {
        self.standby.wanted = 1;
        self.standby.start(&self.program);
    }
}
