//! The study of files, as a user calls it: what it measures, what it leaves, what it refuses.

mod common;

use std::collections::BTreeSet;
use std::fs;

use bytecost_spec::{Counter, Record, Sample};
use common::{Place, beside, count, refused, stderr, stdout, went_through};

/// A run of a few seconds in a directory of the test's own.
fn words<'a>(dir: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut words = vec![
        "run",
        "file-read",
        "--ring",
        "1MiB",
        "--size",
        "4KiB",
        "--access",
        "random",
        "--budget",
        "6s",
        "--blocks",
        "8",
        "--window",
        "20ms",
        "--warmup",
        "2ms",
        "--seed",
        "7",
        "--quiet",
        "--dir",
        dir,
    ];
    words.extend(more);
    words
}

fn samples(place: &Place) -> Vec<Sample> {
    let samples = place.records().into_iter().filter_map(|r| match r {
        Record::Sample(sample) => Some(sample),
        _ => None,
    });
    samples.collect()
}

#[test]
fn files_are_measured_without_another_end_and_leave_nothing() {
    let (place, dir) = (Place::new(), beside());
    let there = dir.path().to_str().unwrap();
    let more = [
        "--mover",
        "pread,libaio",
        "--depth",
        "1,8",
        "--cache",
        "warm",
    ];
    let output = place.call(&words(there, &more));
    went_through(&output);
    assert_eq!(count(dir.path()), 0, "a file was left");
    let samples = samples(&place);
    let cells: BTreeSet<&str> = samples.iter().map(|s| s.cell.as_str()).collect();
    let of = |word: &str| cells.iter().filter(|c| c.contains(word)).count();
    // The baseline has a twin.
    assert_eq!(
        (of("/pread/"), of("/libaio/"), of("/null/")),
        (2, 2, 1),
        "{cells:?}"
    );
    for sample in samples.iter().filter(|s| !s.cell.contains("/null/")) {
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
    let text = fs::read_to_string(place.run_dir().join("findings.json")).unwrap();
    let findings: serde_json::Value = serde_json::from_str(&text).unwrap();
    let compared = findings["findings"].as_array().unwrap();
    let deep = |f: &serde_json::Value| f["cell"].as_str().unwrap().contains("depth=8");
    assert!(
        compared.iter().any(deep),
        "each depth is held against pread"
    );
    let page = fs::read_to_string(place.run_dir().join("report.md")).unwrap();
    assert!(
        page.contains("pread") && !page.contains("cubic"),
        "nothing of sockets"
    );
}

// Invariant 9.
#[test]
fn a_killed_run_leaves_no_file() {
    let (place, dir) = (Place::new(), beside());
    let there = dir.path().to_str().unwrap();
    let mut run = std::process::Command::new(env!("CARGO_BIN_EXE_bytecost"))
        .args(words(there, &["--mover", "pread", "--cache", "warm,cold"]))
        .current_dir(place.path())
        .env_remove("BYTECOST_RUNS")
        .env("BYTECOST_EVIDENCE", "none")
        .stderr(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    // Its files are there from the first trial on.
    let log = || {
        let runs = fs::read_dir(place.path().join("bytecost-runs")).ok()?;
        fs::read(runs.flatten().next()?.path().join("samples.jsonl")).ok()
    };
    while log().is_none_or(|log| log.is_empty()) {
        assert_eq!(
            run.try_wait().unwrap(),
            None,
            "it ended before its first trial"
        );
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    run.kill().unwrap();
    run.wait().unwrap();
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
    let there = dir.path().to_str().unwrap();
    let name = path.to_str().unwrap();
    let mut all = words(
        there,
        &["--mover", "pread,pwrite", "--cache", "warm", "--file", name],
    );
    all.retain(|w| !["--ring", "1MiB"].contains(w));
    let output = place.call(&all);
    went_through(&output);
    assert_eq!(fs::read(&path).unwrap(), content);
    assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), changed);
    let samples = samples(&place);
    assert!(
        samples
            .iter()
            .any(|s| s.cell.contains("/pread/") && s.cell.contains("/2000000/"))
    );
    assert!(
        samples.iter().all(|s| !s.cell.contains("/pwrite/")),
        "it was written to"
    );
    let page = fs::read_to_string(place.run_dir().join("report.md")).unwrap();
    assert!(page.contains("never written to"), "the refusal is told");
}

#[test]
fn what_cannot_be_had_of_files_is_told_in_a_line() {
    let (place, dir) = (Place::new(), beside());
    let there = dir.path().to_str().unwrap();
    let empty = dir.path().join("empty");
    fs::write(&empty, []).unwrap();
    let empty = empty.to_str().unwrap();
    let warm = ["--mover", "pread", "--cache", "warm"];
    let with = |dir, more: &[&'static str]| {
        let mut all = words(dir, &warm);
        all.extend(more);
        all.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>()
    };
    let mut of_empty = with(there, &[]);
    of_empty.extend(["--file".to_owned(), empty.to_owned()]);
    for (words, says) in [
        (
            with("/nowhere/at/all", &[]),
            &["/nowhere/at/all", "--dir"][..],
        ),
        (with("/proc", &[]), &["/proc", "--dir"]),
        (with(there, &["--file", "/nowhere"]), &["/nowhere"]),
        (with(there, &["--file", "/"]), &["no regular file"]),
        (of_empty, &["the file is empty"]),
        (
            with(there, &["--threads", "4", "--ring", "8KiB"]),
            &["no request of"],
        ),
    ] {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        // The last of an option that is given twice is a second value, so it is given once.
        let mut once: Vec<&str> = words.clone();
        if let Some(at) = words.iter().rposition(|w| *w == "--ring")
            && words.iter().position(|w| *w == "--ring") != Some(at)
        {
            let first = words.iter().position(|w| *w == "--ring").unwrap();
            once.drain(first..first + 2);
        }
        refused(&place.call(&once), says);
    }
    refused(
        &place.call(&["run", "send-copies", "--dir", there]),
        &["--dir", "file-read"],
    );
    assert_eq!(count(place.path()), 0, "something was left behind");
    assert_eq!(count(dir.path()), 1, "something was left behind");
}

#[test]
fn requests_past_the_page_cache_must_be_whole_blocks() {
    let (place, dir) = (Place::new(), beside());
    let there = dir.path().to_str().unwrap();
    let mut all = words(there, &["--mover", "pread", "--cache", "direct"]);
    let size = all.iter().position(|w| *w == "4KiB").unwrap();
    all[size] = "4001";
    let why = stderr(&place.call(&all));
    let says = [
        "choose a --size that is a multiple of",
        "past the page cache",
    ];
    assert!(says.iter().any(|w| why.contains(w)), "{why}");
}

#[test]
fn a_disk_without_room_is_told_before_anything_is_made() {
    let (place, dir) = (Place::new(), beside());
    let there = dir.path().to_str().unwrap();
    let words = words(there, &["--mover", "pread", "--cache", "warm"]).join(" ");
    let program = env!("CARGO_BIN_EXE_bytecost");
    // A small file system of the test's own, in namespaces of its own.
    let script = format!("mount -t tmpfs -o size=2m none {there} && exec {program} {words}");
    let output = std::process::Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", &script])
        .current_dir(place.path())
        .output();
    let Ok(output) = output else {
        eprintln!("there is no unshare(1) here");
        return;
    };
    let why = stderr(&output);
    if why.contains("unshare:") || why.contains("mount:") {
        eprintln!("no namespaces here: {why}");
        return;
    }
    refused(&output, &["no space", "which has 2 MiB", "--dir"]);
    assert_eq!(count(place.path()), 0, "something was left behind");
}

#[test]
fn what_was_published_of_files_is_judged_and_shown_beside_a_run() {
    let (place, dir) = (Place::new(), beside());
    let there = dir.path().to_str().unwrap();
    let mut all = words(
        there,
        &[
            "--mover",
            "pread,posix-aio",
            "--depth",
            "1",
            "--cache",
            "warm",
        ],
    );
    let access = all.iter().position(|w| *w == "random").unwrap();
    all[access] = "sequential";
    let output = place.call(&all);
    went_through(&output);
    let said = |words: &[&str]| {
        let output = place.call(words);
        went_through(&output);
        stdout(&output)
    };
    // Whatever the ruling, the run is what it is made from.
    let audit = said(&["audit", "--source", "os-features", "--json"]);
    let audit: serde_json::Value = serde_json::from_str(&audit).unwrap();
    let claims = audit["claims"].as_array().unwrap();
    let slower = claims.iter().find(|c| c["id"] == "o-aio-slower").unwrap();
    let figures = slower["figures"].as_array().unwrap();
    let of_run = |f: &&serde_json::Value| f["measured"].is_string();
    let measured: Vec<_> = figures.iter().filter(of_run).collect();
    assert_eq!(measured.len(), 1, "{slower}");
    let published = measured[0]["published"].as_str().unwrap();
    assert!(published.starts_with("0.710×"), "{published}");
    // Its report has the claims that the study settles, and none of others.
    let text = fs::read_to_string(place.run_dir().join("findings.json")).unwrap();
    let findings: serde_json::Value = serde_json::from_str(&text).unwrap();
    let judged = findings["audit"].as_array().unwrap().iter();
    let ids: Vec<&str> = judged.map(|c| c["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["o-aio-slower"]);
    let explained = said(&["explain"]);
    assert!(
        explained.contains("When is asynchronous slower than synchronous?"),
        "{explained}"
    );
    said(&["report", "--beside", "os-features"]);
    let page = fs::read_to_string(place.run_dir().join("report.md")).unwrap();
    for says in [
        "2 of the 8 cells that os-features published have a counterpart",
        "seconds of a whole program",
        "| posix-aio, 4 KiB, 1 thread | 2.17 |",
    ] {
        assert!(page.contains(says), "no `{says}` in {page}");
    }
    refused(
        &place.call(&["report", "--beside", "pa02-a"]),
        &["no cell that pa02-a published"],
    );
}
