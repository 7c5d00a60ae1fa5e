//! `bytecost report`: a run shown again from its samples, on any machine, without root.

use anyhow::Result;
use bytecost_analysis::{Analysis, beside};
use bytecost_spec::{Cell, Published, Sample};
use bytecost_store::{Root, Run};

use crate::args::{ReportArgs, RootArgs};
use crate::evidence::Evidence;
use crate::failure::{Ending, bad_input};
use crate::terminal;

/// Analyses a run, writes its files anew and prints the answer.
pub fn run(args: ReportArgs) -> Result<Ending> {
    let run = open(&args.root, args.run)?;
    let root = Root::at(&args.root.runs_dir);
    let beside = args.beside.map(|name| imported(&root, &name)).transpose()?;
    let failed = show(&run, beside.as_ref())?;
    Ok(if failed {
        Ending::SomeFailed
    } else {
        Ending::Done
    })
}

/// The run of that name, or the newest.
pub(super) fn open(args: &RootArgs, name: Option<String>) -> Result<Run> {
    let root = Root::at(&args.runs_dir);
    let name = match name {
        Some(name) => name,
        None => match root.runs()?.pop() {
            Some(newest) => newest.id,
            None => {
                return Err(bad_input(format!(
                    "no runs in {}: `bytecost run` makes one",
                    args.runs_dir.display()
                )));
            }
        },
    };
    Ok(root.open(&name)?)
}

/// The published table of an imported run.
fn imported(root: &Root, name: &str) -> Result<Published> {
    match root.open(name)?.published()? {
        Some(imported) => Ok(imported.published),
        None => Err(bad_input(format!(
            "run {name} measured: --beside takes one that `bytecost import` made"
        ))),
    }
}

/// Writes a run's files and prints its answer; true when trials failed.
pub fn tell(run: &Run) -> Result<bool> {
    show(run, None)
}

fn show(run: &Run, published: Option<&Published>) -> Result<bool> {
    let evidence = Evidence::of(run)?;
    let published = match published {
        Some(published) => {
            let beside = beside(published, &evidence.cells);
            if beside.cells.is_empty() {
                return Err(bad_input(format!(
                    "run {} has no cell that {} published",
                    run.manifest().id,
                    published.source
                )));
            }
            Some(beside)
        }
        None => None,
    };
    let analysis = evidence.analysis(published.as_ref())?;
    write(run, &analysis, &evidence.cells, &evidence.samples)?;
    super::print(&bytecost_report::terminal(&analysis, terminal::style()))?;
    super::print(&format!(
        "\nThe page to look at: {}\n",
        run.dir().join("report.html").display()
    ))?;
    Ok(!evidence.failures.is_empty())
}

fn write(run: &Run, analysis: &Analysis, cells: &[Cell], samples: &[Sample]) -> Result<()> {
    run.write_output("report.html", bytecost_report::html(analysis).as_bytes())?;
    for (name, picture) in bytecost_report::pictures(analysis) {
        run.write_output(&name, picture.as_bytes())?;
    }
    run.write_output("report.md", bytecost_report::markdown(analysis).as_bytes())?;
    run.write_output(
        "findings.json",
        bytecost_report::findings_json(analysis).as_bytes(),
    )?;
    run.write_output(
        "samples.csv",
        &bytecost_report::samples_csv(cells, samples)?,
    )?;
    Ok(())
}
