//! `bytecost report` and `bytecost explain`: a run analysed again from its samples, on any machine
//! and without root.

mod hosts;

use std::env;
use std::ffi::OsString;
use std::path::Path;

use anyhow::Result;
use bytecost_analysis::{Analysis, command_line, published_cells};
use bytecost_spec::{Published, units};
use bytecost_store::{Folder, Root, Run, StoreError};

use crate::args::{ExplainArgs, FigureFormat, RUNS_DIR, RUNS_VARIABLE, ReportArgs, RootArgs};
use crate::failure::{Exit, bad_input, unknown};
use crate::published;
use crate::recorded_run::{RecordedRun, measured_ceiling};
use crate::terminal;

/// `bytecost report`: analyses a run, writes its files again and prints the answer, or writes its figures
/// alone. Several runs become one table over hosts.
pub fn run(args: ReportArgs) -> Result<Exit> {
    if hosts::has_several_runs(&args) {
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
    let recorded = RecordedRun::read(&run)?;
    if let Some(other) = &published
        && published_cells(other, &recorded.plan.cells)
            .cells
            .is_empty()
    {
        return Err(bad_input(format!(
            "run {} has no cell that {} published",
            run.manifest().id,
            other.source
        )));
    }
    let analysis = recorded.analysis(published.as_ref())?;
    match args.figures {
        Some(format) => write_figures(&run, &analysis, format, args.out.as_deref())?,
        None if args.json => super::print(&bytecost_report::findings_json(&analysis))?,
        None => show(&recorded, &analysis, args.all, args.out.as_deref())?,
    }
    Ok(Exit::from_success(recorded.is_whole()))
}

/// `bytecost explain`: prints the explanations of a run's results, and writes no file.
pub fn explain(args: ExplainArgs) -> Result<Exit> {
    let run = open(&args.root, args.run)?;
    let analysis = RecordedRun::read(&run)?.analysis(None)?;
    super::printed(&if args.json {
        bytecost_report::explain_json(&analysis)
    } else {
        bytecost_report::explain(&analysis, terminal::style())
    })
}

/// Opens the run of that name, or the newest if none is named.
fn open(args: &RootArgs, name: Option<String>) -> Result<Run> {
    let root = Root::at(&args.runs_dir);
    let named_or_newest = match name {
        Some(name) => Some(name),
        None => root.names()?.pop(),
    };
    let Some(id) = named_or_newest else {
        return Err(bad_input(format!(
            "no runs in {}: `bytecost run` makes one",
            args.runs_dir.display()
        )));
    };
    Ok(root.open(&id)?)
}

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

/// Writes the files of a run that has ended and prints its answer, or the rates of a ceiling.
pub(super) fn write_and_print(recorded: &RecordedRun<'_>, is_ceiling: bool) -> Result<()> {
    let analysis = recorded.analysis(None)?;
    if !is_ceiling {
        return show(recorded, &analysis, false, None);
    }
    if let Err(why) = write_files(recorded, &analysis, None) {
        super::note(not_written(recorded.run, &why));
    }
    super::print(&match measured_ceiling(recorded.run) {
        Some(ceiling) => bytecost_report::ceiling(&ceiling, &analysis, terminal::style()),
        None => bytecost_report::terminal(&analysis, terminal::style()),
    })?;
    Ok(())
}

/// Writes each figure to a file, and prints the paths.
fn write_figures(
    run: &Run,
    analysis: &Analysis,
    format: FigureFormat,
    out: Option<&Path>,
) -> Result<()> {
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

/// Writes the files of a run and prints its answer with the path of the page. If the directory of the
/// run cannot be written to, the answer has the reason instead of the path.
///
/// # Errors
/// A directory `out` that cannot be written to.
fn show(
    recorded: &RecordedRun<'_>,
    analysis: &Analysis,
    all: bool,
    out: Option<&Path>,
) -> Result<()> {
    let run = recorded.run;
    let page = match (write_files(recorded, analysis, out), out) {
        (Ok(()), _) => {
            let path = out.unwrap_or(run.dir()).join("report.html");
            path.display().to_string()
        }
        (Err(why), None) => not_written(run, &why),
        (Err(why), Some(_)) => return Err(why.into()),
    };
    let page_line = units::one_line(&page);
    let style = terminal::style();
    let text = if all {
        let everything = bytecost_report::terminal(analysis, style);
        format!("{everything}\nFull report: {page_line}\n")
    } else {
        let name = if is_newest(run) {
            String::new()
        } else {
            run_argument(run)
        };
        bytecost_report::screen(analysis, style, &page_line, &name)
    };
    super::print(&text)?;
    Ok(())
}

/// The directory in which commands of this shell look for runs, if they have no option.
fn default_runs_dir() -> OsString {
    env::var_os(RUNS_VARIABLE).unwrap_or_else(|| RUNS_DIR.into())
}

/// Returns true if commands in this shell use this run by default.
fn is_newest(run: &Run) -> bool {
    let default_dir = default_runs_dir();
    let newest = Root::at(&default_dir)
        .names()
        .ok()
        .and_then(|mut names| names.pop());
    newest.is_some_and(|name| run.dir() == Path::new(&default_dir).join(name))
}

/// The argument that names a run to commands of this shell: its name, or its directory if that is not in
/// the default one.
pub(super) fn run_argument(run: &Run) -> String {
    let default_dir = default_runs_dir();
    let (dir, name) = (run.dir(), run.dir().file_name());
    let is_in_default = dir.parent() == Some(Path::new(&default_dir));
    let word = match name.filter(|_| is_in_default) {
        Some(name) => name.to_string_lossy().into_owned(),
        None if dir.to_string_lossy().starts_with('-') => format!("./{}", dir.display()),
        None => dir.display().to_string(),
    };
    command_line(&[word])
}

/// A line with the reason why files could not be written, and a command that writes them elsewhere.
fn not_written(run: &Run, why: &StoreError) -> String {
    format!(
        "not written, since {}: bytecost report {} --out DIR",
        why.reason(),
        run_argument(run)
    )
}

/// Writes page, figures, Markdown, findings and samples into the directory of the run, or into `out`.
fn write_files(
    recorded: &RecordedRun<'_>,
    analysis: &Analysis,
    out: Option<&Path>,
) -> Result<(), StoreError> {
    let folder = out.map(Folder::make).transpose()?;
    let write = |name: &str, text: &[u8]| match &folder {
        Some(folder) => folder.write(name, text),
        None => recorded.run.write_output(name, text).map(drop),
    };
    write("report.html", bytecost_report::html(analysis).as_bytes())?;
    for picture in bytecost_report::pictures(analysis) {
        write(&format!("{}.svg", picture.name), picture.svg.as_bytes())?;
    }
    write("report.md", bytecost_report::markdown(analysis).as_bytes())?;
    let findings = bytecost_report::findings_json(analysis);
    write("findings.json", findings.as_bytes())?;
    let samples = bytecost_report::samples_csv(&recorded.plan.cells, &recorded.samples)
        .map_err(|why| StoreError::Unreadable("samples.csv".into(), why.to_string()))?;
    write("samples.csv", &samples)
}
