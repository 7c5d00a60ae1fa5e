//! `bytecost list`: what there is, and what of it works here, found by trying.

use anyhow::Result;
use bytecost_report::tables;
use bytecost_spec::Study;

use crate::args::ListArgs;
use crate::failure::Exit;
use crate::studies::STUDIES;
use crate::{terminal, tried};

pub fn run(args: &ListArgs) -> Result<Exit> {
    let survey = tried::works(args.fresh);
    let studies = STUDIES.iter().map(|(_, text)| Study::parse(text));
    let studies: Vec<Study> = studies.collect::<Result<_, _>>()?;
    super::printed(&tables::list(&survey, &studies, terminal::style()))
}
