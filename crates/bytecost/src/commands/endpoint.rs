//! `bytecost endpoint`: one side of a trial, which only the coordinator starts.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;

/// Runs one side of a trial, driven over standard input, until the trial is over. The argument is
/// the PID of the coordinator, with which the endpoint ends.
pub fn run(coordinator: Option<OsString>) -> ExitCode {
    let Some(parent) = coordinator.and_then(|pid| pid.to_str()?.parse::<u32>().ok()) else {
        let _ = writeln!(
            io::stderr(),
            "error: `bytecost endpoint` is for bytecost itself: try `bytecost run`"
        );
        return ExitCode::from(2);
    };
    let ended = io::stdin()
        .as_fd()
        .try_clone_to_owned()
        .and_then(|control| bytecost_lab::endpoint::run(control, parent));
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            let _ = writeln!(io::stderr(), "error: {e}");
            ExitCode::FAILURE
        }
    }
}
