//! The cost of hardware counters for a trial, measured on this machine.

use std::sync::atomic::{AtomicBool, Ordering};

use bytecost_meter::LEFT_OUT;
use bytecost_spec::survey::CounterTrial;
use bytecost_spec::{Cell, Counter};

use crate::testbed::Testbed;
use crate::trial;
use crate::trial_output::TrialOutput;

/// Trials of each mover with the counters, and as many without.
const TRIALS: usize = 5;
/// Attempts at a trial in which nothing is moved, as on a busy machine.
const TRIES: usize = 3;
/// The cheapest mover, and one that most cells are compared with.
const MOVERS: [&str; 2] = ["null", "send"];

/// Trials of `null` and `send`, by turns with counters and without; failed ones are left out.
pub(crate) fn measure(bed: &mut Testbed, stop: &AtomicBool) -> Vec<CounterTrial> {
    if bed.local.counters.no_hardware.is_some() {
        return Vec::new();
    }
    let before = bed.local.counters.clone();
    let mut found = Vec::new();
    for with in turns(TRIALS) {
        bed.local.counters = before.clone();
        if !with {
            bed.local.counters.stand_in = false;
            bed.local.counters.no_hardware = Some(LEFT_OUT.to_owned());
        }
        for mover in MOVERS {
            found.extend((0..TRIES).find_map(|_| counted(bed, mover, with, stop)));
        }
    }
    bed.local.counters = before;
    found
}

/// A trial of a mover; none if it failed or moved nothing.
fn counted(bed: &mut Testbed, mover: &str, with: bool, stop: &AtomicBool) -> Option<CounterTrial> {
    if stop.load(Ordering::Relaxed) {
        return None;
    }
    let cell = Cell {
        mover: mover.to_owned(),
        ..Cell::default()
    };
    let window = bed.settings.window;
    let output = trial::attempt(bed, &cell, window, None, stop).ok()?;
    counter_trial(mover, with, &output)
}

/// The order of trials of two kinds, so many each: true for the first kind, as true, false, false, true.
fn turns(trials: usize) -> impl Iterator<Item = bool> {
    (0..2 * trials).map(|turn| matches!(turn % 4, 0 | 3))
}

/// The counts of both sides together; none where one was not read, or nothing moved.
fn counter_trial(mover: &str, with: bool, output: &TrialOutput) -> Option<CounterTrial> {
    let sides = [&output.sender].into_iter().chain(&output.receiver);
    let cpu_ns = sides
        .map(|done| done.side.measured(Counter::CpuNs))
        .sum::<Option<u64>>()?;
    let messages = output.sender.side.measured(Counter::Messages)?;
    (messages > 0).then(|| CounterTrial {
        mover: mover.to_owned(),
        with,
        cpu_ns,
        messages,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_and_without_come_by_turns_and_as_often() {
        let turns: Vec<bool> = turns(TRIALS).collect();
        let with = turns.iter().filter(|with| **with).count();
        assert_eq!((with, turns.len()), (TRIALS, 2 * TRIALS));
        assert!(turns.chunks(2).all(|two| two[0] != two[1]));
        assert_eq!(turns[..4], [true, false, false, true]);
    }
}
