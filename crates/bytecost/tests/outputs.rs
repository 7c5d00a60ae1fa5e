//! Output of a run: its files, its words, its order.

use std::collections::BTreeSet;
use std::fs;

use crate::common::{FILES, Place, RECORDED, count, edit, ended, flat, says};
use bytecost_spec::{Manifest, Record};

#[test]
fn a_run_leaves_its_files_and_nothing_else_and_a_report_the_same() {
    let place = Place::with_run();
    let entries = fs::read_dir(place.run()).unwrap();
    let left = entries.map(|e| e.unwrap().file_name().into_string().unwrap());
    // One size only, so that there is no figure and no picture.
    let expected = FILES.iter().map(|f| (*f).to_owned());
    assert_eq!(left.collect::<BTreeSet<_>>(), expected.collect());
    // The directory of runs, and the history of rounds.
    assert_eq!(count(place.path()), 2);
    place.refuses("report", "--figures svg => no figures");
    let read = || FILES.map(|file| place.read(file));
    let after_the_run = read();
    place.call("report").measured();
    assert_eq!(after_the_run, read());
}

// Invariant 7.
#[test]
fn the_log_is_the_plan_that_the_manifest_holds() {
    let place = Place::with_run();
    let manifest: Manifest = serde_json::from_value(place.json("manifest.json")).unwrap();
    assert_eq!(manifest.seed, 7);
    let records = place.records();
    // A block may be measured again as a whole.
    let mut trials: Vec<(u32, u32)> = (records.iter().filter_map(Record::trial))
        .filter(|trial| trial.attempt == 0)
        .map(|t| (t.block, t.cell))
        .collect();
    let blocks = trials.last().unwrap().0 + 1;
    let orders = (0..blocks).zip(&manifest.plan.orders);
    let mut expected: Vec<(u32, u32)> = orders
        .flat_map(|(block, order)| order.iter().map(move |cell| (block, *cell)))
        .collect();
    // A cell that fails every time is given up, on a machine that is too busy for it.
    let failures = records.iter().filter(|r| matches!(r, Record::Failure(_)));
    let failed: BTreeSet<u32> = failures.filter_map(|r| Some(r.trial()?.cell)).collect();
    let kept = |t: &(u32, u32)| !failed.contains(&t.1);
    trials.retain(kept);
    expected.retain(kept);
    assert_eq!(trials, expected);
    assert!(blocks >= 8, "fewer blocks say nothing");
}

#[test]
fn runs_are_listed_with_their_state_and_the_newest_is_reported() {
    let place = Place::recorded(&["pa02-a", "smt"]);
    says(&place.call("report").stdout, &["smt/report.html"]);
    fs::create_dir(place.runs().join("00000000-broken")).unwrap();
    let listed = place.call("runs").stdout;
    says(&listed, &["smt", "complete", "00000000-broken"]);
    let elsewhere = place.call("runs --runs-dir elsewhere").stdout;
    says(&elsewhere, &["no runs in elsewhere"]);
    let mut command = place.bytecost("runs");
    let there = ended(command.env("BYTECOST_RUNS", "there"));
    says(&there.stdout, &["no runs in there"]);
}

#[cfg(feature = "full")]
#[test]
fn completions_and_manual_have_every_axis() {
    let place = Place::new();
    let page = place.call("man").stdout.replace("\\-", "-");
    let script = place.call("completions bash").stdout;
    for row in bytecost_spec::axis::AXES {
        let option = format!("--{}", row.name);
        assert!(
            script.contains(&option) && page.contains(&option),
            "{option}"
        );
    }
    place.call("man --out .").succeeded();
    let one = fs::read_to_string(place.path().join("bytecost-report.1")).unwrap();
    says(&one, &["figures"]);
}

#[test]
fn schemas_are_printed() {
    let place = Place::new();
    for (words, field) in [
        ("schema", "caveats"),
        ("schema hosts", "differences"),
        ("schema profile", "advice"),
    ] {
        let schema = place.call(words).json();
        assert!(schema["properties"][field].is_object(), "{words}");
    }
}

#[test]
fn a_run_is_explained_in_words_and_for_machines_without_a_trace() {
    let place = Place::recorded(&["send-copies"]);
    let said = flat(&place.call("explain").succeeded());
    let value = place.call("explain --json").json();
    let questions = value["explanations"].as_array().unwrap();
    assert!(!questions.is_empty());
    for question in questions {
        says(&said, &[question["question"].as_str().unwrap()]);
    }
    // The suggested command has the axes of the run's command, and each option once.
    for (asked, again) in [
        (
            "--mover send -q --budget=4s",
            "run --mover send --budget=4s",
        ),
        ("run send-copies --quiet --seed 3", "run send-copies"),
        ("run send-copies --blocks 6", "run send-copies"),
        ("", "run send-copies"),
    ] {
        let words: Vec<&str> = "bytecost"
            .split(' ')
            .chain(asked.split_whitespace())
            .collect();
        edit(&place.run(), |manifest| manifest["command"] = words.into());
        let found = place.call("report --json").json();
        let command = &found["advice"]["undecided"]["command"];
        assert_eq!(
            *command,
            format!("bytecost {again} --rounds 5 --pause 2min")
        );
    }
    assert_eq!(count(&place.run()), RECORDED.len());
    place.refuses(
        "explain",
        "nobody => nobody
        --runs-dir elsewhere => no runs in elsewhere",
    );
}

#[test]
fn help_fits_a_screen_and_options_have_headings() {
    let place = Place::new();
    let help = |words: &str| {
        let text = place.call(format!("{words} --help")).stdout;
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
    assert!(help("live server echo").contains("uring"));
}
