//! `bytecost import`: a published table as a run without trials.

use anyhow::Result;
use bytecost_spec::manifest::FORMAT;
use bytecost_spec::table::MAX_TABLE_BYTES;
use bytecost_spec::{Host, Manifest, Survey};
use bytecost_store::{Ending as RunEnding, Root};

use crate::args::ImportArgs;
use crate::failure::{Exit, bad_input};

/// Makes a run directory of the table.
pub fn run(args: &ImportArgs) -> Result<Exit> {
    let layout = super::export::named(&args.layout)?;
    let text = crate::published::read(&args.file, MAX_TABLE_BYTES)?;
    let imported = layout
        .import(&text)
        .map_err(|e| bad_input(format!("{}: {e}", args.file.display())))?;
    let unknown = "as published".to_owned();
    let manifest = Manifest {
        format: FORMAT,
        id: String::new(),
        bytecost_version: env!("CARGO_PKG_VERSION").to_owned(),
        build_id: None,
        started: super::run::now()?,
        seed: 0,
        command: super::run::command_line(),
        study: layout.study(&imported.published),
        host: Host {
            kernel: unknown.clone(),
            architecture: unknown.clone(),
            cpu_model: unknown,
            ..Host::default()
        },
        evidence: Vec::new(),
        survey: Survey::default(),
        peer: None,
        own_cards: Vec::new(),
        legs: Vec::new(),
        bisection: None,
        looks: Vec::new(),
        expectation: None,
    };
    let mut run = Root::at(&args.root.runs_dir).create_fresh(manifest)?;
    run.write_published(&imported)?;
    run.end(&RunEnding {
        ended: super::run::now()?,
        early: None,
        records: None,
    })?;
    super::print(&format!(
        "{}: {} cells, without trials; `bytecost report {0}` shows them, `bytecost report RUN --beside {0}` next to a run\n",
        run.manifest().id,
        imported.published.cells.len()
    ))?;
    Ok(Exit::Done)
}
