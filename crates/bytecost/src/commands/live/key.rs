//! `bytecost key`: a key for live sessions between machines.

use std::io;
use std::path::Path;

use anyhow::Result;
use bytecost_lab::hand::SessionKey;
use bytecost_spec::units;

use crate::failure::{Exit, bad_input};

/// Makes the file.
pub fn run(file: &Path) -> Result<Exit> {
    let name = units::one_line(&file.display().to_string());
    SessionKey::make(file).map_err(|e| match e.kind() {
        io::ErrorKind::AlreadyExists => bad_input(format!(
            "{name} exists and is left as it is: choose another name, or remove it first"
        )),
        _ => bad_input(format!("{name} cannot be written: {e}")),
    })?;
    super::note(&format!(
        "{name} has a new key; copy it to the other machine over a way that you trust, and give --key-file {name} on both"
    ));
    Ok(Exit::Done)
}
