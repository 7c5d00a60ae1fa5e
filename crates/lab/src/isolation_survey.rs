//! Scheduler classes and control groups that trials can have here, found by trials of a side alone.

use bytecost_host::{Roots, scheduler_classes};
use bytecost_spec::survey::IsolationSupport;
use bytecost_spec::{Cell, Class, Host};

use crate::groups::ControlGroups;
use crate::local_host::LocalHost;
use crate::short_trials::{ShortTrials, Surveyor};

/// Tries each class with each control group of these cells.
pub fn survey<'c>(
    surveyor: &Surveyor<'_>,
    host: &Host,
    cells: impl IntoIterator<Item = &'c Cell>,
) -> Vec<IsolationSupport> {
    let mut trials = surveyor.series(LocalHost {
        host: host.clone(),
        ..LocalHost::default()
    });
    let mut found: Vec<IsolationSupport> = Vec::new();
    for cell in cells {
        let is_usual = cell.class == Class::default() && cell.cgroup.is_none();
        let is_same = |f: &IsolationSupport| f.class == cell.class && f.cgroup == cell.cgroup;
        if is_usual || found.iter().any(is_same) {
            continue;
        }
        found.push(IsolationSupport {
            class: cell.class,
            cgroup: cell.cgroup.clone(),
            refused: attempt(&mut trials, cell).err(),
        });
    }
    found
}

/// Makes a trial in the class and the control groups of a cell; else the reason why it is not possible.
fn attempt(trials: &mut ShortTrials<'_>, cell: &Cell) -> Result<(), String> {
    let (roots, class, cgroup) = (Roots::real(), cell.class, &cell.cgroup);
    if let Some(obstacle) = scheduler_classes::obstacle(&roots, class) {
        return Err(obstacle.to_string());
    }
    if class.needs_watchdog() {
        let group = ControlGroups::make(&roots, cgroup, &trials.bed.local.host.cpus_allowed)?;
        if group.as_ref().is_some_and(ControlGroups::bars_realtime) {
            return Err(format!(
                "class {class} with cgroup {cgroup}: real-time group scheduling: a new group has no budget (cpu.rt_runtime_us is 0): choose one of the two, or boot with rt_group_sched=0"
            ));
        }
    }
    trials.attempt(&Cell {
        class,
        cgroup: cgroup.clone(),
        mover: "null".to_owned(),
        ..Cell::default()
    })
}
