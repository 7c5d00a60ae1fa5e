//! The study of files, as a user calls it: what it measures, what it leaves, what it refuses.

use std::collections::BTreeSet;
use std::fs;

use crate::common::{PATIENCE, Place, beside, count, in_tmpfs, says};
use bytecost_spec::Counter;
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

/// A run of a few seconds, but for its directory.
const RUN: &str = "run file-read --mover pread --ring 1MiB --size 4KiB --access random --cache warm --budget 6s --blocks 8 --window 20ms --warmup 2ms --seed 7 --quiet";

/// In a directory of the test's own.
fn run(dir: &TempDir) -> String {
    format!("{RUN} --dir {}", dir.path().display())
}

#[test]
fn files_are_measured_without_another_end_and_leave_nothing() {
    let (place, dir) = (Place::new(), beside());
    let words = run(&dir).replace("pread", "pread,libaio");
    place.call(format!("{words} --depth 1,8")).measured();
    assert_eq!(count(dir.path()), 0, "a file was left");
    let samples = place.samples();
    let cells: BTreeSet<&str> = samples.iter().map(|(_, s)| s.cell.as_str()).collect();
    let of = |word: &str| cells.iter().filter(|c| c.contains(word)).count();
    // The baseline has a twin.
    assert_eq!(
        (of("/pread/"), of("/libaio/"), of("/null/")),
        (2, 2, 1),
        "{cells:?}"
    );
    for (_, sample) in samples.iter().filter(|(cell, _)| cell.mover != "null") {
        assert!(sample.receiver.is_none());
        let truth = sample.truth.as_ref().unwrap();
        assert_eq!(truth.checked, "content");
        assert_eq!(
            truth.compared_bytes,
            truth.sent_bytes / 512,
            "the first word of each block"
        );
        assert!(sample.latency_ns_histogram.is_some());
        assert!(sample.sender.readings[&Counter::CpuNs].measured().is_some());
    }
    let findings = place.json("findings.json");
    let compared = findings["findings"].as_array().unwrap();
    let deep = |f: &Value| f["cell"].as_str().unwrap().contains("depth=8");
    assert!(
        compared.iter().any(deep),
        "each depth is held against pread"
    );
    let page = place.read("report.md");
    assert!(
        page.contains("pread") && !page.contains("cubic"),
        "nothing of sockets"
    );
}

// Invariant 9.
#[test]
fn a_killed_run_leaves_no_file() {
    let (place, dir) = (Place::new(), beside());
    let words = run(&dir).replace("--cache warm", "--cache warm,cold");
    let mut run = place.start(&mut place.bytecost(words));
    // Its files are there from the first trial on.
    run.until("its first trial", || place.lines() > 0);
    run.send(Signal::KILL);
    run.end(PATIENCE);
    assert_eq!(count(dir.path()), 0, "a file was left");
}

// Invariant 9.
#[test]
fn a_file_of_the_users_is_read_whole_and_stays_as_it_was() {
    let (place, dir) = (Place::new(), beside());
    let path = dir.path().join("mine");
    let content: Vec<u8> = (0..2_000_000_u32).map(|i| (i / 7) as u8).collect();
    fs::write(&path, &content).unwrap();
    let changed = fs::metadata(&path).unwrap().modified().unwrap();
    let words = run(&dir).replace("pread", "pread,pwrite");
    let words = words.replace("--ring 1MiB", &format!("--file {}", path.display()));
    place.call(words).measured();
    assert_eq!(fs::read(&path).unwrap(), content);
    assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), changed);
    let samples = place.samples();
    let is_whole = |id: &str| id.contains("/pread/") && id.contains("/2000000/");
    assert!(samples.iter().any(|(_, s)| is_whole(&s.cell)));
    let is_written = |id: &str| id.contains("/pwrite/");
    assert!(!samples.iter().any(|(_, s)| is_written(&s.cell)));
    says(&place.read("report.md"), &["never written to"]);
}

#[test]
fn what_cannot_be_had_of_files_is_told_in_a_line() {
    let (place, dir) = (Place::new(), beside());
    let empty = dir.path().join("empty");
    fs::write(&empty, []).unwrap();
    place.refuses(
        RUN,
        "--dir /nowhere/at/all => /nowhere/at/all | --dir
        --dir /proc => /proc | --dir",
    );
    place.refuses(
        &run(&dir),
        &format!(
            "--file /nowhere => /nowhere
            --file / => no regular file
            --file {} => the file is empty",
            empty.display()
        ),
    );
    place.refuses(
        &run(&dir).replace("1MiB", "8KiB"),
        "--threads 4 => no request of",
    );
    place.refuses("run send-copies --dir .", "=> --dir | file-read");
    assert_eq!(count(place.path()), 0, "something was left behind");
    assert_eq!(count(dir.path()), 1, "something was left behind");
}

#[test]
fn requests_past_the_page_cache_must_be_whole_blocks() {
    let dir = beside();
    let words = run(&dir)
        .replace("--cache warm", "--cache direct")
        .replace("4KiB", "4001");
    let why = Place::new().call(words).stderr;
    let says = [
        "choose a --size that is a multiple of",
        "past the page cache",
    ];
    assert!(says.iter().any(|w| why.contains(w)), "{why}");
}

#[test]
fn a_disk_without_room_is_told_before_anything_is_made() {
    let (place, dir) = (Place::new(), beside());
    if let Some(end) = in_tmpfs(&place, "size=2m", dir.path(), &run(&dir)) {
        end.refused(&["no space", "which has 2 MiB", "--dir"]);
        assert_eq!(count(place.path()), 0, "something was left behind");
    }
}

#[test]
fn what_was_published_of_files_is_judged_and_shown_beside_a_run() {
    let (place, dir) = (Place::new(), beside());
    let words = run(&dir).replace("pread", "pread,posix-aio");
    let words = words.replace("random", "sequential");
    place.call(format!("{words} --depth 1")).measured();
    let said = |words: &str| place.call(words).measured().stdout;
    // Whatever the ruling, the run is what it is made from.
    let audit = said("audit --source os-features --json");
    let audit: Value = serde_json::from_str(&audit).unwrap();
    let claims = audit["claims"].as_array().unwrap();
    let slower = claims.iter().find(|c| c["id"] == "o-aio-slower").unwrap();
    let figures = slower["figures"].as_array().unwrap();
    let of_run = |f: &&Value| f["measured"].is_string();
    let measured: Vec<_> = figures.iter().filter(of_run).collect();
    assert_eq!(measured.len(), 1, "{slower}");
    let published = measured[0]["published"].as_str().unwrap();
    assert!(published.starts_with("0.710×"), "{published}");
    // Its report has the claims that the study settles, and none of others.
    let findings = place.json("findings.json");
    let judged = findings["audit"].as_array().unwrap().iter();
    let ids: Vec<&str> = judged.map(|c| c["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["o-aio-slower"]);
    says(
        &said("explain"),
        &["When is asynchronous slower than synchronous?"],
    );
    said("report --beside os-features");
    says(
        &place.read("report.md"),
        &[
            "2 of the 8 cells that os-features published have a counterpart",
            "seconds of a whole program",
            "| posix-aio, 4 KiB, 1 thread | 2.17 |",
        ],
    );
    place.refuses("report --beside pa02-a", "=> no cell that pa02-a published");
}
