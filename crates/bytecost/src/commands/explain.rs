//! `bytecost explain`: the questions about why, answered from a run.

use anyhow::Result;

use super::report;
use crate::args::ExplainArgs;
use crate::failure::Exit;
use crate::recorded_run::RecordedRun;
use crate::terminal;

/// Analyses a run and prints the answers; writes nothing.
pub fn run(args: ExplainArgs) -> Result<Exit> {
    let run = report::open(&args.root, args.run)?;
    let analysis = RecordedRun::of(&run)?.analysis(None)?;
    let text = if args.json {
        bytecost_report::explain_json(&analysis)
    } else {
        bytecost_report::explain(&analysis, terminal::style())
    };
    super::print(&text)?;
    Ok(Exit::Done)
}
