//! `bytecost runs`: the runs that are there.

use anyhow::Result;
use bytecost_report::tables::{self, RunLine};
use bytecost_store::{Root, RunProgress};

use crate::args::RootArgs;
use crate::failure::Exit;
use crate::terminal;

pub fn run(args: &RootArgs) -> Result<Exit> {
    let runs = Root::at(&args.runs_dir).runs()?;
    if runs.is_empty() {
        return super::printed(&format!(
            "no runs in {}: `bytecost run` makes one\n",
            args.runs_dir.display()
        ));
    }
    let line = |run: RunProgress| RunLine {
        id: run.id,
        started: run.started,
        study: run.study,
        trials: run.records as usize,
        state: run.state,
    };
    let lines: Vec<RunLine> = runs.into_iter().map(line).collect();
    super::printed(&tables::runs(&lines, terminal::style()))
}
