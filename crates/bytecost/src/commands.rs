//! The commands, one file each.

pub mod doctor;
pub mod endpoint;
pub mod explain;
pub mod list;
pub mod manual;
pub mod report;
pub mod run;
pub mod runs;

use std::io::{self, Write};

use bytecost_lab::survey::survey;
use bytecost_spec::{Host, Survey, Transport};

/// Prints to standard output; a closed pipe is an error that ends the command quietly.
fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// This machine, and what works on it over these transports.
fn look_around(transports: &[Transport]) -> (Host, Survey) {
    let host = crate::machine::host();
    let survey = survey(&host, transports);
    (host, survey)
}
