//! This host's part of a task: CPUs, files, a Java program, counters.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytecost_engine::Mover;
use bytecost_engine::java::{self, Compiled, START_PATIENCE};
use bytecost_host::Roots;
use bytecost_plan::Pins;
use bytecost_spec::{Cell, Host, Survey};

use crate::file_task::FileTask;
use crate::files::Files;
use crate::groups::ControlGroups;
use crate::meters::AvailableCounters;
use crate::pinned_trial::PinnedTrial;
use crate::protocol::{LocalSettings, Role, Task};
use crate::trial_error::TrialError;

/// This host, with what trials on it need and keep.
#[derive(Default)]
pub(crate) struct LocalHost {
    /// The machine that placements are made exact on; without one only those that name CPUs can be.
    pub(crate) host: Host,
    pub(crate) files: Files,
    pub(crate) counters: AvailableCounters,
    /// The program of movers that have Java do their work: made for the first cell that needs it.
    pub(crate) compiled: Option<Arc<Compiled>>,
    /// True if each Java mover compiles its program itself: one that makes a single trial is ready sooner.
    pub(crate) starts_from_source: bool,
}

impl LocalHost {
    pub(crate) fn new(host: Host, survey: &Survey) -> LocalHost {
        LocalHost {
            host,
            counters: AvailableCounters::from_survey(survey),
            ..LocalHost::default()
        }
    }

    /// The settings of a sender that plays here: the file and the Java program that it needs are
    /// made.
    pub(crate) fn sender(
        &mut self,
        trial: PinnedTrial<'_>,
        mover: Option<&Mover>,
    ) -> io::Result<LocalSettings> {
        let is_helped = mover.is_some_and(|m| m.is_helped());
        if is_helped && self.compiled.is_none() && !self.starts_from_source {
            let compiled = Compiled::new(&java::find()?, START_PATIENCE)?;
            self.compiled = Some(Arc::new(compiled));
        }
        let java = self.compiled.as_ref().map(|compiled| compiled.path());
        Ok(LocalSettings {
            file: self.files.prepare(trial.cell)?,
            java: java.filter(|_| is_helped),
            ..self.settings(trial)
        })
    }

    /// The settings of the side with a sender's pins where the sender plays on the other host.
    pub(crate) fn without_sender(
        &self,
        trial: PinnedTrial<'_>,
        mover: Option<&Mover>,
    ) -> LocalSettings {
        let reads_a_file = mover.is_some_and(|m| m.route.reads_a_file());
        LocalSettings {
            file: reads_a_file.then(|| FileTask::elsewhere(true)),
            ..self.settings(trial)
        }
    }

    fn settings(&self, trial: PinnedTrial<'_>) -> LocalSettings {
        LocalSettings {
            pins: trial.pins.sender.clone(),
            meters: self.counters.meters(trial),
            ..LocalSettings::default()
        }
    }

    /// The control groups that a cell asks for; none where it asks for none.
    pub(crate) fn control_groups(&self, cell: &Cell) -> Result<Option<ControlGroups>, TrialError> {
        ControlGroups::make(&Roots::real(), &cell.cgroup, &self.host.cpus_allowed)
            .map_err(TrialError::failed)
    }

    /// A side's task from a coordinator on another host with the settings of this one, and its
    /// control groups, which are to outlive its process.
    pub(crate) fn task(
        &mut self,
        task: Task,
        window: Duration,
    ) -> Result<(Task, Option<ControlGroups>), TrialError> {
        // The background load is the coordinator's.
        let cell = Cell {
            neighbour: Cell::default().neighbour,
            ..task.cell.clone()
        };
        let pins = Pins::new(&cell, true, &self.host).map_err(TrialError::failed)?;
        let group = self.control_groups(&cell)?;
        let trial = PinnedTrial {
            cell: &cell,
            pins: &pins,
            window,
        };
        let mut here = match task.role {
            Role::Sender => self.sender(trial, Mover::named(&cell.mover))?,
            _ => self.settings(trial),
        };
        // A receiver opens no file, but knows by it what comes.
        here.file = here.file.or_else(|| task.here.file.clone());
        if !matches!(task.role, Role::Sender | Role::Server) {
            here.pins = pins.receiver;
        }
        if let Some(group) = group.as_ref().filter(|_| !cell.is_served()) {
            here.cgroup_procs = group.procs_files();
        }
        Ok((Task { here, ..task }, group))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow_key::FlowKey;
    use crate::protocol::{ConnectionSetup, ContentCheck};
    use bytecost_spec::Axis;

    const WINDOW: Duration = Duration::from_millis(10);

    fn host() -> LocalHost {
        LocalHost {
            host: Host {
                cpus_allowed: bytecost_sys::process::affinity().unwrap(),
                ..Host::default()
            },
            ..LocalHost::default()
        }
    }

    /// A task as it comes from a coordinator on another host.
    fn from_peer(role: Role, values: &[(Axis, &str)]) -> Task {
        let cell = Cell::default().with(values).unwrap();
        let sent = LocalSettings {
            file: Some(FileTask::elsewhere(true)),
            ..LocalSettings::default()
        };
        Task {
            role,
            keys: vec![FlowKey::default()],
            connection: ConnectionSetup::None,
            check: ContentCheck::Quick,
            min_messages: 0,
            timeout_ms: 0,
            here: sent.elsewhere(),
            cell,
        }
    }

    #[test]
    fn each_side_of_another_hosts_trial_has_the_cpus_of_its_role_here() {
        let mut host = host();
        let [first, second, ..] = host.host.cpus_allowed[..] else {
            return;
        };
        let placement = format!("{first}:{second}");
        for (role, cpu) in [(Role::Sender, first), (Role::Receiver, second)] {
            let task = from_peer(role, &[(Axis::Placement, &placement)]);
            let (task, groups) = host.task(task, WINDOW).unwrap();
            assert_eq!(task.here.pins, [[cpu]], "{role:?}");
            assert!(groups.is_none() && task.here.cgroup_procs.is_empty());
        }
        let elsewhere = from_peer(Role::Sender, &[(Axis::Placement, "999:0")]);
        let why = host.task(elsewhere, WINDOW).map(|_| ()).unwrap_err();
        assert!(why.to_string().contains("999"), "{why}");
    }

    #[test]
    fn a_sender_opens_a_file_of_this_host_and_a_receiver_only_knows_what_comes() {
        let mut host = host();
        let sends_file = [(Axis::Mover, "sendfile"), (Axis::Cache, "memory")];
        let mut file_of = |role, values| {
            let (task, _) = host.task(from_peer(role, values), WINDOW).unwrap();
            task.here.file.unwrap()
        };
        let sent = file_of(Role::Sender, &sends_file);
        assert!(sent.own && sent.path.exists(), "{sent:?}");
        let known = file_of(Role::Receiver, &sends_file);
        assert_eq!(known, FileTask::elsewhere(true));
    }

    #[test]
    fn the_background_load_of_another_host_needs_no_cpu_here() {
        let loaded = [(Axis::Background, "spin@999")];
        let task = from_peer(Role::Receiver, &loaded);
        host().task(task, WINDOW).unwrap();
    }
}
