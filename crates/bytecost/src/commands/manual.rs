//! What describes the command itself: completions, manual pages, the schema.

use std::path::Path;

#[cfg(feature = "manual")]
use anyhow::Context;
use anyhow::Result;
#[cfg(feature = "manual")]
use clap::CommandFactory;

#[cfg(feature = "manual")]
use crate::args::Cli;
use crate::args::SchemaFile;
use crate::failure::Exit;

#[cfg(feature = "manual")]
pub use clap_complete::Shell;

/// The name of a shell.
#[cfg(not(feature = "manual"))]
pub type Shell = String;

/// Prints the completion script of a shell.
#[cfg(feature = "manual")]
pub fn completions(shell: Shell) -> Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "bytecost", &mut script);
    super::print(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}

/// Prints the manual page, or writes one for each command into a directory.
#[cfg(feature = "manual")]
pub fn page(directory: Option<&Path>) -> Result<Exit> {
    if let Some(directory) = directory {
        clap_mangen::generate_to(Cli::command(), directory)
            .with_context(|| format!("{}: no manual pages", directory.display()))?;
        return Ok(Exit::Done);
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(Cli::command()).render(&mut page)?;
    super::print(&String::from_utf8_lossy(&page))?;
    Ok(Exit::Done)
}

#[cfg(not(feature = "manual"))]
const WHY: &str = "this build has no completions and manual pages: cargo install --path crates/bytecost --features full";

/// Says how to get them.
#[cfg(not(feature = "manual"))]
pub fn completions(_: Shell) -> Result<Exit> {
    Err(crate::failure::bad_input(WHY))
}

/// Says how to get them.
#[cfg(not(feature = "manual"))]
pub fn page(_: Option<&Path>) -> Result<Exit> {
    Err(crate::failure::bad_input(WHY))
}

/// The schemas, which a test compares with the types.
const FINDINGS: &str = include_str!("../../../../schemas/findings.schema.json");
const HOSTS: &str = include_str!("../../../../schemas/hosts.schema.json");

/// Prints the JSON Schema of a file.
pub fn schema(file: SchemaFile) -> Result<Exit> {
    super::print(match file {
        SchemaFile::Findings => FINDINGS,
        SchemaFile::Hosts => HOSTS,
    })?;
    Ok(Exit::Done)
}
