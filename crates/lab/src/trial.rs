//! A trial: two fresh processes, one window, and their results.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytecost_engine::Mover;
use bytecost_engine::java::START_PATIENCE;
use bytecost_meter::huge_memory;
use bytecost_spec::{Cell, Counter, Reading};
use bytecost_sys::proc_view;

use crate::background_process::{BackgroundLoad, BackgroundProcess};
use crate::endpoint_process::Endpoint;
use crate::host_window::HostWindow;
use crate::instruments::CoreToCore;
use crate::networks::PacketTaps;
use crate::protocol::{Role, Task};
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

/// Runs one trial of a cell; a watch, if there is one, collects evidence of it.
pub(crate) fn attempt(
    bed: &mut Testbed,
    cell: &Cell,
    window: Duration,
    mut watch: Option<&mut Watch>,
    stop: &AtomicBool,
) -> Result<TrialOutput, TrialError> {
    let previous_load = (bed.background.take()).filter(|_| !cell.neighbour.is_idle());
    let mover = Mover::named(&cell.mover).filter(|_| !cell.is_served());
    let has_peer = cell.is_served() || mover.is_some_and(|m| m.has_peer());
    let (pins, mut task) = bed.prepare(cell, mover, has_peer, stop)?;
    let mut context = TrialContext {
        cell,
        window,
        stop,
        settings: &bed.settings,
        standby: &mut bed.standby,
        instruments: &mut bed.instruments,
        core_to_core: bed.core_to_core.as_ref(),
        between: has_peer.then(|| bed.networks.between(cell)).transpose()?,
        link: Peer::link(bed.peer.as_ref(), cell),
    };
    if cell.is_served() {
        return served::attempt(context, task, pins.receiver, watch);
    }
    if let Some(watch) = &watch {
        task.here.probed = watch.caches(&bed.local.host, &task.here.pins);
    }
    // The control groups of `host` must outlive the processes in them, which are declared later.
    let mut host = HostWindow::new(cell, bed.local.control_groups(cell)?);
    task.here.cgroup_procs = host.procs_files();
    let times = WindowTimes::new(cell, window, bed.settings.warmup, task.timeout_ms);
    let is_own_file = task.here.file.as_ref().is_none_or(|file| file.own);
    let ready_ns = times.slowest_ns + times.timeout_ns + start_ns(&task, mover);
    let receiver = has_peer.then(|| side(&task, Role::Receiver, pins.receiver));
    let tasks = receiver.into_iter().chain([task]).collect();
    let (mut endpoints, mut processes) = context.ready(tasks, ready_ns)?;
    let packet_taps = PacketTaps::open(cell, &processes);
    let registers = mover.is_some_and(|m| m.locks_rings > 0);
    let huge_reading = endpoints.last().filter(|_| registers).and_then(huge_bytes);
    let background = BackgroundLoad::new(cell, pins.neighbour, &bed.local.host, times.most_ns())
        .map(|load| load.start(previous_load, &bed.settings.program, stop))
        .transpose()?;
    processes.background = background.as_ref().map(BackgroundProcess::pid);
    if let Some(watch) = &mut watch {
        watch.trial_begins(cell, &processes)?;
    }
    let conduct = if times.is_of_passes() {
        window::by_passes
    } else {
        window::by_clock
    };
    host.prepare(context.instruments, &processes);
    let mut control =
        TrialControl::new(&mut endpoints, watch.as_deref_mut(), stop, times.timeout_ns);
    let core_to_core = CoreToCore::before(context.core_to_core);
    let mut machine = conduct(&mut host, context.instruments, &mut control, times)?;
    machine.extend(core_to_core.after());
    // The next processes start while both sides put together their results.
    context.start_standby();
    let done = control.results()?;
    if let Some(watch) = watch {
        watch.trial_ended();
    }
    let neighbour = background.as_ref().map(|b| b.held.clone());
    bed.background = background.map_or(Ok(None), |background| background.trial_ended(stop))?;
    let mut output = TrialOutput::join(cell, mover, is_own_file, done, machine)?;
    output.sender.side.readings.extend(huge_reading);
    output.neighbour = neighbour.unwrap_or_default();
    output.packet_sockets = packet_taps.all();
    context.end(output, endpoints, &processes)
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

/// The reading of a process's memory in huge pages, which makes registered buffers cheaper.
fn huge_bytes(endpoint: &Endpoint) -> Option<(Counter, Reading)> {
    let bytes = huge_memory(&proc_view::directory(endpoint.local_pid()?)?)?;
    Some((Counter::HugeMemoryBytes, Reading::Measured(bytes)))
}
