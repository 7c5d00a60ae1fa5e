//! `bytecost list`: what there is, and what of it works here, found by trying.

use anyhow::Result;
use bytecost_lab::files::Files;
use bytecost_lab::survey::{Helpers, helped};
use bytecost_spec::{Study, Transport};

use crate::failure::Exit;
use crate::studies::STUDIES;
use crate::terminal;

/// Prints the tables.
pub fn run() -> Result<Exit> {
    let (_, mut survey) = super::look_around(Transport::ALL);
    // Without a directory to make files in there is no table of them; a run says why.
    survey.files = bytecost_lab::file_survey::survey(&mut Files::default()).ok();
    survey.serving = Some(bytecost_lab::server_survey::survey());
    let helpers = Helpers::ready();
    survey.movers.extend(helped(&helpers, Transport::ALL));
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
