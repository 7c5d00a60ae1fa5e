//! `bytecost runs`: the runs that are there.

use anyhow::Result;
use bytecost_report::tables;
use bytecost_store::Root;

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
    super::printed(&tables::runs(&runs, terminal::style()))
}
