//! Values that a study or a command line asks for are on the first screen, and what is printed to be typed
//! works as it stands.

use std::collections::BTreeSet;
use std::path::Path;
use std::{env, fs};

use bytecost_report::Findings;
use bytecost_spec::{Axis, Cell};
use itertools::Itertools as _;
use serde_json::{Value, json};

use crate::common::{BYTECOST, Lack, Place, edit, ended, flat, goldens, is_root, skipped};

/// Names of all recorded runs.
fn recorded() -> Vec<String> {
    let folders = fs::read_dir(goldens()).unwrap().map(|e| e.unwrap());
    let runs = folders.filter(|entry| entry.path().join("manifest.json").is_file());
    runs.map(|entry| entry.file_name().into_string().unwrap())
        .sorted()
        .collect()
}

/// Returns true if the words stand in the text by themselves.
fn has(text: &str, words: &str) -> bool {
    text.match_indices(words).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + words.len()..].chars().next();
        ![before, after]
            .iter()
            .flatten()
            .any(|c| c.is_alphanumeric())
    })
}

/// Every value of every axis that the manifest's study varies, or its command line names.
fn asked(run: &Path) -> BTreeSet<(Axis, String)> {
    let manifest = fs::read_to_string(run.join("manifest.json")).unwrap();
    let manifest: Value = serde_json::from_str(&manifest).unwrap();
    let study = &manifest["study"];
    let by_user: Vec<Axis> = serde_json::from_value(study["asked"].clone()).unwrap_or_default();
    let mut all: BTreeSet<(Axis, String)> = BTreeSet::new();
    for tier in study["tiers"].as_array().unwrap() {
        let axes: Vec<(Axis, Vec<String>)> = serde_json::from_value(tier["axes"].clone()).unwrap();
        all.extend(
            axes.into_iter()
                .flat_map(|(axis, values)| values.into_iter().map(move |v| (axis, v))),
        );
    }
    let several = |axis: Axis| all.iter().filter(|(a, _)| *a == axis).count() > 1;
    let is_asked = |(axis, _): &&(Axis, String)| several(*axis) || by_user.contains(axis);
    all.iter().filter(is_asked).cloned().collect()
}

/// The words that the first line has for what is the same everywhere.
fn in_header(axis: Axis, value: &str) -> &str {
    match (axis, value) {
        (Axis::Transport, "loopback") => "loopback TCP",
        (Axis::Cache, "warm") => "page cache",
        (Axis::Cache, "cold") => "not in the page cache",
        (Axis::Cache, "direct") => "O_DIRECT",
        _ => value,
    }
}

#[track_caller]
fn shows_all(place: &Place, study: &str) -> String {
    let shown = place.call(format!("report {study}")).stdout;
    has_all(&shown, &place.runs().join(study));
    shown
}

#[track_caller]
fn has_all(shown: &str, run: &Path) {
    let screen = flat(shown);
    assert!(shown.lines().count() <= 30, "{shown}");
    for (axis, value) in asked(run) {
        let words = [
            axis.subject(&value.as_str().into()),
            axis.in_words(&value.as_str().into()),
            in_header(axis, &value).to_owned(),
        ];
        assert!(
            words.iter().any(|w| has(&screen, w)),
            "no {axis} {value}:\n{shown}"
        );
    }
}

/// A recorded run of which no trial of some cells gave a sample: all of them failed.
fn failed(place: &Place, study: &str, is_failed: impl Fn(&Cell) -> bool) {
    let log = place.runs().join(study).join("samples.jsonl");
    let text = fs::read_to_string(&log).unwrap();
    let lines = text.lines().map(|line| {
        let record: Value = serde_json::from_str(line).unwrap();
        let cell = record["sample"]["cell"].as_str().and_then(Cell::from_id);
        if !cell.is_some_and(|cell| is_failed(&cell)) {
            return line.to_owned();
        }
        let sample = &record["sample"];
        json!({"failure": {
            "trial": sample["trial"], "cell": sample["cell"], "started_ms": sample["started_ms"],
            "reason": "sender: no locked memory is left (ENOBUFS): raise `ulimit -l`",
        }})
        .to_string()
    });
    fs::write(&log, lines.map(|line| line + "\n").collect::<String>()).unwrap();
}

#[test]
fn every_value_that_is_asked_for_is_on_the_first_screen() {
    for study in recorded() {
        let run = goldens().join(study);
        // The recorded screen, which another test compares with that of today's program.
        has_all(&fs::read_to_string(run.join("screen.txt")).unwrap(), &run);
    }
}

#[test]
fn a_way_of_which_every_trial_failed_is_shown_with_its_reason() {
    let place = Place::recorded(&["send-copies"]);
    failed(&place, "send-copies", |cell| cell.mover == "send-zerocopy");
    let shown = flat(&shows_all(&place, "send-copies"));
    let failed = "Failed `send-zerocopy`: every trial failed: sender: no locked memory is left";
    assert!(shown.contains(failed), "{shown}");
}

#[test]
fn what_was_measured_where_its_baseline_failed_is_shown_with_its_numbers() {
    let place = Place::recorded(&["send-copies"]);
    let is_lost = |cell: &Cell| cell.mover == "send" && cell.size_bytes == 1 << 20;
    failed(&place, "send-copies", is_lost);
    let shown = shows_all(&place, "send-copies");
    let heading = shown
        .lines()
        .find(|line| line.contains("mover by size"))
        .unwrap();
    assert!(heading.contains("1 MiB"), "{shown}");
    let row = shown
        .lines()
        .find(|line| line.trim_start().starts_with("sendfile "))
        .unwrap();
    // A ratio at 4 KiB, a number at 1 MiB.
    let mut words = row.split_whitespace();
    let is_number = |word: &str| word.parse::<f64>().is_ok();
    assert!(row.contains('×') && words.any(is_number), "{shown}");
    assert!(
        flat(&shown).contains("`send` at 1 MiB: every trial failed"),
        "{shown}"
    );
}

#[test]
fn a_baseline_of_which_every_trial_failed_hides_no_other_way() {
    let place = Place::recorded(&["file-read"]);
    failed(&place, "file-read", |cell| cell.mover == "pread");
    let shown = flat(&shows_all(&place, "file-read"));
    assert!(
        shown.contains("Failed `pread`: every trial failed"),
        "{shown}"
    );
}

/// All that a text prints to be typed: from `bytecost` to the end of the sentence, quotes or part.
fn commands(text: &str) -> Vec<String> {
    let ends = [
        "`",
        ": ",
        "; ",
        " Full report",
        " Why ",
        " Failed ",
        " Not ",
        " Noise ",
        " The ",
        " Disturbed ",
        " No verdict ",
        " Undecided ",
    ];
    let of_part = |lines: &str| {
        let part = flat(lines);
        let found = part.match_indices("bytecost ").map(|(at, _)| at);
        let starts = found.filter(|at| !part[..*at].ends_with(['/', '-', '_', '.']));
        let commands = starts.map(|at| {
            let rest = &part[at..];
            let end = ends.iter().filter_map(|end| rest.find(end)).min();
            let command = &rest[..end.unwrap_or(rest.len())];
            command.trim_end_matches(['.', ',']).to_owned()
        });
        commands.collect_vec()
    };
    let commands = text.split("\n\n").flat_map(of_part);
    let known = [
        "report", "explain", "run", "audit", "export", "doctor", "list", "runs", "ceiling",
    ];
    let is_command = |c: &String| {
        c.split(' ')
            .nth(1)
            .is_some_and(|word| known.contains(&word))
    };
    commands.filter(is_command).collect()
}

/// Carries a printed command out in a shell; one that would measure is refused by its last word
/// alone, which says that all others are understood.
#[track_caller]
fn works(place: &Place, command: &str) {
    let program = Path::new(BYTECOST).parent().unwrap().display().to_string();
    let path = format!("{program}:{}", env::var("PATH").unwrap());
    let measures = ["bytecost run", "bytecost ceiling"]
        .iter()
        .any(|words| command.starts_with(words));
    let typed = if measures {
        format!("{command} --no-such-option")
    } else {
        command.replace("--out DIR", "--out out")
    };
    let end = ended(place.other("sh", ["-c", &typed]).env("PATH", path));
    if measures {
        let refused = end.stderr.contains("'--no-such-option'") && end.status == Some(2);
        assert!(refused, "{command}: {}", end.stderr);
    } else {
        assert_eq!(end.status, Some(0), "{command}: {}", end.stderr);
    }
}

#[test]
fn every_printed_command_works_as_printed() {
    // A run that rounds would help, one that more time would, one with many refusals.
    let studies = ["send-copies", "pa02-a", "smt"];
    let place = Place::recorded(&studies);
    fs::rename(place.runs(), place.path().join("my runs")).unwrap();
    let mut seen = BTreeSet::new();
    for study in studies {
        let run = place.path().join("my runs").join(study);
        edit(&run, |manifest| {
            let words = manifest["command"].as_array_mut().unwrap();
            let dir = words.iter_mut().find(|word| *word == "bytecost-runs");
            *dir.unwrap() = json!("my runs");
        });
        for words in ["report", "report --all", "explain"] {
            let args = words.split(' ').chain(["--runs-dir", "my runs", study]);
            let end = ended(&mut place.other(BYTECOST, args));
            seen.extend(commands(&end.stdout));
        }
        seen.extend(commands(
            &fs::read_to_string(run.join("report.md")).unwrap(),
        ));
    }
    for words in [
        "doctor",
        "list",
        "runs",
        "audit",
        "report nothing",
        "explain",
        "run --resume none",
    ] {
        let end = place.call(words);
        seen.extend(commands(&format!("{} {}", end.stdout, end.stderr)));
    }
    assert!(
        seen.iter().any(|c| c == "bytecost explain 'my runs/smt'"),
        "{seen:?}"
    );
    assert!(seen.len() > 3 * studies.len(), "{seen:?}");
    // Those of an empty place need a run there.
    crate::common::copy_recorded("smt", &place.runs().join("smt"));
    for command in &seen {
        works(&place, command);
    }
}

#[test]
fn a_report_is_printed_where_it_cannot_be_written() {
    if !is_root() {
        return;
    }
    let place = Place::recorded(&["send-copies"]);
    let run = place.runs().join("send-copies");
    let chown = place
        .other("chown", ["-R", "12345", run.to_str().unwrap()])
        .status();
    assert!(chown.unwrap().success());
    let end = place.call("report send-copies");
    assert_eq!((end.status, &*end.stderr), (Some(0), ""), "{}", end.stdout);
    let shown = flat(&end.stdout);
    let command = "bytecost report send-copies --out DIR";
    assert!(
        shown.contains("▲ better") && shown.contains("Full report not written, since"),
        "{shown}"
    );
    assert!(
        shown.contains("belongs to user 12345") && shown.contains(command),
        "{shown}"
    );
    assert!(!run.join("report.html").exists());
    works(&place, command);
    for file in ["report.html", "report.md", "findings.json", "samples.csv"] {
        assert!(place.path().join("out").join(file).is_file(), "{file}");
    }
    let findings = fs::read_to_string(place.path().join("out/findings.json")).unwrap();
    let _: Findings<'_> = serde_json::from_str(&findings).unwrap();
    // A user who may not write to the directory can read the run too.
    let words = [
        "--reuid",
        "54321",
        "--regid",
        "54321",
        "--clear-groups",
        BYTECOST,
        "report",
        "send-copies",
    ];
    let user = ended(&mut place.other("setpriv", words));
    if user.stderr.contains("setpriv:") || !user.stderr.is_empty() && user.stdout.is_empty() {
        return skipped(Lack::Right, &user.stderr);
    }
    assert!(
        flat(&user.stdout).contains("Full report not written, since cannot write"),
        "{}",
        user.stdout
    );
}

#[test]
fn a_report_of_a_full_disk_is_printed() {
    let place = Place::recorded(&["send-copies"]);
    // Of the two, the limit on file sizes is the one that a test can set.
    let end = ended(&mut place.limited("-f 1", "report send-copies"));
    assert_eq!(end.status, Some(0), "{}", end.stderr);
    let shown = flat(&end.stdout);
    assert!(
        shown.contains("not written, since") && shown.contains("limit on file sizes"),
        "{shown}"
    );
}
