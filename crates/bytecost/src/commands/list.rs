//! `bytecost list`: the tables of movers, transports, servers and studies, and what works here.

use anyhow::Result;
use bytecost_report::tables;
use bytecost_spec::Study;

use crate::args::ListArgs;
use crate::failure::Exit;
use crate::studies::STUDIES;
use crate::{machine_cache, terminal};

pub fn run(args: &ListArgs) -> Result<Exit> {
    let survey = machine_cache::survey(args.fresh);
    let studies: Vec<Study> = STUDIES
        .iter()
        .map(|(_, text)| Study::parse(text))
        .collect::<Result<_, _>>()?;
    super::printed(&tables::list(&survey, &studies, terminal::style()))
}
