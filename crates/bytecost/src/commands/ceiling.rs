//! `bytecost ceiling`: this machine's copy and disk bandwidth, the upper bound that reports show.

use anyhow::Result;
use bytecost_analysis::ceiling::STUDY;
use bytecost_store::Root;

use super::{report, run};
use crate::args::{CeilingArgs, RunArgs};
use crate::failure::{Exit, bad_input};

/// Measures the study of that name, and shows its rates in a table.
pub fn run(args: CeilingArgs) -> Result<Exit> {
    if let Some(name) = &args.resume {
        let run = Root::at(&args.root.runs_dir).open(name)?;
        let study = &run.manifest().study.name;
        if study != STUDY {
            return Err(bad_input(format!(
                "run {name} is of study `{study}`: resume it with `bytecost run --resume {name}`"
            )));
        }
    }
    run::carried_out(
        RunArgs {
            study: Some(STUDY.to_owned()),
            budget: args.budget,
            dir: args.dir,
            resume: args.resume,
            anyway: args.anyway,
            quiet: args.quiet,
            root: args.root,
            ..RunArgs::default()
        },
        report::tell_ceiling,
    )
}
