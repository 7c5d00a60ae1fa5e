//! `bytecost report`, a run shown again from its samples, anywhere and without root, and `explain`.

mod hosts;

use std::path::Path;

use anyhow::Result;
use bytecost_analysis::{Analysis, beside};
use bytecost_spec::{Published, units};
use bytecost_store::{Folder, Root, Run};

use crate::args::{ExplainArgs, FigureFormat, ReportArgs, RootArgs};
use crate::failure::{Exit, bad_input};
use crate::published;
use crate::recorded_run::{RecordedRun, measured_ceiling};
use crate::terminal;

/// Analyses a run, writes its files anew and prints the answer; or writes its figures. Several runs
/// make one table over hosts.
pub fn run(args: ReportArgs) -> Result<Exit> {
    if hosts::are_meant(&args) {
        return hosts::run(&args);
    }
    if args.out.is_some() && args.figures.is_none() {
        return Err(bad_input(
            "--out is where figures go, or the table of several runs: add --figures svg, or name the runs",
        ));
    }
    let run = open(&args.root, args.runs.into_iter().next())?;
    let root = Root::at(&args.root.runs_dir);
    let published = args.beside.map(|name| imported(&root, &name));
    let published = published.transpose()?;
    let evidence = RecordedRun::of(&run)?;
    if let Some(other) = &published
        && beside(other, &evidence.plan.cells).cells.is_empty()
    {
        return Err(bad_input(format!(
            "run {} has no cell that {} published",
            run.manifest().id,
            other.source
        )));
    }
    let analysis = evidence.analysis(published.as_ref())?;
    match args.figures {
        Some(format) => figures(&run, &analysis, format, args.out.as_deref())?,
        None if args.json => super::print(&bytecost_report::findings_json(&analysis))?,
        None => show(&evidence, &analysis, args.all)?,
    }
    Ok(Exit::of(evidence.is_whole()))
}

/// `bytecost explain`: prints the answers to the questions about why; writes nothing.
pub fn explain(args: ExplainArgs) -> Result<Exit> {
    let run = open(&args.root, args.run)?;
    let analysis = RecordedRun::of(&run)?.analysis(None)?;
    super::printed(&match args.json {
        true => bytecost_report::explain_json(&analysis),
        false => bytecost_report::explain(&analysis, terminal::style()),
    })
}

/// The run of that name, or the newest.
fn open(args: &RootArgs, name: Option<String>) -> Result<Run> {
    let root = Root::at(&args.runs_dir);
    let newest = || root.names().map(|mut names| names.pop());
    let name = name.map_or_else(newest, |name| Ok(Some(name)))?;
    let name = name.ok_or_else(|| {
        bad_input(format!(
            "no runs in {}: `bytecost run` makes one",
            args.runs_dir.display()
        ))
    })?;
    Ok(root.open(&name)?)
}

/// The published table of an imported run, or one that is built in.
fn imported(root: &Root, name: &str) -> Result<Published> {
    let mut built_in = published::built_in()?.published.into_iter();
    if let Some(published) = built_in.find(|p| p.source == name) {
        return Ok(published);
    }
    match root.open(name)?.published()? {
        Some(imported) => Ok(imported.published),
        None => Err(bad_input(format!(
            "run {name} measured: --beside takes one that `bytecost import` made, or the name of a publication"
        ))),
    }
}

/// Writes a run's files and prints its answer, of the ceiling by the table of its rates; true when
/// trials failed or are lost.
pub(super) fn tell(evidence: &RecordedRun<'_>, is_ceiling: bool) -> Result<bool> {
    let analysis = evidence.analysis(None)?;
    if is_ceiling {
        write(evidence, &analysis)?;
        super::print(&match measured_ceiling(evidence.run) {
            Some(ceiling) => bytecost_report::ceiling(&ceiling, &analysis, terminal::style()),
            None => bytecost_report::terminal(&analysis, terminal::style()),
        })?;
    } else {
        show(evidence, &analysis, false)?;
    }
    Ok(!evidence.is_whole())
}

fn figures(run: &Run, analysis: &Analysis, format: FigureFormat, out: Option<&Path>) -> Result<()> {
    let pictures = bytecost_report::pictures(analysis);
    if pictures.is_empty() {
        return Err(bad_input(format!(
            "{}: this run has no figures: its study draws none, or nothing that it draws was measured",
            run.dir().display()
        )));
    }
    let folder = match out {
        Some(dir) => Folder::make(dir)?,
        None => run.folder("figures")?,
    };
    for picture in pictures {
        let (ending, bytes) = match format {
            FigureFormat::Svg => ("svg", picture.svg.into_bytes()),
            FigureFormat::Png => ("png", bytecost_report::png(&picture)?),
        };
        let name = format!("{}.{ending}", picture.name);
        folder.write(&name, &bytes)?;
        let path = folder.path().join(name).display().to_string();
        super::print(&(units::one_line(&path) + "\n"))?;
    }
    Ok(())
}

fn show(evidence: &RecordedRun<'_>, analysis: &Analysis, all: bool) -> Result<()> {
    write(evidence, analysis)?;
    let run = evidence.run;
    let page = units::one_line(&run.dir().join("report.html").display().to_string());
    let style = terminal::style();
    let text = match all {
        true => format!(
            "{}\nFull report: {page}\n",
            bytecost_report::terminal(analysis, style)
        ),
        false => bytecost_report::screen(analysis, style, &page, &run.manifest().id),
    };
    super::print(&text)?;
    Ok(())
}

fn write(evidence: &RecordedRun<'_>, analysis: &Analysis) -> Result<()> {
    let write = |name: &str, text: &[u8]| evidence.run.write_output(name, text);
    write("report.html", bytecost_report::html(analysis).as_bytes())?;
    for picture in bytecost_report::pictures(analysis) {
        write(&format!("{}.svg", picture.name), picture.svg.as_bytes())?;
    }
    write("report.md", bytecost_report::markdown(analysis).as_bytes())?;
    let findings = bytecost_report::findings_json(analysis);
    write("findings.json", findings.as_bytes())?;
    let samples = bytecost_report::samples_csv(&evidence.plan.cells, &evidence.samples)?;
    write("samples.csv", &samples)?;
    Ok(())
}
