//! `bytecost list`: the tables of movers, transports, servers and studies, and what works here.

use anyhow::Result;
use bytecost_lab::program::Program;
use bytecost_report::tables;
use bytecost_spec::Study;

use crate::args::ListArgs;
use crate::failure::Exit;
use crate::studies::STUDIES;
use crate::{machine_cache, signals, terminal};

pub fn run(args: &ListArgs) -> Result<Exit> {
    let stop = signals::stop_flag()?;
    let survey = machine_cache::survey(&Program::own()?, &stop, args.fresh)?;
    let studies: Vec<Study> = STUDIES
        .iter()
        .map(|(_, text)| Study::parse(text))
        .collect::<Result<_, _>>()?;
    super::printed(&tables::list(&survey, &studies, terminal::style()))
}
