//! `bytecost endpoint`: one side of a trial, started by the coordinator and by nobody else.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;

/// Plays one side, driven over standard input, until the trial is over.
pub fn run(parent: Option<OsString>) -> ExitCode {
    let parent = parent.and_then(|p| p.to_str()?.parse::<u32>().ok());
    let Some(parent) = parent else {
        let _ = writeln!(
            io::stderr(),
            "error: `bytecost endpoint` is for bytecost itself: try `bytecost run`"
        );
        return ExitCode::from(2);
    };
    let played = io::stdin()
        .as_fd()
        .try_clone_to_owned()
        .and_then(|control| bytecost_lab::endpoint::run(control, parent));
    match played {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            let _ = writeln!(io::stderr(), "error: {e}");
            ExitCode::FAILURE
        }
    }
}
