//! A trial: two fresh processes, one window, and their results.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytecost_engine::Mover;
use bytecost_engine::java::START_PATIENCE;
use bytecost_plan::Pins;
use bytecost_spec::{Cell, Readings, Transport};

use crate::background_process::{BackgroundLoad, BackgroundProcess};
use crate::groups::ControlGroups;
use crate::protocol::{ObservedTrial, Role, Task, WantedEvidence};
use crate::testbed::{Peer, Testbed};
use crate::trial_error::TrialError;
use crate::trial_output::TrialOutput;
use crate::watch::Watch;
use crate::window::{self, TrialControl, WindowTimes};

mod context;
mod served;

use context::{TrialContext, side};

/// The longest calibration of a sender's cache probes.
const CALIBRATION_NS: u64 = 60_000_000_000;

/// Runs one trial of a cell; evidence of it is collected if there is a watch.
pub(crate) fn attempt(
    bed: &mut Testbed,
    cell: &Cell,
    window: Duration,
    watch: Option<&Watch>,
    stop: &AtomicBool,
) -> Result<TrialOutput, TrialError> {
    // Before the processes start, whose patience is shorter than the kernel may take.
    if let Some(watch) = watch {
        bed.open_instruments(watch, stop)?;
    }
    let previous_load = (bed.background.take()).filter(|_| !cell.neighbour.is_idle());
    let mover = Mover::named(&cell.mover).filter(|_| !cell.is_served());
    let has_peer = cell.is_served() || mover.is_some_and(|m| m.has_peer());
    let (pins, mut task) = bed.prepare(cell, mover, stop)?;
    let link = Peer::link(bed.peer.as_ref(), cell);
    let mut observed = observed_trial(bed, cell, has_peer, &pins);
    // There is no place for quotas in the evidence of a watched trial.
    observed.reports_quotas = watch.is_none();
    observed.evidence = watch.map_or_else(WantedEvidence::default, Watch::of_observer);
    let start_there = link.map(|link| || link.start(Role::Observer, Duration::ZERO));
    let (settings, host) = (&bed.settings, &bed.local.host);
    let mut observers = bed.observers.for_trial(settings, host, start_there)?;
    let mut context = TrialContext {
        cell,
        window,
        stop,
        settings: &bed.settings,
        standby: &mut bed.standby,
        between: has_peer.then(|| bed.networks.between(cell)).transpose()?,
        link,
    };
    if cell.is_served() {
        let trial = (observed, observers);
        return served::attempt(context, task, pins.receiver, trial, watch.is_some());
    }
    if let Some(watch) = watch {
        task.here.probed = watch.caches(&bed.local.host, &task.here.pins);
    }
    // The control groups must outlive the processes in them, which are declared later.
    let group = bed.local.control_groups(cell)?;
    task.here.cgroup_procs = (group.as_ref()).map_or_else(Vec::new, ControlGroups::procs_files);
    observed.throttling = group.as_ref().and_then(ControlGroups::throttling);
    let times = WindowTimes::new(cell, window, bed.settings.warmup, task.timeout_ms);
    let is_own_file = task.here.file.as_ref().is_none_or(|file| file.own);
    let ready_ns = times.slowest_ns + times.timeout_ns + start_ns(&task, mover);
    let receiver = has_peer.then(|| side(&task, Role::Receiver, pins.receiver));
    let tasks = receiver.into_iter().chain([task]).collect();
    let (mut endpoints, mut processes) = context.ready(tasks, ready_ns)?;
    let background = BackgroundLoad::new(cell, pins.neighbour, &bed.local.host, times.most_ns())
        .map(|load| load.start(previous_load, &bed.settings.program, stop))
        .transpose()?;
    processes.background = background.as_ref().map(BackgroundProcess::pid);
    observed.processes = processes;
    observers.prepare(observed, stop)?;
    let mut control = TrialControl::new(
        &mut endpoints,
        observers,
        watch.is_some(),
        stop,
        times.timeout_ns,
    );
    let mut machine = Readings::new();
    if times.is_of_passes() {
        window::by_passes(&mut control, times)?;
    } else {
        machine = window::by_clock(&mut control, times)?;
    }
    // The next processes start while both sides put together their results.
    context.start_standby();
    let results = control.results()?;
    machine.extend(results.hosts.here.machine.clone());
    let neighbour = background.as_ref().map(|b| b.held.clone());
    bed.background = background.map_or(Ok(None), |background| background.trial_ended(stop))?;
    let mut output = TrialOutput::join(cell, mover, is_own_file, results.sides, machine)?;
    output.neighbour = neighbour.unwrap_or_default();
    context.end(output, results.hosts, endpoints)
}

/// The trial for the observer of this host, without its processes.
fn observed_trial(bed: &Testbed, cell: &Cell, has_peer: bool, pins: &Pins) -> ObservedTrial {
    let are_both_here = has_peer && cell.transport != Transport::Peer;
    let cpus = are_both_here.then(|| pins.of_both_ends(&bed.local.host));
    let link = Peer::link(bed.peer.as_ref(), cell);
    ObservedTrial {
        cell: cell.clone(),
        cpu_pair: cpus.and_then(|cpus| cpus.try_into().ok()),
        cards: link.map_or_else(Vec::new, |link| link.own_card_names.clone()),
        ..ObservedTrial::default()
    }
}

/// The longest time in ns, in addition to that of a message, until a sender is ready: its helper starts,
/// or its cache probes are calibrated.
fn start_ns(task: &Task, mover: Option<&Mover>) -> u64 {
    if mover.is_some_and(|m| m.is_helped()) {
        START_PATIENCE.as_nanos() as u64
    } else if task.here.probed.is_empty() {
        0
    } else {
        CALIBRATION_NS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Program;
    use crate::protocol::ContentCheck;
    use crate::settings::Settings;
    use bytecost_spec::{Axis, Host};

    #[test]
    fn the_latency_between_two_cpus_is_read_where_the_ends_are_on_two_of_this_host() {
        let allowed = bytecost_sys::process::affinity().unwrap();
        let [first, second, ..] = allowed[..] else {
            return;
        };
        let mut bed = Testbed::new(Settings::of_single_trials(
            Program::own().unwrap(),
            ContentCheck::Quick,
        ));
        bed.local.host = Host {
            cpus_allowed: allowed,
            ..Host::default()
        };
        for (to, has_peer, pair) in [
            (second, true, Some([first, second])),
            (first, true, None),
            (second, false, None),
        ] {
            let mut cell = Cell::default();
            cell.set(Axis::Placement, &format!("{first}:{to}")).unwrap();
            let pins = Pins::new(&cell, has_peer, &bed.local.host).unwrap();
            let observed = observed_trial(&bed, &cell, has_peer, &pins);
            assert_eq!(observed.cpu_pair, pair, "{first}:{to}");
        }
    }
}
