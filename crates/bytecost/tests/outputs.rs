//! What a run leaves: its files, its words, its order.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use bytecost_plan::Plan;
use bytecost_spec::{Manifest, Record};
use common::{Place, TINY, refused, stderr, stdout};

const FILES: &[&str] = &[
    "ended.json",
    "findings.json",
    "manifest.json",
    "report.html",
    "report.md",
    "samples.csv",
    "samples.jsonl",
];

#[test]
fn a_run_leaves_its_files_and_nothing_else() {
    let place = Place::with_run();
    let left: BTreeSet<String> = fs::read_dir(place.run_dir())
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    // One size only, so that there is no figure and no picture.
    assert_eq!(
        left,
        FILES
            .iter()
            .map(|f| (*f).to_owned())
            .collect::<BTreeSet<_>>()
    );
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
}

#[test]
fn a_report_is_the_same_every_time() {
    let place = Place::with_run();
    let read = || {
        FILES
            .iter()
            .map(|f| fs::read(place.run_dir().join(f)).unwrap())
            .collect::<Vec<_>>()
    };
    let after_the_run = read();
    let first = stdout(&place.call(&["report"]));
    assert_eq!(first, stdout(&place.call(&["report"])));
    assert_eq!(after_the_run, read());
}

// Invariant 7.
#[test]
fn the_log_is_the_plan_that_the_manifest_gives() {
    let place = Place::with_run();
    let manifest: Manifest =
        serde_json::from_slice(&fs::read(place.run_dir().join("manifest.json")).unwrap()).unwrap();
    let plan = Plan::from_manifest(&manifest).unwrap();
    assert_eq!(manifest.seed, 7);
    let mut trials: Vec<(u32, u32)> = place
        .records()
        .iter()
        .filter_map(Record::trial)
        .filter(|trial| trial.attempt == 0) // a block may be measured again as a whole
        .map(|trial| (trial.block, trial.cell))
        .collect();
    let mut expected = Vec::new();
    let blocks = trials.last().unwrap().0 + 1;
    let selections = place.records().into_iter().filter_map(|r| match r {
        Record::Selection(selection) => Some((selection.block, selection.cells)),
        _ => None,
    });
    let selections: BTreeMap<u32, Vec<u32>> = selections.collect();
    for block in 0..blocks {
        let selected = selections.get(&block);
        let is_selected = |cell: &u32| selected.is_none_or(|cells| cells.contains(cell));
        let cells = plan.block(block).into_iter().map(|cell| cell as u32);
        expected.extend(cells.filter(is_selected).map(|cell| (block, cell)));
    }
    // A cell that fails every time is given up, on a machine that is too busy for it.
    let failed: BTreeSet<u32> = place
        .records()
        .iter()
        .filter(|r| matches!(r, Record::Failure(_)))
        .filter_map(|r| Some(r.trial()?.cell))
        .collect();
    let kept = |t: &(u32, u32)| !failed.contains(&t.1);
    trials.retain(kept);
    expected.retain(kept);
    assert_eq!(trials, expected);
    assert!(blocks >= 8, "fewer blocks say nothing");
}

#[test]
fn a_row_a_trial_with_units_in_the_columns() {
    let place = Place::with_run();
    let text = fs::read_to_string(place.run_dir().join("samples.csv")).unwrap();
    let mut lines = text.lines();
    let columns: Vec<&str> = lines.next().unwrap().split(',').collect();
    for column in [
        "mover",
        "size_bytes",
        "throughput_gbit_per_s",
        "sender_cpu_ns",
        "receiver_bytes",
        "machine_busy_ns",
    ] {
        assert!(columns.contains(&column), "{column}");
    }
    let samples = place
        .records()
        .iter()
        .filter(|r| matches!(r, Record::Sample(_)))
        .count();
    assert_eq!(lines.count(), samples);
}

#[test]
fn what_is_absent_carries_its_reason() {
    let place = Place::with_run();
    let Some(Record::Sample(sample)) = place
        .records()
        .into_iter()
        .find(|r| matches!(r, Record::Sample(_)))
    else {
        panic!("no trial went through")
    };
    for row in bytecost_spec::reading::COUNTERS {
        let reading = sample
            .sender
            .readings
            .get(&row.counter)
            .or_else(|| sample.machine.get(&row.counter));
        if let Some(bytecost_spec::Reading::Absent { absent }) = reading {
            assert!(absent.len() > 10, "{}: {absent}", row.name);
        }
    }
}

#[test]
fn the_words_fit_a_terminal_and_carry_no_escapes() {
    let place = Place::new();
    let output = place.call(&TINY[..TINY.len() - 1]);
    let (out, progress) = (stdout(&output), stderr(&output));
    assert!(out.contains("send") && out.contains("report.html"));
    assert!(
        progress.lines().any(|l| l.starts_with("block 1: 3 cells")),
        "{progress}"
    );
    for text in [
        out,
        stdout(&place.call(&["list"])),
        stdout(&place.call(&["doctor"])),
        stdout(&place.call(&["runs"])),
    ] {
        assert!(!text.contains('\u{1b}'));
        for line in text.lines() {
            assert!(line.chars().count() <= 100, "{line}");
        }
    }
}

#[test]
fn quiet_is_quiet() {
    let output = Place::new().call(TINY);
    if output.status.code() == Some(0) {
        assert_eq!(stderr(&output), "");
    }
}

#[test]
fn runs_are_listed_with_their_state_and_the_newest_is_reported() {
    let place = Place::with_run();
    let id = place
        .run_dir()
        .file_name()
        .unwrap()
        .to_str()
        .unwrap()
        .to_owned();
    fs::create_dir(place.path().join("bytecost-runs/00000000-broken")).unwrap();
    let listed = stdout(&place.call(&["runs"]));
    assert!(
        listed.contains(&id) && listed.contains("complete"),
        "{listed}"
    );
    assert!(listed.contains("00000000-broken"), "{listed}");
    assert!(stdout(&place.call(&["report"])).contains(&id));
    let elsewhere = place.call(&["runs", "--runs-dir", "elsewhere"]);
    assert!(stdout(&elsewhere).contains("no runs in elsewhere"));
}

#[cfg(feature = "manual")]
#[test]
fn completions_and_manual_have_every_axis() {
    let place = Place::new();
    let page = stdout(&place.call(&["man"]));
    let script = stdout(&place.call(&["completions", "bash"]));
    for row in bytecost_spec::axis::AXES {
        let option = format!("--{}", row.name);
        assert!(script.contains(&option), "{option}");
        assert!(page.replace("\\-", "-").contains(&option), "{option}");
    }
    stdout(&place.call(&["man", "--out", "."]));
    let one = fs::read_to_string(place.path().join("bytecost-report.1")).unwrap();
    assert!(one.contains("figures"), "{one}");
}

#[test]
fn what_describes_the_command_comes_from_its_tables() {
    let place = Place::new();
    let schema: serde_json::Value =
        serde_json::from_str(&stdout(&place.call(&["schema"]))).unwrap();
    assert!(schema["properties"]["findings"].is_object());
    let listed = stdout(&place.call(&["list"]));
    for mover in bytecost_engine::MOVERS {
        assert!(listed.contains(mover.name), "{}", mover.name);
    }
}

#[test]
fn a_run_is_explained_in_words_and_for_machines_without_a_trace() {
    let place = Place::with_run();
    let before = fs::read_dir(place.run_dir()).unwrap().count();
    let said = place.call(&["explain"]);
    assert_eq!(said.status.code(), Some(0), "{}", stderr(&said));
    let machine = place.call(&["explain", "--json"]);
    let value: serde_json::Value = serde_json::from_str(&stdout(&machine)).unwrap();
    assert_eq!(value["study"], "send-copies");
    let flat = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let said = flat(stdout(&said));
    let asked = value["explanations"].as_array().unwrap();
    assert!(!asked.is_empty());
    for question in asked.iter().map(|e| e["question"].as_str().unwrap()) {
        assert!(said.contains(question), "{question}: {said}");
    }
    assert_eq!(fs::read_dir(place.run_dir()).unwrap().count(), before);
    refused(&place.call(&["explain", "nobody"]), &["nobody"]);
    refused(
        &place.call(&["explain", "--runs-dir", "elsewhere"]),
        &["no runs in elsewhere"],
    );
}

#[test]
fn help_fits_a_screen_and_options_have_headings() {
    let place = Place::new();
    let help = |words: &str| {
        let mut words: Vec<&str> = words.split_whitespace().collect();
        words.push("--help");
        let text = stdout(&place.call(&words));
        assert!(!text.contains('\u{1b}'), "{text}");
        text
    };
    let all = help("");
    assert!(all.lines().count() <= 40, "{all}");
    let run = help("run");
    for row in bytecost_spec::axis::AXES {
        let option = format!("--{} ", row.name);
        let heading = format!("\n{}:\n", row.group.heading());
        assert!(run.contains(&option) && run.contains(&heading), "{option}");
    }
    let send = help("live send");
    assert!(
        send.contains("--mover ") && !send.contains("--server "),
        "{send}"
    );
    assert!(help("live server echo").contains("epoll-edge"));
}

#[test]
fn words_of_before_work_and_a_note_has_those_of_today() {
    let place = Place::new();
    let words = "run --transport loopback --pattern ask --neighbour loud";
    let output = place.call(&words.split(' ').collect::<Vec<_>>());
    let said = stderr(&output);
    let notes: Vec<&str> = said.lines().collect();
    let expected = [
        "note: --pattern ask is now --pattern request-response",
        "note: --neighbour is now --background",
    ];
    assert_eq!(notes[..2], expected, "{said}");
    assert!(
        notes[2].starts_with("error: background load `loud`"),
        "{said}"
    );
    assert!(stderr(&place.call(&["ask", "--help"])).contains("`bytecost live load`"));
}
