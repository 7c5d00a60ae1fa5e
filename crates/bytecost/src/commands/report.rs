//! `bytecost report`: a run shown again from its samples, on any machine, without root.

use std::fs;

use anyhow::{Context, Result};
use bytecost_analysis::{Analysis, Input, analyse};
use bytecost_plan::Plan;
use bytecost_spec::{Record, Sample};
use bytecost_store::{Root, Run};

use crate::args::{FigureFormat, FiguresArgs, ReportArgs};
use crate::failure::{Ending, bad_input};
use crate::terminal;

/// Analyses a run, writes its files anew and prints the answer.
pub fn run(args: ReportArgs) -> Result<Ending> {
    let root = Root::at(&args.root.runs_dir);
    let name = match args.run {
        Some(name) => name,
        None => match root.runs()?.pop() {
            Some(newest) => newest.id,
            None => {
                return Err(bad_input(format!(
                    "no runs in {}: `bytecost run` makes one",
                    args.root.runs_dir.display()
                )));
            }
        },
    };
    let run = root.open(&name)?;
    let failed = match args.figures.figures {
        Some(format) => figures(&run, format, &args.figures)?,
        None => tell(&run)?,
    };
    Ok(if failed {
        Ending::SomeFailed
    } else {
        Ending::Done
    })
}

/// Writes every figure of a run as a file and prints the paths; true when trials failed.
fn figures(run: &Run, format: FigureFormat, args: &FiguresArgs) -> Result<bool> {
    let told = read(run)?;
    let pictures = bytecost_report::pictures(&told.analysis);
    if pictures.is_empty() {
        return Err(bad_input(format!(
            "{}: this run has no figures: its study draws none, or nothing that it draws was measured",
            run.dir().display()
        )));
    }
    let own = run.dir().join("figures");
    let dir = args.out.as_deref().unwrap_or(&own);
    fs::create_dir_all(dir)
        .with_context(|| format!("cannot make the directory {}", dir.display()))?;
    for picture in pictures {
        let (ending, bytes) = match format {
            FigureFormat::Svg => ("svg", picture.svg.into_bytes()),
            FigureFormat::Png => ("png", bytecost_report::png(&picture)?),
        };
        let path = dir.join(format!("{}.{ending}", picture.name));
        fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
        super::print(&format!("{}\n", path.display()))?;
    }
    Ok(told.failed)
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
struct Told {
    analysis: Analysis,
    plan: Plan,
    samples: Vec<Sample>,
    /// Whether trials failed.
    failed: bool,
}

fn read(run: &Run) -> Result<Told> {
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
    for picture in bytecost_report::pictures(analysis) {
        run.write_output(&format!("{}.svg", picture.name), picture.svg.as_bytes())?;
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
