//! The subcommands, one file each, and what several of them do.

pub mod agent;
pub mod audit;
pub mod doctor;
pub mod endpoint;
pub mod export;
pub mod list;
pub mod live;
pub mod manual;
mod peer;
pub mod profile;
pub mod report;
mod resume;
pub mod run;
pub mod runs;

use std::fmt::Display;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use bytecost_engine::Mover;
use bytecost_lab::helpers::Helpers;
use bytecost_lab::leftovers::{self, Leftover};
use bytecost_lab::short_trials::Surveyor;
use bytecost_lab::survey::{helped, survey};
use bytecost_spec::{Cell, Host, Survey, Transport, units};
use bytecost_store::Root;

use crate::failure::{Exit, Interrupted, OutputFailed};

/// Prints to standard output; a closed pipe is an error that ends the command quietly.
fn print(text: &str) -> Result<(), OutputFailed> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// Prints to standard output and ends the command with success.
fn printed(text: &str) -> Result<Exit> {
    print(text)?;
    Ok(Exit::Done)
}

/// Prints a line to standard error. An error of that is ignored, since there is no place left to report it.
fn print_to_stderr(text: impl Display) {
    let text = units::one_line(&text.to_string());
    let _ = writeln!(io::stderr(), "{text}");
}

/// Prints a text of several lines to standard error.
fn print_lines_to_stderr(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Prints a note to standard error.
pub fn note(text: impl Display) {
    print_to_stderr(format!("note: {text}"));
}

/// The description of this machine, and its survey over these transports.
fn host_and_survey(surveyor: &Surveyor<'_>, transports: &[Transport]) -> (Host, Survey) {
    let (host, cpu_clock) = crate::machine::host();
    let survey = Survey {
        cpu_clock: Some(cpu_clock),
        ..survey(surveyor, &host, transports)
    };
    (host, survey)
}

/// Adds movers that run in a helper program (Java) to a survey, if one of the cells has such a mover:
/// starting the helpers takes a second or more.
fn add_helped_movers<'c>(
    survey: &mut Survey,
    surveyor: &Surveyor<'_>,
    transports: &[Transport],
    cells: impl IntoIterator<Item = &'c Cell>,
) -> Option<Helpers> {
    let is_helped = |cell: &Cell| Mover::named(&cell.mover).is_some_and(|m| m.is_helped());
    if !cells.into_iter().any(is_helped) {
        return None;
    }
    let helpers = Helpers::ready();
    survey.movers.extend(helped(surveyor, &helpers, transports));
    survey.java = helpers.java_version().map(str::to_owned);
    Some(helpers)
}

/// Returns an error if a signal has asked the command to end.
pub fn check_interrupted(stop: &AtomicBool) -> Result<(), Interrupted> {
    if stop.load(Ordering::Relaxed) {
        return Err(Interrupted);
    }
    Ok(())
}

/// Removes files, processes and control groups of runs that were killed, and describes each.
fn clean(root: &Root) -> Vec<Leftover> {
    let removed_files = root.remove_leftovers();
    let files = removed_files.iter().map(|f| Leftover {
        summary: format!("removed {}", f.display()),
        gone: true,
    });
    leftovers::remove().into_iter().chain(files).collect()
}
