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

/// Whether what is named are several runs: several names, or a directory of runs.
pub fn are_meant(args: &ReportArgs) -> bool {
    match &args.runs[..] {
        [one] => runs_in(Path::new(one)).is_some(),
        names => names.len() > 1,
    }
}

/// The table of the newest run of each host; what is left out is noted, and makes the status 1.
pub fn run(args: &ReportArgs) -> Result<Exit> {
    if args.figures.is_some() || args.beside.is_some() {
        return Err(bad_input(
            "--figures and --beside are for one run: name one, or leave them out",
        ));
    }
    let root = Root::at(&args.root.runs_dir);
    let mut notes = Vec::new();
    let mut found = Vec::new();
    for name in args.runs.iter().flat_map(|name| spread(name)) {
        let run = root.open(&name).map_err(Into::into);
        match run.and_then(|run| judged(&run)) {
            Ok(run) => found.push(run),
            Err(why) => notes.push(format!("{name} is not shown: {why:#}")),
        }
    }
    if found.is_empty() {
        return Err(bad_input(format!("no run to show: {}", notes.join("; "))));
    }
    let all_are_shown = notes.is_empty();
    let found = newest(found, &mut notes);
    let studies = found.iter().map(JudgedRun::study).sorted().dedup();
    let studies = studies.collect_vec();
    if studies.len() > 1 {
        return Err(bad_input(format!(
            "these runs are of several studies, {}: name those of one, for example runs/*/*-{}",
            studies.join(", "),
            found[0].analysis.study.name
        )));
    }
    notes.iter().for_each(note);
    let runs: Vec<HostRun<'_>> = found.iter().map(JudgedRun::shown).collect();
    let table = hosts::table(&runs);
    if let Some(dir) = &args.out {
        let folder = Folder::make(dir)?;
        folder.write("hosts.html", hosts::html(&table).as_bytes())?;
        folder.write("hosts.md", hosts::markdown(&table).as_bytes())?;
        folder.write("hosts.json", hosts::json(&table).as_bytes())?;
        folder.write("hosts.csv", &hosts::csv(&table)?)?;
    }
    print(&match args.json {
        true => hosts::json(&table),
        false => hosts::terminal(&table, args.all, terminal::style()),
    })?;
    let are_whole = found.iter().all(|run| run.is_whole);
    Ok(Exit::of(all_are_shown && are_whole))
}

/// The runs in a directory that is none itself, in the order of their names; none where it has none.
fn runs_in(dir: &Path) -> Option<Vec<String>> {
    if dir.join(MANIFEST).exists() {
        return None;
    }
    let entries = fs::read_dir(dir).ok()?.flatten().map(|entry| entry.path());
    let runs = entries.filter(|path| path.join(MANIFEST).exists());
    let runs = runs.sorted().map(|path| path.display().to_string());
    let runs = runs.collect_vec();
    (!runs.is_empty()).then_some(runs)
}

/// The runs that a name stands for: itself, or those in a directory of runs.
fn spread(name: &str) -> Vec<String> {
    runs_in(Path::new(name)).unwrap_or_else(|| vec![name.to_owned()])
}

fn judged(run: &Run) -> Result<JudgedRun> {
    let recorded = RecordedRun::of(run)?;
    let analysis = recorded.analysis(None)?;
    Ok(JudgedRun {
        host: host_name(run, &analysis),
        path: run.dir().display().to_string(),
        build: run.manifest().build_id.clone(),
        is_whole: recorded.is_whole(),
        analysis,
    })
}

/// The directory that holds the run, and behind it the other host, where there is one.
fn host_name(run: &Run, a: &Analysis) -> String {
    let dir = run.dir().canonicalize();
    let dir = dir.unwrap_or_else(|_| run.dir().to_owned());
    let holder = dir.parent().and_then(|holder| holder.file_name());
    let own = holder.map_or(a.run.id.as_str().into(), |name| name.to_string_lossy());
    let Some(peer) = &a.peer else {
        return own.into_owned();
    };
    let arrow = match peer.side {
        PeerSide::Receiver => "→",
        PeerSide::Sender => "←",
    };
    format!("{own} {arrow} {}", peer.name)
}

/// The newest run of each host; the others are noted. Hosts of one name, whose runs lie in one
/// directory, are named by their runs.
fn newest(mut runs: Vec<JudgedRun>, notes: &mut Vec<String>) -> Vec<JudgedRun> {
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
    fn shown(&self) -> HostRun<'_> {
        HostRun {
            host: &self.host,
            build: self.build.as_deref(),
            analysis: &self.analysis,
        }
    }

    /// The study, and its design where that is not its own.
    fn study(&self) -> String {
        let study = &self.analysis.study;
        let design = study.design.as_ref();
        let design = design.map_or_else(String::new, |design| format!(" ({design})"));
        format!("{}{design}", study.name)
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
