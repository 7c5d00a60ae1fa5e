//! The control of a trial's gate, which enters phase after phase by the coordinator's orders and the
//! clock.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use bytecost_meter::{KnownThreads, WithWorkers};
use bytecost_sys::clock;

use super::growth::Growth;
use crate::passes::Passes;
use crate::phase::{EIGHTHS, Gate, Phase, SharedGate};
use crate::protocol::{self, ConnectionSetup, FromEndpoint, Role, Schedule, Task, ToEndpoint};

/// The time before the end of a window in which the control does not wake, in ns.
const UNDISTURBED_NS: u64 = 300_000_000;

/// The longest sleep of a thread between two looks at the gate, in case a wake-up comes too early.
const LOOK: Duration = Duration::from_millis(1);

/// A message of a flow's thread to the control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    /// It waits for the gate.
    Ready,
    /// With passes: the warm-up is over. A sender waits for the window.
    Opening,
    Closed,
    /// It is over, well or not.
    Ended,
}

/// The gate and the control, as a flow's thread sees them.
#[derive(Clone, Copy)]
pub(super) struct FlowHandle<'a> {
    pub(super) gate: &'a SharedGate,
    pub(super) signals: &'a mpsc::Sender<Signal>,
    pub(super) threads: &'a KnownThreads,
}

impl<'a> FlowHandle<'a> {
    /// The meter of a flow. The first one's reads the workers of the process as well.
    pub(super) fn metered<M>(self, flow: u32, meter: M) -> WithWorkers<'a, M> {
        match flow {
            0 => WithWorkers::new(meter, self.threads),
            _ => WithWorkers::without(meter),
        }
    }

    pub(super) fn ready(self) {
        self.send(Signal::Ready);
        self.wait(Phase::Warmup);
    }

    pub(super) fn opening(self) {
        self.warm();
        self.wait(Phase::Window);
    }

    pub(super) fn warm(self) {
        self.send(Signal::Opening);
    }

    pub(super) fn closed(self) {
        self.send(Signal::Closed);
    }

    pub(super) fn stop(self) {
        self.wait(Phase::Stop);
    }

    fn send(self, signal: Signal) {
        let _ = self.signals.send(signal);
    }

    fn wait(self, phase: Phase) {
        while self.gate.phase() < phase {
            thread::park_timeout(LOOK);
        }
    }
}

/// Moves the gate to its end. Returns the results of the threads, and the CPU time of the control within
/// the window, in ns.
pub(super) fn run_phases<T>(
    control: &mut UnixStream,
    gate: &SharedGate,
    threads: Vec<ScopedJoinHandle<'_, io::Result<T>>>,
    signals: &mpsc::Receiver<Signal>,
    task: &Task,
    growth: Option<Growth>,
) -> io::Result<(Vec<T>, u64)> {
    let watched = advance(control, gate, &threads, signals, task, growth);
    gate.set(Phase::Stop);
    threads.iter().for_each(|t| t.thread().unpark());
    let panicked = |_| Err(io::Error::other("a thread panicked"));
    let ended: Vec<io::Result<T>> = threads
        .into_iter()
        .map(|thread| thread.join().unwrap_or_else(panicked))
        .collect();
    let edges_ns = watched?;
    Ok((ended.into_iter().collect::<io::Result<_>>()?, edges_ns))
}

/// Moves the gate through its phases. Returns early when a thread ended before its time; joining it gives
/// the reason.
fn advance<T>(
    control: &mut UnixStream,
    gate: &SharedGate,
    threads: &[ScopedJoinHandle<'_, T>],
    signals: &mpsc::Receiver<Signal>,
    task: &Task,
    growth: Option<Growth>,
) -> io::Result<u64> {
    let received = |count, signal| (0..count).all(|_| signals.recv() == Ok(signal));
    let all_send = |signal| received(threads.len(), signal);
    let enter_phase = |phase| {
        gate.set(phase);
        threads.iter().for_each(|t| t.thread().unpark());
    };
    if !all_send(Signal::Ready) {
        return Ok(0);
    }
    protocol::write(control, &FromEndpoint::Ready)?;
    let schedule = protocol::scheduled(control)?;
    clock::sleep_until_ns(schedule.begin_ns);
    enter_phase(Phase::Warmup);
    let passes = Passes::new(&task.cell);
    let (mut closed, mut edges_ns) = (Some(0), 0);
    match (passes, task.role) {
        (None, _) => {
            let Some(schedule) = warmed_up(control, signals, schedule, growth)? else {
                return Ok(0);
            };
            clock::sleep_until_ns(schedule.window_from_ns);
            let from_ns = clock::thread_cpu_ns();
            closed = window(gate, signals, schedule);
            edges_ns = clock::thread_cpu_ns().saturating_sub(from_ns);
        }
        (Some(_), role) => {
            if !all_send(Signal::Opening) {
                return Ok(0);
            }
            protocol::write(control, &FromEndpoint::Opening)?;
            // A receiver follows the connection.
            if role == Role::Sender {
                protocol::ordered(control, &ToEndpoint::Open)?;
                let window_ns = schedule.window_to_ns - schedule.window_from_ns;
                let until_ns = clock::monotonic_ns() + window_ns;
                enter_phase(Phase::Window);
                closed = slept(signals, until_ns);
                gate.set(Phase::Cooldown);
            }
        }
    }
    match closed {
        Some(early) if received(threads.len() - early, Signal::Closed) => {}
        _ => return Ok(0),
    }
    if task.role == Role::Sender
        && task.connection == ConnectionSetup::None
        && task.cell.class.needs_watchdog()
    {
        // Nobody's window depends on theirs, and all others wait for their CPUs.
        gate.set(Phase::Stop);
    }
    protocol::write(control, &FromEndpoint::Closed)?;
    if task.role == Role::Receiver && passes.is_none() {
        // It ends with its connections.
        return Ok(edges_ns);
    }
    protocol::ordered(control, &ToEndpoint::Stop).map(|()| edges_ns)
}

/// The window's schedule, or one for when connections no longer grow; None if a thread ended early.
fn warmed_up(
    control: &mut UnixStream,
    signals: &mpsc::Receiver<Signal>,
    schedule: Schedule,
    mut growth: Option<Growth>,
) -> io::Result<Option<Schedule>> {
    let Some(by_ns) = schedule.steady_by_ns else {
        return Ok(Some(schedule));
    };
    // Two slices have no growth in them before it ends, so that it is as long as was asked for.
    let slice_ns = ((schedule.window_from_ns - schedule.begin_ns) / 2).max(1);
    let mut steady = growth.is_none();
    if steady {
        clock::sleep_until_ns(schedule.window_from_ns);
    }
    while let (Some(growth), false) = (&mut growth, steady) {
        steady = growth.has_stopped();
        let now_ns = clock::monotonic_ns();
        if steady || now_ns >= by_ns {
            break;
        }
        clock::sleep_until_ns((now_ns + slice_ns).min(by_ns));
        if signals.try_recv().is_ok() {
            return Ok(None);
        }
    }
    drop(growth);
    protocol::write(control, &FromEndpoint::Warm(steady))?;
    protocol::scheduled(control).map(Some)
}

/// Opens and closes the window, in eighths where a flow asks for them. Returns the number of threads that
/// closed theirs, or none where one ended early.
fn window(
    gate: &SharedGate,
    signals: &mpsc::Receiver<Signal>,
    schedule: Schedule,
) -> Option<usize> {
    let (from_ns, to_ns) = (schedule.window_from_ns, schedule.window_to_ns);
    let eighth_ns = (to_ns - from_ns) / EIGHTHS.len() as u64;
    gate.set_eighth_ns(eighth_ns);
    gate.set(EIGHTHS[0]);
    let mut closed = 0;
    let steps = EIGHTHS.iter().zip(0..).skip(1);
    for (eighth, n) in steps.filter(|_| gate.is_stepped()) {
        closed += slept(signals, from_ns + n * eighth_ns)?;
        gate.set(*eighth);
    }
    closed += slept(signals, to_ns)?;
    gate.set(Phase::Cooldown);
    Some(closed)
}

/// Sleeps until then. Returns the number of threads that closed their windows meanwhile, or none where one
/// ended before its time. A short sleep is not interrupted, since that would background the window.
fn slept(signals: &mpsc::Receiver<Signal>, until_ns: u64) -> Option<usize> {
    let mut closed = 0;
    loop {
        let left_ns = until_ns.saturating_sub(clock::monotonic_ns());
        if left_ns <= UNDISTURBED_NS {
            clock::sleep_until_ns(until_ns);
            return Some(closed);
        }
        match signals.recv_timeout(Duration::from_nanos(left_ns - UNDISTURBED_NS)) {
            Ok(Signal::Closed) => closed += 1,
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Ok(_) | Err(mpsc::RecvTimeoutError::Disconnected) => return None,
        }
    }
}
