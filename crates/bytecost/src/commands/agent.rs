//! `bytecost agent`: the other host's end of a run on two hosts.

use std::io;

use anyhow::Result;

use crate::failure::Exit;

/// Plays what it is told over standard input and output, until that ends or falls silent.
pub fn run() -> Result<Exit> {
    bytecost_lab::peer::agent::run(io::stdin(), io::stdout())?;
    Ok(Exit::Done)
}
