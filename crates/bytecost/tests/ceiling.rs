//! The ceiling as a user meets it: measured once, told in the reports of other runs of the same
//! machine, and never in those of another.

mod common;

use std::fs;
use std::path::PathBuf;

use common::{Place, refused, went_through};

/// A short run in the place's own directory of runs; its name.
fn run(place: &Place, words: &[&str]) -> (String, String) {
    let mut all = vec!["run"];
    all.extend(words);
    all.extend(["--window", "5ms", "--warmup", "1ms", "--blocks", "6"]);
    all.extend(["--budget", "4s", "--quiet", "--seed", "7"]);
    let output = place.call(&all);
    went_through(&output);
    let newest = runs(place).pop().expect("a run");
    let name = newest.file_name().expect("a name").to_str().expect("text");
    (
        name.to_owned(),
        String::from_utf8_lossy(&output.stdout).into_owned(),
    )
}

fn runs(place: &Place) -> Vec<PathBuf> {
    let entries = fs::read_dir(place.path().join("bytecost-runs")).expect("runs");
    let mut paths: Vec<PathBuf> = entries.map(|e| e.expect("an entry").path()).collect();
    paths.sort_by_key(|p| {
        let manifest = fs::metadata(p.join("manifest.json")).expect("a manifest");
        manifest.modified().expect("a time")
    });
    paths
}

/// In one line, so that no sentence is broken.
fn told(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn report(place: &Place, run: &str) -> String {
    let output = place.call(&["report", run, "--all"]);
    told(&String::from_utf8_lossy(&output.stdout))
}

const READ: [&str; 11] = [
    "file-read",
    "--mover",
    "pread",
    "--cache",
    "warm",
    "--access",
    "sequential",
    "--size",
    "4KiB,64KiB",
    "--ring",
    "1MiB",
];
const OF_IT: &str = "of what this core can copy";
const HINT: &str = "`bytecost ceiling` measures once";

#[test]
fn a_ceiling_of_this_machine_is_told_and_that_of_another_is_not() {
    let place = Place::new();
    let (read, _) = run(&place, &READ);
    let text = report(&place, &read);
    assert!(text.contains(HINT) && !text.contains(OF_IT), "{text}");
    let (ceiling, _) = run(
        &place,
        &[
            "ceiling",
            "--mover",
            "memcpy,pread",
            "--cache",
            "memory",
            "--size",
            "64KiB",
            "--ring",
            "1MiB",
        ],
    );
    refused(
        &place.call(&["ceiling", "--resume", &read]),
        &["file-read", "bytecost run --resume"],
    );
    let text = report(&place, &read);
    assert!(text.contains(OF_IT) && !text.contains(HINT), "{text}");
    let page = |name: &str| {
        let path = place.path().join("bytecost-runs").join(&read).join(name);
        fs::read_to_string(path).expect("a file of the run")
    };
    assert!(
        page("report.html").contains("class=\"ceiling\""),
        "the line is drawn"
    );
    assert!(page("report.md").contains(OF_IT));
    let findings: serde_json::Value = serde_json::from_str(&page("findings.json")).expect("JSON");
    assert_eq!(findings["ceiling"]["run"], ceiling.as_str());
    let why = place.call(&["explain", &read]);
    let why = told(&String::from_utf8_lossy(&why.stdout));
    assert!(
        why.contains("What share of what this machine can copy"),
        "{why}"
    );

    let path = place.path().join("bytecost-runs").join(&ceiling);
    let path = path.join("manifest.json");
    let manifest = fs::read_to_string(&path).expect("a manifest");
    let mut other: serde_json::Value = serde_json::from_str(&manifest).expect("JSON");
    other["host"]["cpu_model"] = "of another machine".into();
    fs::write(&path, serde_json::to_string(&other).expect("JSON")).expect("written");
    let text = report(&place, &read);
    assert!(text.contains(HINT) && !text.contains(OF_IT), "{text}");
    assert!(!page("report.html").contains("class=\"ceiling\""));

    fs::write(&path, "no manifest").expect("written");
    let text = report(&place, &read);
    assert!(text.contains(HINT) && !text.contains(OF_IT), "{text}");
}

#[test]
fn what_the_ceiling_cannot_do_is_told_in_a_line() {
    let place = Place::new();
    refused(
        &place.call(&["ceiling", "--dir", "/nowhere/at/all", "--quiet"]),
        &["/nowhere/at/all", "--dir"],
    );
    refused(&place.call(&["ceiling", "--size", "4KiB"]), &["--size"]);
    refused(
        &place.call(&["ceiling", "--resume", "none-such", "--quiet"]),
        &["none-such"],
    );
}
