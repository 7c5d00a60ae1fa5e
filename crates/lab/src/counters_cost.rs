//! What reading hardware counters costs a trial, measured on this machine.

use std::sync::atomic::{AtomicBool, Ordering};

use bytecost_meter::LEFT_OUT;
use bytecost_spec::survey::CounterTrial;
use bytecost_spec::{Cell, Counter, Reading, Readings};

use crate::trial::Lab;
use crate::trial_output::TrialOutput;

/// Trials of each mover with the counters, and as many without.
const TRIALS: usize = 5;
/// How often a trial is tried in which nothing was moved, as on a busy machine.
const TRIES: usize = 3;
/// The least that a trial costs, and a way that most cells are compared with.
const MOVERS: [&str; 2] = ["null", "send"];

impl Lab {
    /// Reads the task clock where hardware counters would be read, so that it is tested everywhere.
    pub fn stand_in_for_counters(&mut self) {
        self.local.counters.stand_in = true;
        self.local.counters.no_hardware = None;
    }

    /// Trials of `null` and `send`, by turns with counters and without; failed ones are left out.
    pub fn counters_cost(&mut self, stop: &AtomicBool) -> Vec<CounterTrial> {
        if self.local.counters.no_hardware.is_some() {
            return Vec::new();
        }
        let before = self.local.counters.clone();
        let mut found = Vec::new();
        for with in turns(TRIALS) {
            self.local.counters = before.clone();
            if !with {
                self.local.counters.stand_in = false;
                self.local.counters.no_hardware = Some(LEFT_OUT.to_owned());
            }
            for mover in MOVERS {
                let cell = Cell {
                    mover: mover.to_owned(),
                    ..Cell::default()
                };
                let tried = (0..TRIES).find_map(|_| {
                    let going_on = !stop.load(Ordering::Relaxed);
                    let parts = going_on.then(|| self.attempt(&cell, None, stop).ok())??;
                    told(mover, with, &parts)
                });
                found.extend(tried);
            }
        }
        self.local.counters = before;
        found
    }
}

/// Of two kinds of trial, so many each, whether it is the first one's turn: yes, no, no, yes.
fn turns(trials: usize) -> impl Iterator<Item = bool> {
    (0..2 * trials).map(|turn| matches!(turn % 4, 0 | 3))
}

/// A counter of the sender's side and of the receiver's, 0 where there is none; none where a side
/// has not read it.
fn of_sides(parts: &TrialOutput, counter: Counter) -> Option<[u64; 2]> {
    let read = |readings: &Readings| readings.get(&counter).and_then(Reading::measured);
    let of_receiver = match &parts.receiver {
        Some(receiver) => read(&receiver.side.readings)?,
        None => 0,
    };
    Some([read(&parts.sender.side.readings)?, of_receiver])
}

fn told(mover: &str, with: bool, parts: &TrialOutput) -> Option<CounterTrial> {
    let [messages, _] = of_sides(parts, Counter::Messages)?;
    let cpu_ns = of_sides(parts, Counter::CpuNs)?.iter().sum();
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
