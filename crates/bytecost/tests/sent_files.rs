//! The study of files that are sent, as a user calls it: what it measures, what it leaves, what it
//! refuses.

mod common;

use std::fs;
use std::process::Command;

use bytecost_spec::{Counter, Record, Sample};
use common::{Place, beside, count, refused, stderr, went_through};

/// A run of a few seconds in a directory of the test's own.
fn words<'a>(dir: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut words = vec![
        "run",
        "file-to-socket",
        "--budget",
        "4s",
        "--blocks",
        "6",
        "--window",
        "10ms",
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
    let of_files = |r| match r {
        Record::Sample(sample) if !sample.cell.contains("/null/") => Some(sample),
        Record::Sample(_) | Record::Evidence(_) | Record::Selection(_) | Record::Block(_) => None,
        Record::Failure(failure) => {
            assert!(failure.cell.contains("/null/"), "{failure:?}");
            None
        }
    };
    place.records().into_iter().filter_map(of_files).collect()
}

#[test]
fn whole_files_are_sent_from_the_page_cache_and_from_the_disk_and_leave_nothing() {
    let (place, dir) = (Place::new(), beside());
    let there = dir.path().to_str().unwrap();
    let more = [
        "--mover",
        "read-write,sendfile",
        "--size",
        "5MiB",
        "--cache",
        "warm,cold",
    ];
    let output = place.call(&words(there, &more));
    went_through(&output);
    assert_eq!(count(dir.path()), 0, "a file was left");
    let samples = samples(&place);
    for sample in &samples {
        let truth = sample.truth.as_ref().unwrap();
        assert_eq!(truth.checked, "content");
        assert!(truth.compared_bytes > 0 && truth.sent_bytes == truth.received_bytes);
        let receiver = sample.receiver.as_ref().unwrap();
        for side in [&sample.sender, receiver] {
            let read = |counter| side.readings[&counter].measured().unwrap();
            let files = read(Counter::Messages);
            assert!(files > 0, "{}", sample.cell);
            assert_eq!(read(Counter::Bytes), files * (5 << 20), "whole files");
            assert!(read(Counter::CpuNs) > 0 && read(Counter::ElapsedNs) > 0);
        }
        let calls = sample.sender.readings[&Counter::Calls].measured().unwrap();
        let files = sample.sender.readings[&Counter::Messages]
            .measured()
            .unwrap();
        if sample.cell.contains("/read-write/") {
            // A read and a write for each 4 KiB, and the way back to the beginning.
            assert!(calls >= files * 2 * 1280, "{calls} calls");
        } else {
            assert!(calls >= files && calls < files * 100, "{calls} calls");
        }
    }
    for words in [
        ["/read-write/", "cache=warm"],
        ["/sendfile/", "cache=warm"],
        ["/read-write/", "cache=cold"],
        ["/sendfile/", "cache=cold"],
    ] {
        let of = |s: &&Sample| words.iter().all(|w| s.cell.contains(w));
        assert!(samples.iter().any(|s| of(&s)), "{words:?}");
    }
    let text = fs::read_to_string(place.run_dir().join("findings.json")).unwrap();
    let findings: serde_json::Value = serde_json::from_str(&text).unwrap();
    let compared = findings["findings"].as_array().unwrap();
    for metric in ["ms_per_message", "cpu_s_per_gb", "sender_calls_per_mib"] {
        let of = |f: &&serde_json::Value| f["metric"] == metric;
        assert!(compared.iter().any(|f| of(&f)), "{metric} is compared");
    }
}

// Invariant 9.
#[test]
fn a_file_of_the_users_is_sent_whole_and_stays_as_it_was() {
    let (place, dir) = (Place::new(), beside());
    let path = dir.path().join("mine");
    let content: Vec<u8> = (0..4_500_001_u32).map(|i| (i / 7) as u8).collect();
    fs::write(&path, &content).unwrap();
    let changed = fs::metadata(&path).unwrap().modified().unwrap();
    let (there, name) = (dir.path().to_str().unwrap(), path.to_str().unwrap());
    let more = ["--mover", "sendfile", "--cache", "warm", "--file", name];
    let output = place.call(&words(there, &more));
    went_through(&output);
    assert_eq!(fs::read(&path).unwrap(), content);
    assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), changed);
    let samples = samples(&place);
    assert!(!samples.is_empty());
    for sample in samples {
        assert!(sample.cell.contains("/4500001/"), "{}", sample.cell);
        let truth = sample.truth.unwrap();
        assert_eq!(truth.sent_bytes, truth.received_bytes);
        assert_eq!(truth.checked, "count", "its content is nobody's business");
    }
}

#[test]
fn what_cannot_be_sent_is_told_in_a_line() {
    let (place, dir) = (Place::new(), beside());
    let there = dir.path().to_str().unwrap();
    let short = dir.path().join("short");
    fs::write(&short, [1; 5000]).unwrap();
    let short = short.to_str().unwrap();
    let of = ["--mover", "sendfile"];
    for (more, says) in [
        (&["--size", "5GiB"][..], &["5GiB", "4GiB"][..]),
        (&["--size", "0"], &["size"]),
        (
            &["--size", "7MiB", "--cache", "direct"],
            &["choose --cache memory, warm or cold"],
        ),
        (
            &["--size", "7MiB", "--cache", "warm", "--file", short],
            &["the file has 5000 bytes"],
        ),
        (
            &["--size", "5000", "--cache", "memory", "--file", short],
            &["sends memory files alone", "choose --cache warm or cold"],
        ),
        (
            &["--size", "7MiB", "--cache", "warm", "--file", "/nowhere"],
            &["/nowhere"],
        ),
    ] {
        let mut all = words(there, &of);
        all.extend(more);
        refused(&place.call(&all), says);
    }
    let mut nowhere = words("/nowhere/at/all", &of);
    nowhere.extend(["--size", "7MiB"]);
    refused(&place.call(&nowhere), &["/nowhere/at/all", "--dir"]);
    assert_eq!(count(place.path()), 0, "something was left behind");
    assert_eq!(count(dir.path()), 1, "something was left behind");
}

/// Calls it where a file system of the test's own is mounted; none where that cannot be had.
fn within(
    place: &Place,
    options: &str,
    there: &str,
    words: &[&str],
) -> Option<std::process::Output> {
    let program = env!("CARGO_BIN_EXE_bytecost");
    let words = words.join(" ");
    let script = format!("mount -t tmpfs -o {options} none {there} && exec {program} {words}");
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", &script])
        .current_dir(place.path())
        .output();
    let Ok(output) = output else {
        eprintln!("there is no unshare(1) here");
        return None;
    };
    let why = stderr(&output);
    if why.contains("unshare:") || why.contains("mount:") {
        eprintln!("no namespaces here: {why}");
        return None;
    }
    Some(output)
}

#[test]
fn a_disk_without_room_and_one_that_is_read_only_are_told_before_anything_is_sent() {
    let (place, dir) = (Place::new(), beside());
    let there = dir.path().to_str().unwrap();
    let more = ["--mover", "sendfile", "--size", "7MiB", "--cache", "warm"];
    let all = words(there, &more);
    for (options, says) in [
        ("size=2m", &["no space", "--dir"][..]),
        ("ro", &["Read-only file system", "--dir"]),
    ] {
        if let Some(output) = within(&place, options, there, &all) {
            refused(&output, says);
            assert_eq!(count(place.path()), 0, "something was left behind");
        }
    }
}
