//! `bytecost ceiling`: this machine's copy and disk bandwidth, the upper bound that reports show.

use anyhow::Result;
use bytecost_analysis::ceiling::STUDY;
use bytecost_store::{Root, Run};

use super::run;
use crate::args::{AxisArgs, CeilingArgs, PeerArgs, RunArgs};
use crate::failure::{Exit, bad_input};
use crate::recorded_run::{RecordedRun, measured_ceiling};
use crate::terminal;

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
            axes: AxisArgs::default(),
            quick: false,
            as_published: false,
            budget: args.budget,
            precision: None,
            window: None,
            warmup: None,
            blocks: None,
            seed: None,
            port: None,
            dir: args.dir,
            file: None,
            evidence: Vec::new(),
            peer: PeerArgs::default(),
            resume: args.resume,
            anyway: args.anyway,
            quiet: args.quiet,
            root: args.root,
        },
        tell,
    )
}

/// Writes the run's files and prints the table; true when trials failed.
pub(super) fn tell(run: &Run) -> Result<bool> {
    let evidence = RecordedRun::of(run)?;
    let analysis = evidence.analysis(None)?;
    super::report::write(run, &analysis, &evidence.cells, &evidence.samples)?;
    let text = match measured_ceiling(run) {
        Some(ceiling) => bytecost_report::ceiling(&ceiling, &analysis, terminal::style()),
        None => bytecost_report::terminal(&analysis, terminal::style()),
    };
    super::print(&text)?;
    Ok(!evidence.is_whole())
}
