//! The survey of a new run: what works on this machine of all that its study may need.

use std::sync::atomic::AtomicBool;

use anyhow::Result;
use bytecost_lab::files::Files;
use bytecost_lab::helpers::Helpers;
use bytecost_lab::program::Program;
use bytecost_lab::short_trials::Surveyor;
use bytecost_lab::survey::{links, survey};
use bytecost_lab::{file_survey, isolation_survey, server_survey};
use bytecost_spec::survey::FileSurvey;
use bytecost_spec::{Cell, Host, HugePages, Study, Survey, Transport};

use super::study::{cells, needs_disk};
use crate::args::RunArgs;
use crate::commands::{add_helped_movers, check_interrupted};
use crate::failure::bad_input;

/// A study and the machine on which it is to run.
pub struct SurveyRequest<'a> {
    pub study: &'a Study,
    pub args: &'a RunArgs,
    pub program: &'a Program,
    pub host: &'a Host,
    pub stop: &'a AtomicBool,
}

impl SurveyRequest<'_> {
    /// Makes a trial of each kind that the study needs. An interruption ends it.
    pub fn survey(&self) -> Result<Survey> {
        let surveyor = Surveyor::new(self.program, self.stop);
        let cells = cells(self.study);
        let transports = transports(&cells);
        let mut found = survey(&surveyor, self.host, &transports);
        check_interrupted(self.stop)?;
        if cells.iter().any(|cell| cell.huge_pages == HugePages::On) {
            found.huge_pages_refused = bytecost_engine::work::huge_pages_refused();
        }
        let helpers = add_helped_movers(&mut found, &surveyor, &transports, &cells);
        check_interrupted(self.stop)?;
        found.files = self.file_survey(&surveyor, helpers.as_ref())?;
        check_interrupted(self.stop)?;
        if cells.iter().any(Cell::is_served) {
            found.serving = Some(server_survey::survey(&surveyor));
        }
        check_interrupted(self.stop)?;
        found.links = links(&surveyor, &cells);
        found.isolation = isolation_survey::survey(&surveyor, self.host, &cells);
        check_interrupted(self.stop)?;
        Ok(found)
    }

    /// The survey of files; none where the study needs no disk.
    fn file_survey(
        &self,
        surveyor: &Surveyor<'_>,
        helpers: Option<&Helpers>,
    ) -> Result<Option<FileSurvey>> {
        if !needs_disk(self.study, self.args)? {
            return Ok(None);
        }
        let dir = self.args.dir.clone().unwrap_or_else(std::env::temp_dir);
        let user_file = (self.args.file.as_ref())
            .map(std::path::absolute)
            .transpose()?;
        let mut files = Files::new(dir, user_file);
        let mut found = file_survey::survey(surveyor, &mut files).map_err(bad_input)?;
        if let Some(helpers) = helpers {
            found
                .movers
                .extend(file_survey::helped(surveyor, &files, helpers));
        }
        Ok(Some(found))
    }
}

/// The transports to try: all that need nothing to be made, and those that the cells name.
fn transports(cells: &[Cell]) -> Vec<Transport> {
    let is_named = |t: Transport| cells.iter().any(|cell| cell.transport == t);
    Transport::WITHIN
        .iter()
        .copied()
        .filter(|t| !t.is_made() || is_named(*t))
        .collect()
}
