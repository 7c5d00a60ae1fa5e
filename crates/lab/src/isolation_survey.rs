//! Scheduler classes and control groups that trials can have here, found by a side that gets ready.

use bytecost_host::{Roots, scheduler_classes};
use bytecost_spec::survey::IsolationSupport;
use bytecost_spec::{Cell, Class, Host};

use crate::endpoint_process::{Endpoint, TIMEOUT, unexpected};
use crate::flow_key::FlowKey;
use crate::groups::ControlGroups;
use crate::program::Program;
use crate::protocol::{
    ConnectionSetup, ContentCheck, FromEndpoint, LocalSettings, Role, Task, ToEndpoint,
};

/// Tries each class with each control group of these cells, by an endpoint that `program` plays.
pub fn survey<'c>(
    program: &Program,
    roots: &Roots,
    host: &Host,
    cells: impl IntoIterator<Item = &'c Cell>,
) -> Vec<IsolationSupport> {
    let mut found: Vec<IsolationSupport> = Vec::new();
    for cell in cells {
        let is_usual = cell.class == Class::default() && cell.cgroup.is_none();
        let is_same = |f: &IsolationSupport| f.class == cell.class && f.cgroup == cell.cgroup;
        if is_usual || found.iter().any(is_same) {
            continue;
        }
        let ready = get_ready(program, roots, host, cell);
        found.push(IsolationSupport {
            class: cell.class,
            cgroup: cell.cgroup.clone(),
            refused: ready.err(),
        });
    }
    found
}

/// Has the only side of a trial get ready in the class and the control groups of a cell; else the
/// reason why it cannot.
fn get_ready(program: &Program, roots: &Roots, host: &Host, cell: &Cell) -> Result<(), String> {
    let (class, cgroup) = (cell.class, &cell.cgroup);
    if let Some(obstacle) = scheduler_classes::obstacle(roots, class) {
        return Err(obstacle.to_string());
    }
    // Dropped after the process in it.
    let group = ControlGroups::make(roots, cgroup, &host.cpus_allowed)?;
    let bars_realtime = group.as_ref().is_some_and(ControlGroups::bars_realtime);
    if class.needs_watchdog() && bars_realtime {
        return Err(format!(
            "class {class} with cgroup {cgroup}: real-time group scheduling: a new group has no budget (cpu.rt_runtime_us is 0): choose one of the two, or boot with rt_group_sched=0"
        ));
    }
    let task = Task {
        role: Role::Sender,
        cell: Cell {
            class,
            cgroup: cgroup.clone(),
            mover: "null".to_owned(),
            ..Cell::default()
        },
        connection: ConnectionSetup::None,
        keys: vec![FlowKey::default()],
        check: ContentCheck::Quick,
        min_messages: 0,
        timeout_ms: TIMEOUT.as_millis() as u64,
        here: LocalSettings {
            cgroup_procs: group
                .as_ref()
                .map_or_else(Vec::new, ControlGroups::procs_files),
            ..LocalSettings::default()
        },
    };
    let mut endpoint = Endpoint::start(program, Role::Sender, None).map_err(|e| e.to_string())?;
    let answer = endpoint
        .order(&ToEndpoint::Prepare(Box::new(task)))
        .and_then(|()| endpoint.message_within(TIMEOUT));
    match answer.map_err(|e| e.to_string())? {
        FromEndpoint::Ready => Ok(()),
        FromEndpoint::Failed(failure) => Err(failure.reason),
        other => Err(unexpected("endpoint", &other).to_string()),
    }
}
