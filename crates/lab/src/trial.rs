//! A trial: two fresh processes, one window, and their results.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytecost_engine::Mover;
use bytecost_engine::java::START_PATIENCE;
use bytecost_meter::huge_memory;
use bytecost_spec::{Cell, Counter, Reading};
use bytecost_sys::proc_view;

use crate::background_process::BackgroundProcess;
use crate::endpoint_process::{Endpoint, all_ended};
use crate::host_window::HostWindow;
use crate::instruments::CoreToCore;
use crate::networks::{NetworkPath, PacketTaps};
use crate::obstacles;
use crate::passes::Passes;
use crate::protocol::Task;
use crate::testbed::{Peer, Testbed};
use crate::trial_error::TrialError;
use crate::trial_output::TrialOutput;
use crate::warmup::may_grow;
use crate::watch::Watch;
use crate::window::{self, TrialControl, WindowTimes};

mod served;
mod sides;

use sides::Sides;

/// The longest calibration of a sender's cache probes.
const CALIBRATION_NS: u64 = 60_000_000_000;

/// Makes one trial, which is watched for evidence where there is a watch.
pub(crate) fn attempt(
    bed: &mut Testbed,
    cell: &Cell,
    window: Duration,
    mut watch: Option<&mut Watch>,
    stop: &AtomicBool,
) -> Result<TrialOutput, TrialError> {
    let former = (bed.background.take()).filter(|_| !cell.neighbour.is_idle());
    if cell.is_served() {
        return served::attempt(bed, cell, window, watch, stop);
    }
    let mover = Mover::named(&cell.mover);
    let has_peer = mover.is_some_and(|m| m.has_peer());
    let (pins, mut task) = bed.prepare(cell, mover, has_peer, stop)?;
    if let Some(watch) = &watch {
        task.here.probed = watch.caches(&bed.local.host, &task.here.pins);
    }
    // It has control groups, and is dropped after the processes in them.
    let mut host = HostWindow::new(cell, bed.local.control_groups(cell)?);
    task.here.cgroup_procs = host.procs_files();
    let between = if has_peer {
        bed.networks.between(cell)?
    } else {
        NetworkPath::Nothing
    };
    let passes = Passes::new(cell);
    let span = WindowTimes {
        warmup: bed.settings.warmup,
        until_steady: may_grow(cell),
        window,
        slowest_ns: passes.map_or(0, |p| p.most_ns(cell.threads)),
        warmup_passes: passes.map_or(0, |p| p.warmup),
        timeout_ns: task.timeout_ms * 1_000_000,
    };
    let is_own_file = task.here.file.as_ref().is_none_or(|file| file.own);
    let ready_ns = span.slowest_ns + span.timeout_ns + start_ns(&task, mover);
    let link = Peer::link(bed.peer.as_ref(), cell);
    let mut sides = Sides {
        settings: &bed.settings,
        standby: &mut bed.standby,
        between,
        link,
        window,
    };
    let (mut ends, listens) =
        sides.ready(task, has_peer.then_some(pins.receiver), ready_ns, stop)?;
    let mut processes = Endpoint::processes(&ends);
    let packet_taps = PacketTaps::open(cell, &processes);
    let registers = mover.is_some_and(|m| m.locks_rings > 0);
    let huge = ends.last().filter(|_| registers).and_then(huge_bytes);
    let (program, most_ns) = (&bed.settings.program, span.most_ns());
    let cpus = pins.neighbour;
    let background =
        BackgroundProcess::beside(former, program, cell, cpus, &bed.local.host, most_ns, stop)?;
    processes.background = background.as_ref().map(BackgroundProcess::pid);
    if let Some(watch) = &mut watch {
        watch.trial_begins(cell, &processes, listens)?;
    }
    let conduct = match passes {
        Some(_) => window::by_passes,
        None => window::by_clock,
    };
    host.prepare(&mut bed.instruments, &processes);
    let mut control = TrialControl::new(&mut ends, watch.as_deref_mut(), stop, span.timeout_ns);
    let core_to_core = CoreToCore::before(bed.core_to_core.as_ref());
    let mut machine = conduct(&mut host, &mut bed.instruments, &mut control, span)?;
    machine.extend(core_to_core.after());
    // While both sides put together their results.
    bed.standby.start(program);
    let done = control.results()?;
    if let Some(watch) = watch {
        watch.trial_ended();
    }
    let neighbour = background.as_ref().map(|b| b.held.clone());
    bed.background = background.map_or(Ok(None), |background| background.trial_ended(stop))?;
    let mut output = TrialOutput::join(cell, mover, is_own_file, done, machine)?;
    output.sender.side.readings.extend(huge);
    let peer = Endpoint::take_peer_readings(&ends);
    output.peer_machine = peer.machine;
    output.neighbour = neighbour.unwrap_or_default();
    output.packet_sockets = packet_taps.all();
    let between = has_peer.then_some(between);
    let on_cards = link.map_or_else(Vec::new, |link| link.circumstances(peer.obstacles));
    output.obstacles = obstacles::of_trial(cell, between, on_cards, &processes);
    all_ended(ends, stop)?;
    Ok(output)
}

/// The longest start of a sender's helper or calibration, beside its longest message.
fn start_ns(task: &Task, mover: Option<&Mover>) -> u64 {
    if mover.is_some_and(|m| m.is_helped()) {
        START_PATIENCE.as_nanos() as u64
    } else if task.here.probed.is_empty() {
        0
    } else {
        CALIBRATION_NS
    }
}

/// Huge pages of memory that is registered with the kernel, whose size decides its cost.
fn huge_bytes(end: &Endpoint) -> Option<(Counter, Reading)> {
    let bytes = huge_memory(&proc_view::directory(end.local_pid()?)?)?;
    Some((Counter::HugeMemoryBytes, Reading::Measured(bytes)))
}
