//! Several runs of one study, of several hosts or pairs of hosts, in one table.

use std::fs;
use std::path::Path;

use anyhow::Result;
use bytecost_analysis::Analysis;
use bytecost_analysis::ceiling::is_same_machine;
use bytecost_report::hosts::{self, HostRun};
use bytecost_spec::{Host, PeerSide};
use bytecost_store::{Folder, Root, Run};
use itertools::Itertools as _;

use crate::args::ReportArgs;
use crate::commands::{note, print};
use crate::failure::{Exit, bad_input};
use crate::recorded_run::RecordedRun;
use crate::terminal;

const MANIFEST: &str = "manifest.json";

struct JudgedRun {
    host: String,
    /// Its directory, for messages.
    path: String,
    build: Option<String>,
    is_whole: bool,
    analysis: Analysis,
}

/// Returns true if the command line names several runs: by several names, or by a directory of runs.
pub fn has_several_runs(args: &ReportArgs) -> bool {
    match &args.runs[..] {
        [one] => runs_in(Path::new(one)).is_some(),
        names => names.len() > 1,
    }
}

/// Prints the table of the newest run of each host. A run that cannot be read is a note, and makes
/// the status 1.
pub fn run(args: &ReportArgs) -> Result<Exit> {
    if args.figures.is_some() || args.beside.is_some() {
        return Err(bad_input(
            "--figures and --beside are for one run: name one, or leave them out",
        ));
    }
    let root = Root::at(&args.root.runs_dir);
    let mut notes = Vec::new();
    let mut found = Vec::new();
    for name in args.runs.iter().flat_map(|name| runs_of_name(name)) {
        let opened = root.open(&name).map_err(Into::into);
        match opened.and_then(|run| judged(&run)) {
            Ok(run) => found.push(run),
            Err(why) => notes.push(format!("{name} is not shown: {why:#}")),
        }
    }
    if found.is_empty() {
        return Err(bad_input(format!("no run to show: {}", notes.join("; "))));
    }
    let all_are_shown = notes.is_empty();
    let newest = newest_of_each_host(found, &mut notes);
    let studies = newest
        .iter()
        .map(JudgedRun::study)
        .sorted()
        .dedup()
        .collect_vec();
    if studies.len() > 1 {
        return Err(bad_input(format!(
            "these runs are of several studies, {}: name those of one, for example runs/*/*-{}",
            studies.join(", "),
            newest[0].analysis.study.name
        )));
    }
    notes.iter().for_each(note);
    let runs: Vec<HostRun<'_>> = newest.iter().map(JudgedRun::table_entry).collect();
    let table = hosts::table(&runs);
    if let Some(dir) = &args.out {
        let folder = Folder::make(dir)?;
        folder.write("hosts.html", hosts::html(&table).as_bytes())?;
        folder.write("hosts.md", hosts::markdown(&table).as_bytes())?;
        folder.write("hosts.json", hosts::json(&table).as_bytes())?;
        folder.write("hosts.csv", &hosts::csv(&table)?)?;
    }
    print(&if args.json {
        hosts::json(&table)
    } else {
        hosts::terminal(&table, args.all, terminal::style())
    })?;
    let all_are_whole = newest.iter().all(|run| run.is_whole);
    Ok(Exit::from_success(all_are_shown && all_are_whole))
}

/// The runs in a directory, in the order of their names; none if it has none, or is a run itself.
fn runs_in(dir: &Path) -> Option<Vec<String>> {
    if dir.join(MANIFEST).exists() {
        return None;
    }
    let runs = fs::read_dir(dir)
        .ok()?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.join(MANIFEST).exists())
        .sorted()
        .map(|path| path.display().to_string())
        .collect_vec();
    (!runs.is_empty()).then_some(runs)
}

/// The names of the runs in a directory of runs, or the name of one run itself.
fn runs_of_name(name: &str) -> Vec<String> {
    runs_in(Path::new(name)).unwrap_or_else(|| vec![name.to_owned()])
}

fn judged(run: &Run) -> Result<JudgedRun> {
    let recorded = RecordedRun::read(run)?;
    let analysis = recorded.analysis(None)?;
    Ok(JudgedRun {
        host: host_name(run, &analysis),
        path: run.dir().display().to_string(),
        build: run.manifest().build_id.clone(),
        is_whole: recorded.is_whole(),
        analysis,
    })
}

/// The name of the directory that holds the run; with a peer an arrow and the other host follow.
fn host_name(run: &Run, a: &Analysis) -> String {
    let dir = (run.dir().canonicalize()).unwrap_or_else(|_| run.dir().to_owned());
    let parent = dir.parent().and_then(|parent| parent.file_name());
    let measurer = parent.map_or(a.run.id.as_str().into(), |name| name.to_string_lossy());
    let Some(peer) = &a.peer else {
        return measurer.into_owned();
    };
    let arrow = match peer.side {
        PeerSide::Receiver => "→",
        PeerSide::Sender => "←",
    };
    format!("{measurer} {arrow} {}", peer.name)
}

/// The newest run of each host, with a note of each older one. Hosts whose runs are in one directory
/// would have the same name, and have the ids of their runs instead.
fn newest_of_each_host(mut runs: Vec<JudgedRun>, notes: &mut Vec<String>) -> Vec<JudgedRun> {
    runs.sort_by(|a, b| b.analysis.run.started.cmp(&a.analysis.run.started));
    let mut kept: Vec<JudgedRun> = Vec::new();
    for run in runs {
        match kept.iter().find(|newer| newer.is_of_the_same_host(&run)) {
            Some(newer) => notes.push(format!(
                "{} is not shown: {} of the same host is newer",
                run.path, newer.path
            )),
            None => kept.push(run),
        }
    }
    kept.sort_by(|a, b| (&a.host, &a.path).cmp(&(&b.host, &b.path)));
    let names: Vec<String> = kept.iter().map(|run| run.host.clone()).collect();
    for run in &mut kept {
        if names.iter().filter(|name| **name == run.host).count() > 1 {
            run.host.clone_from(&run.analysis.run.id);
        }
    }
    kept
}

impl JudgedRun {
    fn table_entry(&self) -> HostRun<'_> {
        HostRun {
            host: &self.host,
            build: self.build.as_deref(),
            analysis: &self.analysis,
        }
    }

    /// The name of the study, with that of a design which replaced its own.
    fn study(&self) -> String {
        let study = &self.analysis.study;
        match &study.design {
            Some(design) => format!("{} ({design})", study.name),
            None => study.name.clone(),
        }
    }

    fn is_of_the_same_host(&self, other: &JudgedRun) -> bool {
        let machine = |host: &Host| host.identity.machine_id_hash.clone();
        let (one, two) = (&self.analysis.host, &other.analysis.host);
        let is_same = match (machine(one), machine(two)) {
            (Some(one), Some(two)) => one == two,
            _ => is_same_machine(one, two),
        };
        self.host == other.host && self.study() == other.study() && is_same
    }
}
