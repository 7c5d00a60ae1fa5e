//! The phases of a trial, as the threads that move bytes see them.

use std::cell::Cell;
use std::sync::atomic::{AtomicU8, Ordering};

/// Where a trial stands. Phases only go forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Phase {
    /// Threads wait.
    Waiting = 0,
    /// Bytes move, nothing is measured.
    Warmup = 1,
    /// The measured window.
    Window = 2,
    /// Bytes still move, so that the other side's window ends under load as well.
    Cooldown = 3,
    /// Finish what is under way.
    Stop = 4,
}

/// Tells the phase. Asked once for every message, so it must cost next to nothing.
pub trait Gate {
    /// The phase now.
    fn phase(&self) -> Phase;
}

/// The gate of real trials: one thread moves it on by the clock, all others look.
#[derive(Debug, Default)]
pub struct SharedGate(AtomicU8);

impl SharedGate {
    /// Moves on.
    pub fn set(&self, phase: Phase) {
        self.0.store(phase as u8, Ordering::Release);
    }
}

impl Gate for SharedGate {
    #[inline]
    fn phase(&self) -> Phase {
        match self.0.load(Ordering::Relaxed) {
            0 => Phase::Waiting,
            1 => Phase::Warmup,
            2 => Phase::Window,
            3 => Phase::Cooldown,
            _ => Phase::Stop,
        }
    }
}

/// A gate that moves on after so many looks: for tests that must come out the same every time.
#[derive(Debug)]
pub struct CountingGate {
    looks: Cell<u64>,
    warmup: u64,
    window: u64,
}

impl CountingGate {
    /// `warmup` looks before the window, `window` looks within it.
    #[must_use]
    pub fn new(warmup: u64, window: u64) -> CountingGate {
        CountingGate {
            looks: Cell::new(0),
            warmup,
            window,
        }
    }
}

impl Gate for CountingGate {
    fn phase(&self) -> Phase {
        let n = self.looks.get();
        self.looks.set(n + 1);
        if n < self.warmup {
            Phase::Warmup
        } else if n < self.warmup + self.window {
            Phase::Window
        } else {
            Phase::Stop
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shared_gate_shows_what_was_set() {
        let gate = SharedGate::default();
        for phase in [
            Phase::Waiting,
            Phase::Warmup,
            Phase::Window,
            Phase::Cooldown,
            Phase::Stop,
        ] {
            gate.set(phase);
            assert_eq!(gate.phase(), phase);
        }
    }
}
