//! Helpers of tests with endpoints and a main of their own.
#![allow(dead_code)] // each uses a part of it

use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytecost_lab::files::Files;
use bytecost_lab::program::Program;
use bytecost_lab::protocol::ContentCheck;
use bytecost_lab::settings::Settings;
use bytecost_lab::{Lab, TrialOutcome};
use bytecost_spec::{Axis, Cell, Failure, Sample, TrialKey};
use libtest_mimic::{Arguments, Trial};
use rustix::process::{Signal, getpid, kill_process};

/// The name of a program whose endpoints are stopped once they have said their last word, as by a
/// freezer or a debugger.
pub const HELD: &str = "held";

#[path = "../../../../tests/lack.rs"]
pub mod lack;

/// Plays an endpoint, where the program was started as one.
pub fn endpoint() -> Option<ExitCode> {
    let mut words = std::env::args_os().skip(1);
    if words.next().as_deref() != Some(OsStr::new("endpoint")) {
        return None;
    }
    let parent = words.next().and_then(|p| p.to_str()?.parse().ok());
    let control = io::stdin().as_fd().try_clone_to_owned().unwrap();
    let ended = bytecost_lab::endpoint::run(control, parent.unwrap_or(0));
    let name = std::env::args_os().next().unwrap_or_default();
    if name.as_encoded_bytes().ends_with(HELD.as_bytes()) {
        kill_process(getpid(), Signal::STOP).unwrap();
    }
    Some(match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    })
}

/// A case that fails by a panic.
pub fn case(name: impl Into<String>, run: impl FnOnce() + Send + 'static) -> Trial {
    let run = move || {
        run();
        Ok(())
    };
    Trial::test(name, run)
}

/// Runs them, so many at a time unless the command line says how many.
pub fn run(trials: Vec<Trial>, at_a_time: usize) -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(at_a_time);
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// As many at a time as keep all CPUs busy: a trial waits for its processes and its clock too.
pub fn run_many(trials: Vec<Trial>) -> ExitCode {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    run(trials, cpus + 1)
}

/// The cell with these values of axes: `mover=send size=4KiB`.
pub fn cell(values: &str) -> Cell {
    let mut cell = Cell::default();
    for word in values.split_whitespace() {
        let (axis, value) = word.split_once('=').unwrap();
        cell.set(Axis::named(axis).unwrap(), value).unwrap();
    }
    cell
}

pub fn lab(settings: Settings, files: Files) -> Lab {
    Lab::new(settings).with_files(files)
}

pub fn trial_in(lab: &mut Lab, cell: &Cell) -> Result<Sample, Failure> {
    match lab.trial(TrialKey::default(), cell, &AtomicBool::new(false)) {
        TrialOutcome::Ended(record, _) => record.timed().expect("nobody watches"),
        TrialOutcome::Interrupted => panic!("nobody interrupts: {:?}", lab.lost_peer()),
    }
}

/// Short trials of this program, none of which is repeated.
pub fn settings(check: ContentCheck) -> Settings {
    Settings {
        warmup: Duration::from_millis(2),
        window: Duration::from_millis(10),
        ..Settings::of_single_trials(Program::own().unwrap(), check)
    }
}
