//! `bytecost import`: a published table as a run without trials.

use anyhow::Result;
use bytecost_spec::table::MAX_TABLE_BYTES;
use bytecost_spec::{Host, Manifest};
use bytecost_store::Root;

use crate::args::ImportArgs;
use crate::failure::{Exit, bad_input};
use crate::machine;

pub fn run(args: &ImportArgs) -> Result<Exit> {
    let layout = super::export::named(&args.layout)?;
    let text = crate::published::read(&args.file, MAX_TABLE_BYTES)?;
    let imported = layout
        .import(&text)
        .map_err(|e| bad_input(format!("{}: {e}", args.file.display())))?;
    let unknown = "as published".to_owned();
    let manifest = Manifest {
        bytecost_version: env!("CARGO_PKG_VERSION").to_owned(),
        started: machine::now()?,
        command: super::run::command_line(),
        host: Host {
            kernel: unknown.clone(),
            architecture: unknown.clone(),
            cpu_model: unknown,
            ..Host::default()
        },
        ..Manifest::new(layout.study(&imported.published))
    };
    let mut run = Root::at(&args.root.runs_dir).create_fresh(manifest)?;
    run.write_published(&imported)?;
    run.end(machine::now()?, None)?;
    super::printed(&format!(
        "{}: {} cells, without trials; `bytecost report {0}` shows them, `bytecost report RUN --beside {0}` next to a run\n",
        run.manifest().id,
        imported.published.cells.len()
    ))
}
