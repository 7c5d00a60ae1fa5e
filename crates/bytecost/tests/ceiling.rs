//! The ceiling as a user meets it: measured once, told in the reports of other runs of the same
//! machine, and never in those of another.

use std::fs;
use std::path::PathBuf;

use crate::common::{Place, says};
use serde_json::Value;

/// A short run in the place's own directory of runs; its directory.
fn run(place: &Place, words: &str) -> PathBuf {
    let before = place.all_runs();
    let short = "--window 5ms --warmup 1ms --blocks 6 --budget 4s --quiet --seed 7";
    place
        .call(format!("run {words} --ring 1MiB {short}"))
        .measured();
    let mut after = place.all_runs();
    after.retain(|run| !before.contains(run));
    after.pop().expect("a run")
}

/// What a report says with a ceiling: a share of it, or why none is given, as where a busy machine
/// read faster than when the ceiling was measured.
const OF_IT: [&str; 2] = ["of what this core can copy", "no share is given, since"];
const HINT: &str = "`bytecost ceiling` measures once";

#[test]
fn a_ceiling_of_this_machine_is_told_and_that_of_another_is_not() {
    let place = Place::new();
    let words = "file-read --mover pread --cache warm --access sequential --size 4KiB,64KiB";
    let dir = run(&place, words);
    let read = dir.file_name().unwrap().to_str().unwrap();
    let told = |expected: bool| {
        let text = place.call(format!("report {read} --all")).flat();
        assert_eq!(
            (
                OF_IT.iter().any(|of_it| text.contains(of_it)),
                text.contains(HINT)
            ),
            (expected, !expected),
            "{text}"
        );
    };
    told(false);
    let ceiling = run(
        &place,
        "ceiling --mover memcpy,pread --cache memory --size 64KiB",
    );
    place.refuses(
        "ceiling",
        &format!("--resume {read} => file-read | bytecost run --resume"),
    );
    told(true);
    let page = |name: &str| fs::read_to_string(dir.join(name)).expect("a file of the run");
    says(&page("report.html"), &["class=\"ceiling\""]);
    let report = page("report.md");
    assert!(OF_IT.iter().any(|of_it| report.contains(of_it)), "{report}");
    let findings: Value = serde_json::from_str(&page("findings.json")).expect("JSON");
    assert_eq!(
        findings["ceiling"]["run"],
        ceiling.file_name().unwrap().to_str().unwrap()
    );
    let why = place.call(format!("explain {read}")).flat();
    says(&why, &["What share of what this machine can copy"]);

    let path = ceiling.join("manifest.json");
    let manifest = fs::read_to_string(&path).expect("a manifest");
    let mut other: Value = serde_json::from_str(&manifest).expect("JSON");
    other["host"]["cpu_model"] = "of another machine".into();
    for spoilt in [other.to_string(), "no manifest".to_owned()] {
        fs::write(&path, spoilt).expect("written");
        told(false);
        assert!(!page("report.html").contains("class=\"ceiling\""));
    }
}

#[test]
fn what_the_ceiling_cannot_do_is_told_in_a_line() {
    Place::new().refuses(
        "ceiling",
        "--dir /nowhere/at/all --quiet => /nowhere/at/all | --dir
        --size 4KiB => --size
        --resume none-such --quiet => none-such",
    );
}
