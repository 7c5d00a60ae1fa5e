//! `bytecost doctor`: what this machine is, what that means for results, and what to do.

use anyhow::Result;

use crate::failure::Ending;
use crate::{machine, terminal};

/// Prints the checks.
pub fn run() -> Result<Ending> {
    super::print(&bytecost_report::tables::doctor(
        &machine::host(),
        terminal::style(),
    ))?;
    Ok(Ending::Done)
}
