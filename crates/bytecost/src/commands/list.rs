//! `bytecost list`: what there is, and what of it works here, found by trying.

use anyhow::Result;
use bytecost_spec::Study;

use crate::args::ListArgs;
use crate::failure::Exit;
use crate::studies::STUDIES;
use crate::{terminal, tried};

/// Prints the tables.
pub fn run(args: &ListArgs) -> Result<Exit> {
    let survey = tried::works(args.fresh);
    let studies: Vec<Study> = STUDIES
        .iter()
        .map(|(_, text)| Study::parse(text))
        .collect::<Result<_, _>>()?;
    super::print(&bytecost_report::tables::list(
        &survey,
        &studies,
        terminal::style(),
    ))?;
    Ok(Exit::Done)
}
