//! What describes the command itself: completions, manual pages, the schema.

use anyhow::Result;

use crate::args::SchemaFile;
use crate::failure::Exit;

#[cfg(feature = "manual")]
pub use built::{Shell, completions, page};
#[cfg(not(feature = "manual"))]
pub use left_out::{Shell, completions, page};

#[cfg(feature = "manual")]
mod built {
    use std::path::Path;

    use anyhow::{Context, Result};
    use clap::CommandFactory;
    pub use clap_complete::Shell;

    use crate::args::Cli;
    use crate::failure::Exit;

    /// Prints the completion script of a shell.
    pub fn completions(shell: Shell) -> Result<Exit> {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Cli::command(), "bytecost", &mut script);
        super::super::print(&String::from_utf8_lossy(&script))?;
        Ok(Exit::Done)
    }

    /// Prints the manual page, or writes one for each command into a directory.
    pub fn page(directory: Option<&Path>) -> Result<Exit> {
        if let Some(directory) = directory {
            clap_mangen::generate_to(Cli::command(), directory)
                .with_context(|| format!("{}: no manual pages", directory.display()))?;
            return Ok(Exit::Done);
        }
        let mut page = Vec::new();
        clap_mangen::Man::new(Cli::command()).render(&mut page)?;
        super::super::print(&String::from_utf8_lossy(&page))?;
        Ok(Exit::Done)
    }
}

#[cfg(not(feature = "manual"))]
mod left_out {
    use std::path::Path;

    use anyhow::Result;

    use crate::failure::{Exit, bad_input};

    /// The name of a shell.
    pub type Shell = String;

    const WHY: &str = "this build has no completions and manual pages: cargo install --path crates/bytecost --features full";

    /// Says how to get them.
    pub fn completions(_: Shell) -> Result<Exit> {
        Err(bad_input(WHY))
    }

    /// Says how to get them.
    pub fn page(_: Option<&Path>) -> Result<Exit> {
        Err(bad_input(WHY))
    }
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
