//! The settings of trials.

use std::time::Duration;

use crate::program::Program;
use crate::protocol::ContentCheck;

/// The settings of all trials of a run.
#[derive(Debug)]
pub struct Settings {
    /// The program that plays the endpoints when called as `PROGRAM endpoint PID`.
    pub program: Program,
    /// Time before the window.
    pub warmup: Duration,
    /// Length of the window.
    pub window: Duration,
    /// The part of the payload that is checked.
    pub check: ContentCheck,
    /// The TCP port of receivers; none takes a free one each time.
    pub port: Option<u16>,
    /// CPUs that other processes may use in the mean over a block, above which the block is
    /// measured again.
    pub foreign_cpus: f64,
    /// The most repeats of one block for that.
    pub repeats_most: u32,
    /// Time that may go into such repeats: where others do not go away, repeating only spends the
    /// budget.
    pub repeats_for: Duration,
    /// Time that the run had taken before this process began it.
    pub earlier: Duration,
}

impl Settings {
    /// Settings of trials without warm-up or window of their own, which are not measured again, on
    /// any free port.
    pub fn of_single_trials(program: Program, check: ContentCheck) -> Settings {
        Settings {
            program,
            warmup: Duration::ZERO,
            window: Duration::ZERO,
            check,
            port: None,
            foreign_cpus: f64::INFINITY,
            repeats_most: 0,
            repeats_for: Duration::ZERO,
            earlier: Duration::ZERO,
        }
    }
}
