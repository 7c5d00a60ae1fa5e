//! The control of a trial's gate, which enters phase after phase by the coordinator's orders and the
//! clock.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use bytecost_engine::Mover;
use bytecost_meter::{KnownThreads, ThreadMeter, WithWorkers, huge_memory};
use bytecost_spec::{Counter, Reading};
use bytecost_sys::{clock, proc_view};

use super::growth::Growth;
use crate::edges::WindowEnd;
use crate::passes::Passes;
use crate::phase::{EIGHTHS, Gate, Phase, SharedGate};
use crate::protocol::{self, ConnectionSetup, FromEndpoint, Role, Schedule, Task, ToEndpoint};

/// The time before the end of a window in which the control does not wake, in ns.
const UNDISTURBED_NS: u64 = 300_000_000;

/// The longest sleep of a thread between two looks at the gate, in case a wake-up comes too early.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

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

/// A flow of a task, with the gate and the control as its thread sees them.
#[derive(Clone, Copy)]
pub(super) struct FlowHandle<'a> {
    pub(super) task: &'a Task,
    pub(super) flow: u32,
    pub(super) gate: &'a SharedGate,
    pub(super) signals: &'a mpsc::Sender<Signal>,
    pub(super) threads: &'a KnownThreads,
}

impl<'a> FlowHandle<'a> {
    /// The longest time of a call without progress.
    pub(super) fn timeout(self) -> Duration {
        Duration::from_millis(self.task.timeout_ms)
    }

    /// A meter with that of the process's workers, which the first flow's reads as well.
    pub(super) fn metered<M>(self, meter: M) -> WithWorkers<'a, M> {
        match self.flow {
            0 => WithWorkers::new(meter, self.threads),
            _ => WithWorkers::without(meter),
        }
    }

    pub(super) fn thread_meter(self) -> ThreadMeter {
        self.task.here.meters.thread()
    }

    /// The end of its window, of which the control hears.
    pub(super) fn window_end(self) -> WindowEnd<impl FnOnce()> {
        WindowEnd {
            on_close: move || self.closed(),
            min_messages: self.task.min_messages,
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
            thread::park_timeout(POLL_INTERVAL);
        }
    }
}

/// The control of a task's gate, with the connection to the coordinator.
pub(super) struct GateControl<'a> {
    pub(super) task: &'a Task,
    pub(super) control: &'a mut UnixStream,
    pub(super) gate: &'a SharedGate,
    pub(super) signals: mpsc::Receiver<Signal>,
    /// The connections that may grow during the warm-up.
    pub(super) growth: Option<Growth>,
}

/// The results of the flows' threads, with the readings of their control.
pub(super) struct ControlledFlows<T> {
    pub(super) flows: Vec<T>,
    /// CPU time of the control within the window, in ns.
    pub(super) edges_ns: u64,
    /// The process's memory in huge pages before the window, where buffers are registered.
    pub(super) huge_memory: Option<(Counter, Reading)>,
}

/// The reading of this process's memory in huge pages, which makes registered buffers cheaper; none for a
/// task that registers none.
fn huge_bytes(task: &Task) -> Option<(Counter, Reading)> {
    let mover = Mover::named(&task.cell.mover).filter(|_| task.role == Role::Sender)?;
    let registers = mover.locks_rings > 0;
    let bytes = registers.then(|| huge_memory(&proc_view::own_directory()))?;
    Some((Counter::HugeMemoryBytes, Reading::Measured(bytes?)))
}

impl GateControl<'_> {
    /// Moves the gate to its end, and joins the threads.
    pub(super) fn run<T>(
        mut self,
        threads: Vec<ScopedJoinHandle<'_, io::Result<T>>>,
    ) -> io::Result<ControlledFlows<T>> {
        let mut huge_memory = None;
        let watched = self.advance(&threads, &mut huge_memory);
        self.enter(Phase::Stop, &threads);
        let panicked = |_| Err(io::Error::other("a thread panicked"));
        let ended: Vec<io::Result<T>> = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(panicked))
            .collect();
        let edges_ns = watched?;
        Ok(ControlledFlows {
            flows: ended.into_iter().collect::<io::Result<_>>()?,
            edges_ns,
            huge_memory,
        })
    }

    fn enter<T>(&self, phase: Phase, threads: &[ScopedJoinHandle<'_, T>]) {
        self.gate.set(phase);
        threads.iter().for_each(|t| t.thread().unpark());
    }

    /// Returns true once so many threads have sent a signal; false where another one comes.
    fn received(&self, count: usize, signal: Signal) -> bool {
        (0..count).all(|_| self.signals.recv() == Ok(signal))
    }

    /// Moves the gate through its phases. Returns early when a thread ended before its time; joining it
    /// gives the reason.
    fn advance<T>(
        &mut self,
        threads: &[ScopedJoinHandle<'_, T>],
        huge_memory: &mut Option<(Counter, Reading)>,
    ) -> io::Result<u64> {
        let (task, all) = (self.task, threads.len());
        if !self.received(all, Signal::Ready) {
            return Ok(0);
        }
        *huge_memory = huge_bytes(task);
        protocol::write(self.control, &FromEndpoint::Ready)?;
        let mut schedule = protocol::read_schedule(self.control)?;
        clock::sleep_until_ns(schedule.begin_ns);
        self.enter(Phase::Warmup, threads);
        let has_passes = Passes::new(&task.cell).is_some();
        let (mut closed, mut edges_ns) = (Some(0), 0);
        if !has_passes {
            let Some(with_window) = self.warmed_up(schedule)? else {
                return Ok(0);
            };
            schedule = with_window;
            clock::sleep_until_ns(schedule.window_from_ns);
            let from_ns = clock::thread_cpu_ns();
            closed = self.window(schedule);
            edges_ns = clock::thread_cpu_ns().saturating_sub(from_ns);
        } else if !self.received(all, Signal::Opening) {
            return Ok(0);
        } else {
            protocol::write(self.control, &FromEndpoint::Opening)?;
            // A receiver follows the connection.
            if task.role == Role::Sender {
                protocol::read_order(self.control, &ToEndpoint::Open)?;
                let window_ns = schedule.window_to_ns - schedule.window_from_ns;
                let until_ns = clock::monotonic_ns() + window_ns;
                self.enter(Phase::Window, threads);
                closed = self.slept(until_ns);
                self.gate.set(Phase::Cooldown);
            }
        }
        match closed {
            Some(early) if self.received(all - early, Signal::Closed) => {}
            _ => return Ok(0),
        }
        let is_alone = task.role == Role::Sender && task.connection == ConnectionSetup::None;
        if is_alone && task.cell.class.needs_watchdog() {
            // Nobody's window depends on theirs, and all others wait for their CPUs.
            self.gate.set(Phase::Stop);
        }
        protocol::write(self.control, &FromEndpoint::Closed)?;
        if task.role == Role::Receiver && !has_passes {
            // It ends with its connections.
            return Ok(edges_ns);
        }
        protocol::read_order(self.control, &ToEndpoint::Stop).map(|()| edges_ns)
    }

    /// The window's schedule, or one for when connections no longer grow; None if a thread ended early.
    fn warmed_up(&mut self, schedule: Schedule) -> io::Result<Option<Schedule>> {
        let Some(by_ns) = schedule.steady_by_ns else {
            return Ok(Some(schedule));
        };
        // Two slices have no growth in them before it ends, so that it is as long as was asked for.
        let slice_ns = ((schedule.window_from_ns - schedule.begin_ns) / 2).max(1);
        // As long as they are watched, no connection ends.
        let mut growth = self.growth.take();
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
            if self.signals.try_recv().is_ok() {
                return Ok(None);
            }
        }
        drop(growth);
        protocol::write(self.control, &FromEndpoint::Warm(steady))?;
        protocol::read_schedule(self.control).map(Some)
    }

    /// Opens and closes the window, in eighths where a flow asks for them. Returns the number of threads
    /// that closed theirs, or none where one ended early.
    fn window(&self, schedule: Schedule) -> Option<usize> {
        let (from_ns, to_ns) = (schedule.window_from_ns, schedule.window_to_ns);
        let eighth_ns = (to_ns - from_ns) / EIGHTHS.len() as u64;
        self.gate.set_eighth_ns(eighth_ns);
        self.gate.set(EIGHTHS[0]);
        let mut closed = 0;
        let steps = EIGHTHS.iter().zip(0..).skip(1);
        for (eighth, n) in steps.filter(|_| self.gate.is_stepped()) {
            closed += self.slept(from_ns + n * eighth_ns)?;
            self.gate.set(*eighth);
        }
        closed += self.slept(to_ns)?;
        self.gate.set(Phase::Cooldown);
        Some(closed)
    }

    /// Sleeps until then. Returns the number of threads that closed their windows meanwhile, or none where
    /// one ended before its time. A short sleep is not interrupted, since that would disturb the window.
    fn slept(&self, until_ns: u64) -> Option<usize> {
        let mut closed = 0;
        loop {
            let left_ns = until_ns.saturating_sub(clock::monotonic_ns());
            if left_ns <= UNDISTURBED_NS {
                clock::sleep_until_ns(until_ns);
                return Some(closed);
            }
            match (self.signals).recv_timeout(Duration::from_nanos(left_ns - UNDISTURBED_NS)) {
                Ok(Signal::Closed) => closed += 1,
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Ok(_) | Err(mpsc::RecvTimeoutError::Disconnected) => return None,
            }
        }
    }
}
