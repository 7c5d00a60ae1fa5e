//! The commands.

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

use anyhow::Result;
use bytecost_engine::Mover;
use bytecost_lab::leftovers::{self, Leftover};
use bytecost_lab::survey::{Helpers, helped, survey};
use bytecost_spec::{Cell, Host, Survey, Transport, units};
use bytecost_store::Root;

use crate::failure::{Exit, OutputFailed};

/// Prints to standard output; a closed pipe is an error that ends the command quietly.
fn print(text: &str) -> Result<(), OutputFailed> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// The same as the last thing that a command does.
fn printed(text: &str) -> Result<Exit> {
    print(text)?;
    Ok(Exit::Done)
}

/// Prints a line to standard error; that nobody reads it is no failure.
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

/// This machine, and what works on it over these transports.
fn look_around(transports: &[Transport]) -> (Host, Survey) {
    let (host, cpu_clock) = crate::machine::host();
    let survey = Survey {
        cpu_clock: Some(cpu_clock),
        ..survey(&host, transports)
    };
    (host, survey)
}

/// Adds to a survey the movers that have another program do their work, where one of the cells has
/// such a mover: to make that ready takes a second or more.
fn look_at_helped<'c>(
    survey: &mut Survey,
    transports: &[Transport],
    cells: impl IntoIterator<Item = &'c Cell>,
) -> Option<Helpers> {
    let is_helped = |cell: &Cell| Mover::named(&cell.mover).is_some_and(|m| m.is_helped());
    if !cells.into_iter().any(is_helped) {
        return None;
    }
    let helpers = Helpers::ready();
    survey.movers.extend(helped(&helpers, transports));
    survey.java = helpers.java_version().map(str::to_owned);
    Some(helpers)
}

/// Removes what a killed run may have left, and says of each thing what it was.
fn clean(root: &Root) -> Vec<Leftover> {
    let files = root.remove_leftovers();
    let files = files.iter().map(|f| Leftover {
        summary: format!("removed {}", f.display()),
        gone: true,
    });
    leftovers::remove().into_iter().chain(files).collect()
}
