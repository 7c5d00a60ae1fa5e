//! What a flow's thread and the thread that watches the clock tell each other.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use bytecost_meter::{KnownThreads, WithWorkers};

use crate::phase::{Gate, Phase, SharedGate};

/// How long a thread sleeps at most before it looks at the gate again. Wake-ups may be spurious;
/// the bound is for a wake-up that comes too early.
const LOOK: Duration = Duration::from_millis(1);

/// What a flow's thread tells the one that watches the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    /// It waits for the gate.
    Ready,
    /// Of passes: the warm-up is over. A sender waits for the window.
    Opening,
    /// Its window is over.
    Closed,
    /// It is over, well or not.
    Ended,
}

/// A flow's own end of both.
#[derive(Clone, Copy)]
pub(super) struct Turn<'a> {
    pub(super) gate: &'a SharedGate,
    pub(super) tell: &'a mpsc::Sender<Signal>,
    pub(super) threads: &'a KnownThreads,
}

impl<'a> Turn<'a> {
    /// The meter of a flow. The first one's reads the workers of the process as well.
    pub(super) fn metered<M>(self, flow: u32, meter: M) -> WithWorkers<'a, M> {
        match flow {
            0 => WithWorkers::new(meter, self.threads),
            _ => WithWorkers::none(meter),
        }
    }

    /// Says that it is ready, and waits until bytes may move.
    pub(super) fn ready(self) {
        self.say(Signal::Ready);
        self.wait(Phase::Warmup);
    }

    /// Says that the warm-up is over, and waits until the window opens.
    pub(super) fn opening(self) {
        self.warm();
        self.wait(Phase::Window);
    }

    pub(super) fn warm(self) {
        self.say(Signal::Opening);
    }

    pub(super) fn closed(self) {
        self.say(Signal::Closed);
    }

    /// Waits until all windows are over.
    pub(super) fn stop(self) {
        self.wait(Phase::Stop);
    }

    fn say(self, signal: Signal) {
        let _ = self.tell.send(signal);
    }

    fn wait(self, phase: Phase) {
        while self.gate.phase() < phase {
            thread::park_timeout(LOOK);
        }
    }
}
