//! `bytecost export`: a run in the columns of a publication.

use std::fs;

use anyhow::{Context, Result};
use bytecost_report::layout::{TableLayout, layouts};
use bytecost_spec::study::AS_PUBLISHED;
use bytecost_store::Root;

use crate::args::ExportArgs;
use crate::failure::{Exit, bad_input, unknown};
use crate::recorded_run::RecordedRun;

pub fn run(args: &ExportArgs) -> Result<Exit> {
    let layout = named(&args.layout)?;
    let run = Root::at(&args.root.runs_dir).open(&args.run)?;
    let evidence = RecordedRun::of(&run)?;
    let text = match &evidence.imported {
        Some(imported) if imported.layout == layout.name() => layout.csv_of_imported(imported),
        Some(imported) => {
            return Err(bad_input(format!(
                "run {} was imported in layout {}: export it in the same",
                args.run, imported.layout
            )));
        }
        None => {
            let as_published = run.manifest().study.design.as_deref() == Some(AS_PUBLISHED);
            let text = layout.csv(&evidence.cells, &evidence.samples, as_published);
            text.map_err(bad_input)?
        }
    };
    let Some(path) = &args.out else {
        return super::printed(&text);
    };
    fs::write(path, &text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(Exit::Done)
}

pub fn named(name: &str) -> Result<&'static dyn TableLayout> {
    layouts()
        .find(|layout| layout.name() == name)
        .ok_or_else(|| unknown("layout", name, layouts().map(TableLayout::name)))
}
