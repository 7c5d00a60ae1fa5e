//! `bytecost report`: a run shown again from its samples, on any machine, without root.

use std::fs;

use anyhow::{Context, Result};
use bytecost_analysis::{Analysis, beside};
use bytecost_spec::{Cell, Published, Sample};
use bytecost_store::{Root, Run};

use crate::args::{FigureFormat, FiguresArgs, ReportArgs};
use crate::evidence::Evidence;
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
    let beside = args.beside.map(|name| imported(&root, &name)).transpose()?;
    let failed = match args.figures.figures {
        Some(format) => figures(&run, beside.as_ref(), format, &args.figures)?,
        None => show(&run, beside.as_ref())?,
    };
    Ok(if failed {
        Ending::SomeFailed
    } else {
        Ending::Done
    })
}

/// Writes every figure of a run as a file and prints the paths; true when trials failed.
fn figures(
    run: &Run,
    published: Option<&Published>,
    format: FigureFormat,
    args: &FiguresArgs,
) -> Result<bool> {
    let (evidence, analysis) = read(run, published)?;
    let pictures = bytecost_report::pictures(&analysis);
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
    Ok(!evidence.failures.is_empty())
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

/// A run's samples and what they come to, with what was published beside it.
fn read<'r>(run: &'r Run, published: Option<&Published>) -> Result<(Evidence<'r>, Analysis)> {
    let evidence = Evidence::of(run)?;
    if let Some(published) = published
        && beside(published, &evidence.cells).cells.is_empty()
    {
        return Err(bad_input(format!(
            "run {} has no cell that {} published",
            run.manifest().id,
            published.source
        )));
    }
    let analysis = evidence.analysis(published)?;
    Ok((evidence, analysis))
}

fn show(run: &Run, published: Option<&Published>) -> Result<bool> {
    let (evidence, analysis) = read(run, published)?;
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
        &bytecost_report::samples_csv(cells, samples)?,
    )?;
    Ok(())
}
