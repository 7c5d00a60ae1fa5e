//! `bytecost audit`: published claims, checked with runs.

use anyhow::Result;
use bytecost_analysis::{analyse, audit};
use bytecost_report::audit::{json, settled, terminal};
use bytecost_store::{Root, Run};
use itertools::Itertools as _;

use crate::args::AuditArgs;
use crate::failure::{Exit, bad_input};
use crate::published;
use crate::recorded_run::RecordedRun;

pub fn run(args: &AuditArgs) -> Result<Exit> {
    let mut grounds = match &args.claims {
        Some(path) => published::from_file(path)?,
        None => published::built_in()?,
    };
    if let Some(source) = &args.source {
        let sources = grounds.claims.iter().map(|c| &c.source).dedup().join(", ");
        grounds.claims.retain(|c| c.source == *source);
        if grounds.claims.is_empty() {
            return Err(bad_input(format!(
                "no claim has the source `{source}`: choose from {sources}"
            )));
        }
    }
    let root = Root::at(&args.root.runs_dir);
    let runs = if args.runs.is_empty() {
        vec![newest(&root)?]
    } else {
        let runs = args.runs.iter().map(|name| root.open(name));
        runs.collect::<Result<_, _>>()?
    };
    let judged = runs.iter().map(|run| {
        let recorded = RecordedRun::of(run)?;
        let input = recorded.input(None);
        let rulings = audit(input, &analyse(input), &grounds);
        Ok((run.manifest().id.clone(), rulings))
    });
    let settled = settled(judged.collect::<Result<_>>()?);
    super::printed(&match args.json {
        true => json(&settled),
        false => terminal(&settled, crate::terminal::style()),
    })
}

fn newest(root: &Root) -> Result<Run> {
    for name in root.names()?.into_iter().rev() {
        let run = root.open(&name)?;
        if run.published()?.is_none() {
            return Ok(run);
        }
    }
    Err(bad_input(format!(
        "no runs in {} to check claims with: `bytecost run pa02-a` makes one",
        root.path().display()
    )))
}
