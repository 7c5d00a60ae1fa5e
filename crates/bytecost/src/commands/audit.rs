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
        let runs = args.runs.iter().map(|name| root.open(name));
        runs.collect::<Result<Vec<_>, _>>()?
    };
    let judged = if runs.is_empty() {
        vec![(None, of_tables(&grounds, &root)?)]
    } else {
        let judged = runs.iter().map(|run| {
            let recorded = RecordedRun::of(run)?;
            let rulings = audit(recorded.input(None), &grounds);
            Ok((Some(run.manifest().id.clone()), rulings))
        });
        judged.collect::<Result<_>>()?
    };
    let settled = settled(judged);
    super::printed(&match args.json {
        true => json(&settled),
        false => terminal(&settled, crate::terminal::style()),
    })
}

/// Rulings without a run: calculations on published tables take none.
fn of_tables(grounds: &Grounds, root: &Root) -> Result<Vec<Audited>> {
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
    let newest = root.names()?.pop();
    Ok(newest.map(|name| root.open(&name)).transpose()?)
}
