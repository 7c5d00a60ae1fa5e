//! `bytecost report`: a run shown again from its samples, on any machine, without root.

use anyhow::Result;
use bytecost_analysis::{Analysis, Input, analyse};
use bytecost_plan::Plan;
use bytecost_spec::{Record, Sample};
use bytecost_store::{Root, Run};

use crate::args::{ReportArgs, RootArgs};
use crate::failure::{Ending, bad_input};
use crate::terminal;

/// Analyses a run, writes its files anew and prints the answer.
pub fn run(args: ReportArgs) -> Result<Ending> {
    let run = open(&args.root, args.run)?;
    let failed = tell(&run)?;
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

/// Writes a run's files and prints its answer; true when trials failed.
pub fn tell(run: &Run) -> Result<bool> {
    let told = read(run)?;
    write(run, &told)?;
    super::print(&bytecost_report::terminal(
        &told.analysis,
        terminal::style(),
    ))?;
    super::print(&format!(
        "\nThe page to look at: {}\n",
        run.dir().join("report.html").display()
    ))?;
    Ok(told.failed)
}

/// A run read back and analysed.
pub(super) struct Told {
    pub(super) analysis: Analysis,
    plan: Plan,
    samples: Vec<Sample>,
    /// Whether trials failed.
    failed: bool,
}

/// Reads a run back and analyses it.
pub(super) fn read(run: &Run) -> Result<Told> {
    let loaded = run.records()?;
    let plan = Plan::from_manifest(run.manifest()).map_err(bad_input)?;
    for record in &loaded.records {
        let (cell, id) = match record {
            Record::Sample(s) => (s.trial.cell, &s.cell),
            Record::Failure(f) => (f.trial.cell, &f.cell),
        };
        // A version that chose cells otherwise would give every number to the wrong cell.
        if plan.cells.get(cell as usize).map(|c| c.id()).as_ref() != Some(id) {
            return Err(bad_input(format!(
                "{}: its samples are not of the cells that its manifest gives: was it edited, or written by another version ({})?",
                run.dir().display(),
                run.manifest().bytecost_version
            )));
        }
    }
    let mut samples = Vec::with_capacity(loaded.records.len());
    let mut failures = Vec::new();
    for record in loaded.records {
        match record {
            Record::Sample(sample) => samples.push(sample),
            Record::Failure(failure) => failures.push(failure),
        }
    }
    let ended_early = run.ending()?.and_then(|e| e.early);
    let analysis = analyse(Input {
        manifest: run.manifest(),
        cells: &plan.cells,
        refusals: &plan.refusals,
        left_out: &plan.left_out,
        samples: &samples,
        failures: &failures,
        notes: &plan.notes,
        ended_early: ended_early.as_deref(),
        published: None,
    });
    Ok(Told {
        analysis,
        plan,
        samples,
        failed: !failures.is_empty(),
    })
}

fn write(run: &Run, told: &Told) -> Result<()> {
    let Told {
        analysis,
        plan,
        samples,
        ..
    } = told;
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
        &bytecost_report::samples_csv(&plan.cells, samples)?,
    )?;
    Ok(())
}
