//! The commands, one file each.

pub mod doctor;
pub mod drive;
pub mod endpoint;
pub mod list;
mod live;
pub mod manual;
pub mod report;
pub mod run;
pub mod runs;
pub mod serve;

use std::io::{self, Write};

use bytecost_lab::survey::survey;
use bytecost_spec::{Host, Survey};

/// Prints to standard output; a closed pipe is an error that ends the command quietly.
fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// This machine, and what works on it.
fn look_around() -> (Host, Survey) {
    let host = crate::machine::host();
    let survey = survey(&host);
    (host, survey)
}
