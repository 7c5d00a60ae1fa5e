//! The study of files that are sent, as a user calls it: what it measures, what it leaves, what it
//! refuses.

use std::fs;

use crate::common::{Place, beside, count, in_tmpfs};
use bytecost_spec::{Counter, Record, Sample};
use tempfile::TempDir;

/// A run of a few seconds, but for its directory.
const RUN: &str = "run file-to-socket --budget 4s --blocks 6 --window 10ms --warmup 2ms --seed 7 --quiet --mover sendfile";

/// In a directory of the test's own.
fn run(dir: &TempDir) -> String {
    format!("{RUN} --dir {}", dir.path().display())
}

fn samples(place: &Place) -> Vec<Sample> {
    for record in place.records() {
        if let Record::Failure(failure) = record {
            assert!(failure.cell.contains("/null/"), "{failure:?}");
        }
    }
    let samples = place.samples().into_iter();
    let of_files = samples.filter(|(cell, _)| cell.mover != "null");
    of_files.map(|(_, sample)| sample).collect()
}

#[test]
fn whole_files_are_sent_from_the_page_cache_and_from_the_disk_and_leave_nothing() {
    let (place, dir) = (Place::new(), beside());
    let words = run(&dir).replace("--mover ", "--mover read-write,");
    let words = format!("{words} --size 5MiB --cache warm,cold");
    place.call(words).measured();
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
    for mover in ["/read-write/", "/sendfile/"] {
        for cache in ["cache=warm", "cache=cold"] {
            let of = |s: &Sample| s.cell.contains(mover) && s.cell.contains(cache);
            assert!(samples.iter().any(of), "{mover} {cache}");
        }
    }
    let findings = place.json("findings.json");
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
    let words = format!("{} --cache warm --file {}", run(&dir), path.display());
    place.call(words).measured();
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
    let short = dir.path().join("short");
    fs::write(&short, [1; 5000]).unwrap();
    let table = "--size 5GiB => 5GiB | 4GiB
        --size 0 => size
        --size 7MiB --cache direct => choose --cache memory, warm or cold
        --size 7MiB --cache warm --file SHORT => the file has 5000 bytes
        --size 5000 --cache memory --file SHORT => sends memory files alone | choose --cache warm or cold
        --size 7MiB --cache warm --file /nowhere => /nowhere";
    place.refuses(&run(&dir), &table.replace("SHORT", short.to_str().unwrap()));
    place.refuses(
        RUN,
        "--size 7MiB --dir /nowhere/at/all => /nowhere/at/all | --dir",
    );
    assert_eq!(count(place.path()), 0, "something was left behind");
    assert_eq!(count(dir.path()), 1, "something was left behind");
}

#[test]
fn a_disk_without_room_and_one_that_is_read_only_are_told_before_anything_is_sent() {
    let (place, dir) = (Place::new(), beside());
    let words = format!("{} --size 7MiB --cache warm", run(&dir));
    for (options, says) in [
        ("size=2m", ["no space", "--dir"]),
        ("ro", ["Read-only file system", "--dir"]),
    ] {
        if let Some(end) = in_tmpfs(&place, options, dir.path(), &words) {
            end.refused(&says);
            assert_eq!(count(place.path()), 0, "something was left behind");
        }
    }
}
