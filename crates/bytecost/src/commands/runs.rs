//! `bytecost runs`: the runs that are there.

use anyhow::Result;
use bytecost_report::tables::{self, RunLine};
use bytecost_store::{Root, RunSummary, State};

use crate::args::RootArgs;
use crate::failure::Exit;
use crate::terminal;

/// Prints a line for each.
pub fn run(args: &RootArgs) -> Result<Exit> {
    let runs = Root::at(&args.runs_dir).runs()?;
    if runs.is_empty() {
        super::print(&format!(
            "no runs in {}: `bytecost run` makes one\n",
            args.runs_dir.display()
        ))?;
        return Ok(Exit::Done);
    }
    let lines: Vec<RunLine> = runs.into_iter().map(line).collect();
    super::print(&tables::runs(&lines, terminal::style()))?;
    Ok(Exit::Done)
}

fn line(run: RunSummary) -> RunLine {
    match run.facts {
        Ok(facts) => RunLine {
            id: run.id,
            started: facts.started,
            study: facts.study,
            trials: usize::try_from(facts.records).unwrap_or(usize::MAX),
            state: match facts.state {
                State::Running => "running".to_owned(),
                State::Complete => "complete".to_owned(),
                State::EndedEarly(why) => format!("ended early: {why}"),
                State::Damaged(why) => format!("damaged: {why}; --resume measures them again"),
                State::Killed => "killed; --resume continues it".to_owned(),
            },
        },
        Err(why) => RunLine {
            id: run.id,
            started: String::new(),
            study: String::new(),
            trials: 0,
            state: format!("unreadable: {why}"),
        },
    }
}
