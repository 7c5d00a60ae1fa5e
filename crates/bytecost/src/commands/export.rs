//! `bytecost export`: a run in the columns of a publication.

use std::path::Path;

use anyhow::Result;
use bytecost_report::layout::{TableLayout, layouts};
use bytecost_spec::study::AS_PUBLISHED;
use bytecost_store::{Folder, Root};

use crate::args::ExportArgs;
use crate::failure::{Exit, bad_input, unknown};
use crate::recorded_run::RecordedRun;

pub fn run(args: &ExportArgs) -> Result<Exit> {
    let layout = named(&args.layout)?;
    let run = Root::at(&args.root.runs_dir).open(&args.run)?;
    let recorded = RecordedRun::read(&run)?;
    let as_published = run.manifest().study.design.as_deref() == Some(AS_PUBLISHED);
    let text = layout
        .csv(&recorded.plan.cells, &recorded.samples, as_published)
        .map_err(bad_input)?;
    let Some(path) = &args.out else {
        return super::printed(&text);
    };
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
        let message = format!("cannot write {}: it is a directory", path.display());
        return Err(bad_input(message));
    };
    let folder = Folder::open(&Path::new(".").join(dir))?;
    match name.to_str().filter(|_| !folder.leads_through(name)) {
        Some(name) => folder.write(name, text.as_bytes())?,
        None => folder.write_through(name, text.as_bytes())?,
    }
    Ok(Exit::Done)
}

fn named(name: &str) -> Result<&'static dyn TableLayout> {
    layouts()
        .find(|layout| layout.name() == name)
        .ok_or_else(|| unknown("layout", name, layouts().map(TableLayout::name)))
}
