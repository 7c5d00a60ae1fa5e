//! Which scheduler classes and control groups can be had on this host, found by trying.

use std::thread;

use bytecost_host::{Roots, classes as host_classes};
use bytecost_spec::survey::IsolationSupport;
use bytecost_spec::{Cell, Cgroup, Class, Host};

use crate::classes;
use crate::endpoint_process::Endpoint;
use crate::groups::{self, ControlGroups};
use crate::limits;
use crate::program::Program;
use crate::protocol::Role;

/// Tries each class with each control group of these cells, by a thread and `program`'s endpoint.
pub fn survey<'c>(
    program: &Program,
    roots: &Roots,
    host: &Host,
    cells: impl IntoIterator<Item = &'c Cell>,
) -> Vec<IsolationSupport> {
    let mut found: Vec<IsolationSupport> = Vec::new();
    for cell in cells {
        let (class, cgroup) = (cell.class, &cell.cgroup);
        let usual = class == Class::default() && cgroup.is_none();
        if usual || (found.iter()).any(|f| f.class == class && f.cgroup == *cgroup) {
            continue;
        }
        let refused = class_tried(roots, class)
            .and_then(|()| group_tried(program, roots, host, class, cgroup));
        found.push(IsolationSupport {
            class,
            cgroup: cgroup.clone(),
            refused: refused.err(),
        });
    }
    found
}

fn class_tried(roots: &Roots, class: Class) -> Result<(), String> {
    if let Some(why) = host_classes::barred(roots, class) {
        return Err(format!("class {class}: {why}"));
    }
    let taken = thread::scope(|scope| {
        limits::start(scope, move || classes::take(class))?
            .join()
            .unwrap_or_else(|_| Err(std::io::Error::other("a thread panicked")))
    });
    taken.map_err(|e| e.to_string())
}

fn group_tried(
    program: &Program,
    roots: &Roots,
    host: &Host,
    class: Class,
    cgroup: &Cgroup,
) -> Result<(), String> {
    let refused = |why: String| format!("cgroup {cgroup}: {why}");
    let Some(group) = ControlGroups::make(roots, cgroup, &host.cpus_allowed).map_err(refused)?
    else {
        return Ok(());
    };
    if class.needs_watchdog() && group.bars_realtime() {
        return Err(format!(
            "class {class} with cgroup {cgroup}: real-time group scheduling: a new group has no budget (cpu.rt_runtime_us is 0): choose one of the two, or boot with rt_group_sched=0"
        ));
    }
    let end = Endpoint::start(program, Role::Sender, None).map_err(|e| refused(e.to_string()))?;
    let entered = groups::enter(&group.procs_files(), end.local_pid().unwrap_or(0));
    drop(end);
    entered.map_err(|e| refused(e.to_string()))
}
