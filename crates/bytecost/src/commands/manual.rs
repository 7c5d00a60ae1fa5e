//! What describes the command itself: completions, the manual page, the schema.

use anyhow::Result;
use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Cli;
use crate::failure::Exit;

/// Prints the completion script of a shell.
pub fn completions(shell: Shell) -> Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "bytecost", &mut script);
    super::print(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}

/// Prints the manual page.
pub fn page() -> Result<Exit> {
    let mut page = Vec::new();
    clap_mangen::Man::new(Cli::command()).render(&mut page)?;
    super::print(&String::from_utf8_lossy(&page))?;
    Ok(Exit::Done)
}

/// Prints the JSON Schema of `findings.json`.
pub fn schema() -> Result<Exit> {
    super::print(&bytecost_report::schema_json())?;
    Ok(Exit::Done)
}
