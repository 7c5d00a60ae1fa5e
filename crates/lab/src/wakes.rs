//! The loop of wake-ups: a thread sleeps until a beat, and records how late it ran.
//!
//! It sleeps by clock_nanosleep(2) until an absolute time; its latency is the time then less the
//! time meant, as in cyclictest of rt-tests. But a beat that was over before the thread woke counts
//! too: cyclictest shows 50 ms off the CPU as one late wake-up, and not the 49 that were missed.

use std::io;

use bytecost_engine::{Move, Tally};
use bytecost_meter::Meter;
use bytecost_sys::clock;
use hdrhistogram::Histogram;

use crate::edges::{LoopBody, Sampling, Segments, WindowEnd, by_gate};
use crate::flow::histogram;
use crate::phase::Gate;

/// The loop body of wake-ups at the beats of a mover.
pub struct Wakes<'a> {
    mover: &'a mut dyn Move,
    beats: Beats,
}

/// The times at which a thread is to wake, and its lateness within the window.
#[derive(Clone, Debug)]
pub struct Beats {
    every_ns: u64,
    due_ns: u64,
    timed: bool,
    /// The lateness of the thread at each beat of the window, in ns.
    pub latency_ns: Histogram<u64>,
    /// Beats of the window that were over before the thread woke from an earlier one.
    pub missed: u64,
}

impl Beats {
    /// Beats at a distance of `every_ns`, the first of them that long after `now_ns`.
    fn new(every_ns: u64, now_ns: u64) -> Beats {
        Beats {
            every_ns: every_ns.max(1),
            due_ns: now_ns + every_ns.max(1),
            timed: false,
            latency_ns: histogram(),
            missed: 0,
        }
    }

    /// Records that the thread runs at `now_ns`, after the beat that it waited for and any that are over
    /// since.
    fn woke(&mut self, now_ns: u64) {
        self.note(now_ns.saturating_sub(self.due_ns));
        self.due_ns += self.every_ns;
        while self.due_ns <= now_ns {
            self.note(now_ns - self.due_ns);
            self.missed += u64::from(self.timed);
            self.due_ns += self.every_ns;
        }
    }

    #[inline]
    fn note(&mut self, late_ns: u64) {
        if self.timed {
            self.latency_ns.saturating_record(late_ns);
        }
    }
}

impl<'a> Wakes<'a> {
    /// A loop with so much time from one beat to the next, in ns.
    pub fn new(mover: &'a mut dyn Move, every_ns: u64) -> Wakes<'a> {
        let beats = Beats::new(every_ns, clock::monotonic_ns());
        Wakes { mover, beats }
    }

    /// Runs the loop until the gate's last phase.
    pub fn run<M: Meter>(
        &mut self,
        gate: &impl Gate,
        meter: &mut M,
        end: WindowEnd<impl FnOnce()>,
    ) -> io::Result<Segments<M::Snapshot>> {
        // The time in which the trial was made ready is no lateness.
        self.beats.due_ns = clock::monotonic_ns() + self.beats.every_ns;
        by_gate(self, gate, meter, end)
    }

    /// Its lateness, and the number of missed beats.
    pub fn into_beats(self) -> Beats {
        self.beats
    }
}

impl LoopBody for Wakes<'_> {
    // Its rate is given, and an edge would be a wake-up besides those that are measured.
    const SAMPLING: Sampling = Sampling::None;

    fn step(&mut self) -> io::Result<bool> {
        clock::sleep_until_ns(self.beats.due_ns);
        self.beats.woke(clock::monotonic_ns());
        self.mover.offer().map(|_| true)
    }

    fn tally(&self) -> Tally {
        self.mover.tally()
    }

    fn set_timed(&mut self, timed: bool) {
        self.beats.timed = timed;
    }

    /// After one beat at least, since a thread may be off its CPU for longer than the window is open.
    fn may_close(&self, opened: &Tally) -> bool {
        self.mover.tally().messages > opened.messages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// The recorded lateness of a thread that runs so late after its beats, in ns.
    fn beats_after(late_ns: impl Iterator<Item = u64>) -> Beats {
        let mut beats = Beats::new(MS, 7);
        beats.woke(beats.due_ns + 500);
        beats.timed = true;
        for late in late_ns {
            beats.woke(beats.due_ns + late);
        }
        beats
    }

    #[test]
    fn percentiles_are_those_of_the_lateness() {
        let beats = beats_after((1..=1000).map(|us| us * 999));
        assert_eq!((beats.latency_ns.len(), beats.missed), (1000, 0));
        for (quantile, us) in [(0.5, 500), (0.9, 900), (0.99, 990), (0.999, 999)] {
            let (got, expected) = (beats.latency_ns.value_at_quantile(quantile), us * 999);
            let apart = got.abs_diff(expected);
            assert!(apart <= expected / 500, "{quantile}: {got}, not {expected}");
        }
        assert!(beats.latency_ns.max().abs_diff(999_000) <= 1000);
    }

    #[test]
    fn a_beat_that_was_slept_through_counts_as_late_as_it_was() {
        let check = |late: &[u64], expected: &[u64], missed: u64| {
            let beats = beats_after(late.iter().copied());
            let got: Vec<u64> = (beats.latency_ns.iter_recorded())
                .flat_map(|v| vec![v.value_iterated_to() / MS; v.count_at_value() as usize])
                .collect();
            assert_eq!((got, beats.missed), (expected.to_vec(), missed), "{late:?}");
        };
        check(&[0, 0], &[0, 0], 0);
        check(&[MS * 9 / 10], &[0], 0);
        // On time for the next beat but for nothing: it is over.
        check(&[MS], &[0, 1], 1);
        check(&[4 * MS + MS / 2, MS / 2], &[0, 0, 1, 2, 3, 4], 4);
    }
}
