//! `bytecost audit`: published claims, checked with runs.

use anyhow::{Result, anyhow};
use bytecost_analysis::{Audited, Grounds, Input, audit};
use bytecost_report::audit::{json, settled, terminal};
use bytecost_spec::claim::{Claim, TestKind};
use bytecost_spec::{Manifest, Study};
use bytecost_store::{Root, Run};
use itertools::Itertools as _;

use crate::args::AuditArgs;
use crate::failure::{Exit, bad_input};
use crate::published;
use crate::recorded_run::RecordedRun;
use crate::studies::STUDIES;

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
        newest(&root)?.into_iter().collect()
    } else {
        args.runs
            .iter()
            .map(|name| root.open(name))
            .collect::<Result<Vec<_>, _>>()?
    };
    let rulings_by_run = if runs.is_empty() {
        vec![(None, rulings_by_tables(&grounds, &root)?)]
    } else {
        runs.iter()
            .map(|run| {
                let recorded = RecordedRun::read(run)?;
                let rulings = audit(recorded.input(None), &grounds);
                Ok((Some(run.manifest().id.clone()), rulings))
            })
            .collect::<Result<_>>()?
    };
    let rulings = settled(rulings_by_run);
    super::printed(&if args.json {
        json(&rulings)
    } else {
        terminal(&rulings, crate::terminal::style())
    })
}

/// The rulings of claims that are arithmetic on published tables, which needs no run.
///
/// # Errors
/// None of the claims is such a claim.
fn rulings_by_tables(grounds: &Grounds, root: &Root) -> Result<Vec<Audited>> {
    let mut tests = grounds.claims.iter().flat_map(Claim::all_tests);
    if !tests.any(|test| matches!(test.kind, TestKind::Arithmetic(_))) {
        return Err(bad_input(format!(
            "no runs in {} to check claims with: `bytecost run pa02-a` makes one",
            root.path().display()
        )));
    }
    let (_, study) = STUDIES[0];
    let manifest = Manifest::new(Study::parse(study).map_err(|e| anyhow!("{e}"))?);
    Ok(audit(Input::of(&manifest, &[], &[]), grounds))
}

fn newest(root: &Root) -> Result<Option<Run>> {
    let name = root.names()?.pop();
    Ok(name.map(|name| root.open(&name)).transpose()?)
}
