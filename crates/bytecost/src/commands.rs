//! The commands, one file each.

pub mod audit;
pub mod doctor;
pub mod drive;
pub mod endpoint;
pub mod explain;
pub mod export;
pub mod import;
pub mod list;
mod live;
pub mod manual;
pub mod report;
pub mod run;
pub mod runs;
pub mod serve;

use std::io::{self, Write};

use bytecost_lab::leftovers::{self, Leftover};
use bytecost_lab::survey::survey;
use bytecost_spec::{Host, Survey, Transport};
use bytecost_store::Root;

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

/// Removes what a killed run may have left, and says of each thing what it was.
fn clean(root: &Root) -> Vec<Leftover> {
    let files = root.remove_leftovers();
    let files = files.iter().map(|f| Leftover {
        told: format!("removed {}", f.display()),
        gone: true,
    });
    leftovers::remove().into_iter().chain(files).collect()
}
