//! The settings of trials.

use std::time::Duration;

use bytecost_spec::{Cell, Class};

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
    /// True if the machine and its networks are read around windows. Where not, nothing but the outcome of a
    /// trial counts, and its processes may play the next one too.
    pub reads_machine: bool,
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
            reads_machine: true,
            port: None,
            earlier: Duration::ZERO,
        }
    }

    /// Returns true if the processes of a cell's trial play the next one too. They cannot leave a scheduler
    /// class or a control group, and one that forks must have no other thread.
    pub(crate) fn keeps_processes(&self, cell: &Cell) -> bool {
        let is_usual = cell.class == Class::default() && cell.cgroup.is_none();
        !self.reads_machine && is_usual && !cell.is_served()
    }
}
