//! Descriptions of the command itself: completions, manual pages, JSON Schemas.

use std::path::Path;

use anyhow::Result;
#[cfg(feature = "full")]
use {crate::args::Cli, anyhow::Context, clap::CommandFactory};

use crate::args::{SchemaFile, Shell};
use crate::failure::Exit;

/// Prints the completion script of a shell.
#[cfg(feature = "full")]
pub fn completions(shell: Shell) -> Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "bytecost", &mut script);
    super::printed(&String::from_utf8_lossy(&script))
}

/// Prints the manual page, or writes one for each command into a directory.
#[cfg(feature = "full")]
pub fn page(directory: Option<&Path>) -> Result<Exit> {
    if let Some(directory) = directory {
        clap_mangen::generate_to(Cli::command(), directory)
            .with_context(|| format!("{}: no manual pages", directory.display()))?;
        return Ok(Exit::Done);
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(Cli::command()).render(&mut page)?;
    super::printed(&String::from_utf8_lossy(&page))
}

#[cfg(not(feature = "full"))]
pub fn completions(_: Shell) -> Result<Exit> {
    page(None)
}

#[cfg(not(feature = "full"))]
pub fn page(_: Option<&Path>) -> Result<Exit> {
    Err(crate::failure::bad_input(
        "this build has no completions and manual pages: cargo install --path crates/bytecost --features full",
    ))
}

/// Prints the JSON Schema of a file, which a test compares with the types.
pub fn schema(file: SchemaFile) -> Result<Exit> {
    super::printed(match file {
        SchemaFile::Findings => include_str!("../../../../schemas/findings.schema.json"),
        SchemaFile::Profile => include_str!("../../../../schemas/profile.schema.json"),
        SchemaFile::Hosts => include_str!("../../../../schemas/hosts.schema.json"),
    })
}
