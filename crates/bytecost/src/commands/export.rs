//! `bytecost export`: a run in the columns of a publication.

use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use anyhow::Result;
use bytecost_report::layout::{TableLayout, layouts};
use bytecost_spec::study::AS_PUBLISHED;
use bytecost_store::{Folder, Root};
use rustix::process::geteuid;

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
            let text = layout.csv(&evidence.plan.cells, &evidence.samples, as_published);
            text.map_err(bad_input)?
        }
    };
    let Some(path) = &args.out else {
        return super::printed(&text);
    };
    // A device or a pipe is written to, and so is a link; for root only where root made it.
    let is_followed = |to: &Metadata| !to.is_symlink() || to.uid() == 0 || !geteuid().is_root();
    let there = fs::symlink_metadata(path).ok();
    let through = there.is_some_and(|to| !to.is_file() && is_followed(&to));
    match (path.parent(), path.file_name().and_then(OsStr::to_str)) {
        (Some(dir), Some(name)) if !through => {
            Folder::open(&Path::new(".").join(dir))?.write(name, text.as_bytes())?;
        }
        _ => fs::write(path, &text)
            .map_err(|why| bad_input(format!("cannot write {}: {why}", path.display())))?,
    }
    Ok(Exit::Done)
}

pub fn named(name: &str) -> Result<&'static dyn TableLayout> {
    layouts()
        .find(|layout| layout.name() == name)
        .ok_or_else(|| unknown("layout", name, layouts().map(TableLayout::name)))
}
