//! `bytecost report`, a run shown again from its samples, anywhere and without root, and `explain`.

mod hosts;

use std::env;
use std::ffi::OsString;
use std::path::Path;

use anyhow::Result;
use bytecost_analysis::{Analysis, beside, command_line};
use bytecost_spec::{Published, units};
use bytecost_store::{Folder, Root, Run, StoreError};

use crate::args::{ExplainArgs, FigureFormat, RUNS_DIR, RUNS_VARIABLE, ReportArgs, RootArgs};
use crate::failure::{Exit, bad_input, unknown};
use crate::published;
use crate::recorded_run::{RecordedRun, measured_ceiling};
use crate::terminal;

/// Analyses a run, writes its files anew and prints the answer; or writes its figures. Several runs
/// make one table over hosts.
pub fn run(args: ReportArgs) -> Result<Exit> {
    if hosts::are_meant(&args) {
        return hosts::run(&args);
    }
    if args.out.is_some() && args.figures.is_none() && args.json {
        return Err(bad_input(
            "--json writes no files: leave --out out, or add --figures svg",
        ));
    }
    let root = Root::at(&args.root.runs_dir);
    if let [name] = args.runs.as_slice()
        && let Some(text) = root.profile(name)?
    {
        return super::profile::show_again(&text, name, args.json);
    }
    let run = open(&args.root, args.runs.into_iter().next())?;
    let published = args.beside.as_deref().map(published_table).transpose()?;
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
        None => show(&evidence, &analysis, args.all, args.out.as_deref())?,
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

/// The published table of that name.
fn published_table(name: &str) -> Result<Published> {
    let mut tables = published::built_in()?.published;
    match tables.iter().position(|table| table.source == name) {
        Some(at) => Ok(tables.swap_remove(at)),
        None => Err(unknown(
            "publication",
            name,
            tables.iter().map(|table| table.source.as_str()),
        )),
    }
}

/// Writes a run's files and prints its answer, of the ceiling by the table of its rates; true when
/// trials failed or are lost.
pub(super) fn tell(evidence: &RecordedRun<'_>, is_ceiling: bool) -> Result<bool> {
    let analysis = evidence.analysis(None)?;
    if is_ceiling {
        if let Err(why) = write(evidence, &analysis, None) {
            super::note(not_written(evidence.run, &why));
        }
        super::print(&match measured_ceiling(evidence.run) {
            Some(ceiling) => bytecost_report::ceiling(&ceiling, &analysis, terminal::style()),
            None => bytecost_report::terminal(&analysis, terminal::style()),
        })?;
    } else {
        show(evidence, &analysis, false, None)?;
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
        None => run
            .folder("figures")
            .map_err(|why| bad_input(not_written(run, &why)))?,
    };
    for picture in pictures {
        let (ending, bytes) = match format {
            FigureFormat::Svg => ("svg", picture.svg.into_bytes()),
        };
        let name = format!("{}.{ending}", picture.name);
        folder.write(&name, &bytes)?;
        let path = folder.path().join(name).display().to_string();
        super::print(&(units::one_line(&path) + "\n"))?;
    }
    Ok(())
}

/// Prints the answer, whether its files can be written or not: where not, the reason stands in the
/// place of the page. A directory that the user names must take them.
fn show(
    evidence: &RecordedRun<'_>,
    analysis: &Analysis,
    all: bool,
    out: Option<&Path>,
) -> Result<()> {
    let run = evidence.run;
    let written = write(evidence, analysis, out);
    let page = match (&written, out) {
        (Ok(()), _) => out
            .unwrap_or(run.dir())
            .join("report.html")
            .display()
            .to_string(),
        (Err(why), None) => not_written(run, why),
        (Err(_), Some(_)) => return Ok(written?),
    };
    let page = units::one_line(&page);
    let style = terminal::style();
    let text = match all {
        true => format!(
            "{}\nFull report: {page}\n",
            bytecost_report::terminal(analysis, style)
        ),
        false => {
            let name = if is_newest(run) {
                String::new()
            } else {
                in_commands(run)
            };
            bytecost_report::screen(analysis, style, &page, &name)
        }
    };
    super::print(&text)?;
    Ok(())
}

/// Where commands in this shell look for runs.
fn usual_runs_dir() -> OsString {
    env::var_os(RUNS_VARIABLE).unwrap_or_else(|| RUNS_DIR.into())
}

/// Returns true if commands in this shell take this run where they name none.
fn is_newest(run: &Run) -> bool {
    let usual = usual_runs_dir();
    let newest = Root::at(&usual)
        .names()
        .ok()
        .and_then(|mut names| names.pop());
    newest.is_some_and(|name| run.dir() == Path::new(&usual).join(name))
}

/// A run as a command in this shell names it: by its name where that is enough, else by its directory.
pub(super) fn in_commands(run: &Run) -> String {
    let usual = usual_runs_dir();
    let (dir, name) = (run.dir(), run.dir().file_name());
    let is_usual = dir.parent() == Some(Path::new(&usual));
    let word = match name.filter(|_| is_usual) {
        Some(name) => name.to_string_lossy().into_owned(),
        None if dir.to_string_lossy().starts_with('-') => format!("./{}", dir.display()),
        None => dir.display().to_string(),
    };
    command_line(&[word])
}

/// The line about files that could not be written: the reason, and the command that writes them elsewhere.
fn not_written(run: &Run, why: &StoreError) -> String {
    format!(
        "not written, since {}: bytecost report {} --out DIR",
        why.reason(),
        in_commands(run)
    )
}

/// Writes a report's files beside the samples, or into this directory.
fn write(
    evidence: &RecordedRun<'_>,
    analysis: &Analysis,
    out: Option<&Path>,
) -> Result<(), StoreError> {
    let samples = bytecost_report::samples_csv(&evidence.plan.cells, &evidence.samples);
    let folder = out.map(Folder::make).transpose()?;
    let write = |name: &str, text: &[u8]| match &folder {
        Some(folder) => folder.write(name, text),
        None => evidence.run.write_output(name, text).map(drop),
    };
    write("report.html", bytecost_report::html(analysis).as_bytes())?;
    for picture in bytecost_report::pictures(analysis) {
        write(&format!("{}.svg", picture.name), picture.svg.as_bytes())?;
    }
    write("report.md", bytecost_report::markdown(analysis).as_bytes())?;
    let findings = bytecost_report::findings_json(analysis);
    write("findings.json", findings.as_bytes())?;
    let samples =
        samples.map_err(|why| StoreError::Unreadable("samples.csv".into(), why.to_string()));
    write("samples.csv", &samples?)
}
