//! The phases of a trial, as the threads that move bytes see them.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use strum::FromRepr;

/// The phase of a trial. Phases only go forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, FromRepr)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Phase {
    /// Threads wait.
    Waiting = 0,
    /// Bytes move, nothing is measured.
    Warmup = 1,
    /// The measured window, in its first eighth.
    Window = 2,
    /// In its second eighth, and so on: see [`EIGHTHS`].
    Eighth2 = 3,
    Eighth3 = 4,
    Eighth4 = 5,
    Eighth5 = 6,
    Eighth6 = 7,
    Eighth7 = 8,
    Eighth8 = 9,
    /// Bytes still move, so that the other side's window ends under load as well.
    Cooldown = 10,
    /// Finish what is under way.
    Stop = 11,
}

/// The phases of a window that is stepped through, in their order.
pub const EIGHTHS: [Phase; 8] = {
    use Phase::{Eighth2, Eighth3, Eighth4, Eighth5, Eighth6, Eighth7, Eighth8, Window};
    [
        Window, Eighth2, Eighth3, Eighth4, Eighth5, Eighth6, Eighth7, Eighth8,
    ]
};

/// Source of the phase. It is asked once for every message, so that it must cost next to nothing.
pub trait Gate {
    /// The present phase.
    fn phase(&self) -> Phase;

    /// An eighth of the window in ns, for loops that read the clock anyway; 0 where it is unknown.
    fn eighth_ns(&self) -> u64 {
        0
    }
}

/// The gate of real trials: one thread sets it by the clock, all others read it.
#[derive(Debug, Default)]
pub struct SharedGate {
    phase: AtomicU8,
    eighth_ns: AtomicU64,
    stepped: AtomicBool,
}

impl SharedGate {
    /// Enters a phase.
    pub fn set(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Release);
    }

    /// Sets the length of an eighth of the window, before it opens.
    pub fn set_eighth_ns(&self, ns: u64) {
        self.eighth_ns.store(ns, Ordering::Release);
    }

    /// Asks for a window that is stepped through, before it opens. Each step wakes the thread that
    /// watches the clock, so loops that read the clock themselves do not ask for it.
    pub fn ask_for_steps(&self) {
        self.stepped.store(true, Ordering::Release);
    }

    /// Returns true if the window is to be stepped through.
    pub fn is_stepped(&self) -> bool {
        self.stepped.load(Ordering::Acquire)
    }
}

impl Gate for SharedGate {
    #[inline]
    fn phase(&self) -> Phase {
        Phase::from_repr(self.phase.load(Ordering::Relaxed)).unwrap_or(Phase::Stop)
    }

    fn eighth_ns(&self) -> u64 {
        self.eighth_ns.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shared_gate_shows_what_was_set() {
        let gate = SharedGate::default();
        let before = [Phase::Waiting, Phase::Warmup];
        let after = [Phase::Cooldown, Phase::Stop];
        let all = before.into_iter().chain(EIGHTHS).chain(after);
        for (n, phase) in all.enumerate() {
            gate.set(phase);
            assert_eq!(gate.phase(), phase);
            assert_eq!(phase as usize, n, "phases only go forward");
        }
    }
}
