//! What tests with endpoints and a main of their own share.
#![allow(dead_code)] // each uses a part of it

use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::Duration;

use bytecost_lab::program::Program;
use bytecost_lab::protocol::ContentCheck;
use bytecost_lab::trial::Settings;
use libtest_mimic::Trial;

/// Plays an endpoint, where the program was started as one.
pub fn endpoint() -> Option<ExitCode> {
    let mut words = std::env::args_os().skip(1);
    if words.next().as_deref() != Some(OsStr::new("endpoint")) {
        return None;
    }
    let parent = words.next().and_then(|p| p.to_str()?.parse().ok());
    let control = io::stdin().as_fd().try_clone_to_owned().unwrap();
    let ended = bytecost_lab::endpoint::run(control, parent.unwrap_or(0));
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

/// Short trials of this program, none of which is repeated.
pub fn settings(check: ContentCheck) -> Settings {
    Settings {
        program: Program::own().unwrap(),
        warmup: Duration::from_millis(2),
        window: Duration::from_millis(10),
        check,
        port: None,
        foreign_cpus: f64::INFINITY,
        repeats_most: 0,
        repeats_for: Duration::ZERO,
        earlier: Duration::ZERO,
    }
}
