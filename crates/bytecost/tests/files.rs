//! Studies of files, as a user calls them: what they measure, what they leave, what they refuse.

use std::collections::BTreeSet;
use std::fs;

use crate::common::{PATIENCE, Place, beside, count, in_tmpfs};
use rustix::process::Signal;
use tempfile::TempDir;

/// Runs of a few seconds, but for their directory.
const READ: &str = "run file-read --mover pread --ring 1MiB --size 4KiB --access random --cache warm --budget 6s --blocks 8 --window 20ms --warmup 2ms --seed 7 --quiet";
const SEND: &str = "run file-to-socket --mover sendfile --budget 4s --blocks 6 --window 10ms --warmup 2ms --seed 7 --quiet";

/// In a directory of the test's own.
fn within(dir: &TempDir, words: &str) -> String {
    format!("{words} --dir {}", dir.path().display())
}

/// A run that leaves no file: the cells that it measured, and the metrics that it compared.
fn measured(place: &Place, words: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let dir = beside();
    place.call(within(&dir, words)).measured();
    assert_eq!(count(dir.path()), 0, "a file was left");
    let samples = place.samples().into_iter();
    let compared = place.findings().findings.into_iter();
    (
        samples.map(|(_, sample)| sample.cell).collect(),
        compared.map(|f| f.metric.to_string()).collect(),
    )
}

#[test]
fn files_are_measured_without_another_end_and_leave_nothing() {
    let place = Place::new();
    let words = READ.replace("pread", "pread,libaio") + " --depth 1,8";
    let (cells, _) = measured(&place, &words);
    // The baseline has a twin.
    for (mover, number) in [("/pread/", 2), ("/libaio/", 2), ("/null/", 1)] {
        let found = cells.iter().filter(|c| c.contains(mover)).count();
        assert_eq!(found, number, "{cells:?}");
    }
    for (_, sample) in place.samples().iter().filter(|(c, _)| c.mover != "null") {
        let truth = sample.truth.as_ref().unwrap();
        assert_eq!(truth.checked, "content");
        // The first word of each block.
        assert_eq!(truth.compared_bytes, truth.sent_bytes / 512);
    }
    let compared = place.findings().findings;
    let deep = compared.iter().any(|f| f.cell.contains("depth=8"));
    assert!(deep, "each depth is held against pread");
    let page = place.read("report.md");
    assert!(!page.contains("cubic"), "nothing of sockets");
}

#[test]
fn whole_files_are_sent_from_the_page_cache_and_from_the_disk_and_leave_nothing() {
    let place = Place::new();
    let words = SEND.replace("--mover ", "--mover read-write,");
    let (cells, compared) = measured(&place, &format!("{words} --size 5MiB --cache warm,cold"));
    for mover in ["/read-write/", "/sendfile/"] {
        for cache in ["cache=warm", "cache=cold"] {
            let is_one = |c: &String| c.contains(mover) && c.contains(cache);
            assert!(cells.iter().any(is_one), "{mover} {cache}: {cells:?}");
        }
    }
    for metric in ["ms_per_message", "cpu_s_per_gb", "sender_calls_per_mib"] {
        assert!(compared.contains(metric), "{metric} is compared");
    }
}

// Invariant 9.
#[test]
fn a_killed_run_leaves_no_file() {
    let (place, dir) = (Place::new(), beside());
    let words = within(&dir, READ).replace("--cache warm", "--cache warm,cold");
    let mut run = place.start(&mut place.bytecost(words));
    // Its files are there from the first trial on.
    run.until("its first trial", || place.lines() > 0);
    run.send(Signal::KILL);
    run.end(PATIENCE);
    assert_eq!(count(dir.path()), 0, "a file was left");
}

// Invariant 9.
#[test]
fn a_file_of_the_users_is_gone_through_whole_and_stays_as_it_was() {
    let reading = READ
        .replace("pread", "pread,pwrite")
        .replace("--ring 1MiB", "");
    let sending = format!("{SEND} --cache warm");
    for (words, mover) in [(reading, "/pread/"), (sending, "/sendfile/")] {
        let (place, dir) = (Place::new(), beside());
        let path = dir.path().join("mine");
        let content: Vec<u8> = (0..2_000_001_u32).map(|i| (i / 7) as u8).collect();
        fs::write(&path, &content).unwrap();
        let changed = fs::metadata(&path).unwrap().modified().unwrap();
        place
            .call(format!("{words} --file {}", path.display()))
            .measured();
        assert_eq!(fs::read(&path).unwrap(), content);
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), changed);
        let samples = place.samples().into_iter();
        let samples = samples.filter(|(cell, _)| cell.mover != "null");
        let cells: BTreeSet<String> = samples.map(|(_, sample)| sample.cell).collect();
        let is_whole = |id: &String| id.contains(mover) && id.contains("/2000001/");
        assert!(!cells.is_empty() && cells.iter().all(is_whole), "{cells:?}");
        let is_told = place.read("report.md").contains("never written to");
        assert!(is_told || mover == "/sendfile/");
    }
}

#[test]
fn what_cannot_be_had_of_files_is_told_in_a_line() {
    let (place, dir) = (Place::new(), beside());
    let [empty, short] = ["empty", "short"].map(|name| dir.path().join(name));
    fs::write(&empty, []).unwrap();
    fs::write(&short, [1; 5000]).unwrap();
    place.refuses(
        READ,
        "--dir /nowhere/at/all => /nowhere/at/all | --dir
        --dir /proc => /proc | --dir",
    );
    place.refuses(
        &within(&dir, READ),
        &format!(
            "--file /nowhere => /nowhere
            --file / => no regular file
            --file {} => the file is empty",
            empty.display()
        ),
    );
    place.refuses(
        &within(&dir, READ).replace("1MiB", "8KiB"),
        "--threads 4 => no request of",
    );
    place.refuses("run send-copies --dir .", "=> --dir | file-read");
    let table = "--size 5GiB => 5GiB | 4GiB
        --size 0 => size
        --size 7MiB --cache direct => choose --cache memory, warm or cold
        --size 7MiB --cache warm --file SHORT => the file has 5000 bytes
        --size 5000 --cache memory --file SHORT => sends memory files alone | choose --cache warm or cold
        --size 7MiB --cache warm --file /nowhere => /nowhere";
    let table = table.replace("SHORT", short.to_str().unwrap());
    place.refuses(&within(&dir, SEND), &table);
    assert_eq!(count(place.path()), 0, "something was left behind");
    assert_eq!(count(dir.path()), 2, "something was left behind");
}

#[test]
fn a_disk_without_room_and_one_that_is_read_only_are_told_before_anything_is_made() {
    let sending = format!("{SEND} --size 7MiB --cache warm");
    for (words, options, says) in [
        (READ, "size=2m", "no space | which has 2 MiB"),
        (&sending, "size=2m", "no space"),
        (&sending, "ro", "Read-only file system"),
    ] {
        let (place, dir) = (Place::new(), beside());
        if let Some(end) = in_tmpfs(&place, options, dir.path(), &within(&dir, words)) {
            end.refused(&says.split(" | ").chain(["--dir"]).collect::<Vec<_>>());
            assert_eq!(count(place.path()), 0, "something was left behind");
        }
    }
}
