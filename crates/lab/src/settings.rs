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
    /// Time that the run had taken before this process began it.
    pub earlier: Duration,
}

impl Settings {
    /// Settings of trials without warm-up or window of their own, on any free port.
    pub fn of_single_trials(program: Program, check: ContentCheck) -> Settings {
        Settings {
            program,
            warmup: Duration::ZERO,
            window: Duration::ZERO,
            check,
            port: None,
            earlier: Duration::ZERO,
        }
    }
}
