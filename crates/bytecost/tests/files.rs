//! Studies of files, as a user calls them: what they measure, what they leave, what they refuse.

use std::collections::BTreeSet;
use std::fs;

use crate::common::{Place, count, directory_on_disk, in_tmpfs};
use rustix::process::Signal;
use tempfile::TempDir;

/// Runs of a few seconds, but for their directory.
const READ: &str = "run file-read --mover pread --ring 1MiB --size 4KiB --access random --cache warm --budget 6s --blocks 8 --window 20ms --warmup 2ms --seed 7 --quiet";
const SEND: &str = "run file-to-socket --mover sendfile --budget 4s --blocks 6 --window 10ms --warmup 2ms --seed 7 --quiet";

fn within(dir: &TempDir, words: &str) -> String {
    format!("{words} --dir {}", dir.path().display())
}

#[test]
fn files_are_read_and_sent_in_every_state_that_was_asked_for_and_nothing_is_left() {
    let reads = READ.replace("pread", "pread,libaio") + " --depth 1,8";
    let sends = SEND.replace("--mover ", "--mover read-write,") + " --size 5MiB --cache warm,cold";
    for (words, movers, states) in [
        (reads, ["/pread/", "/libaio/"], ["", "depth=8"]),
        (
            sends,
            ["/read-write/", "/sendfile/"],
            ["cache=warm", "cache=cold"],
        ),
    ] {
        let (place, dir) = (Place::new(), directory_on_disk());
        place.call(within(&dir, &words)).measured();
        assert_eq!(count(dir.path()), 0, "a file was left");
        let cells: BTreeSet<String> = place.samples().into_iter().map(|(_, s)| s.cell).collect();
        for [mover, state] in movers.iter().flat_map(|m| states.map(|state| [*m, state])) {
            // One at a time is what every depth is compared with.
            let is_there = cells.iter().any(|c| c.contains(mover) && c.contains(state));
            let is_apart = [mover, state] == ["/pread/", "depth=8"];
            assert_ne!(is_there, is_apart, "{mover} {state}: {cells:?}");
        }
    }
}

// Invariant 9.
#[test]
fn a_killed_run_leaves_no_file() {
    let (place, dir) = (Place::new(), directory_on_disk());
    let words = within(&dir, READ).replace("--cache warm", "--cache warm,cold");
    let mut run = place.start(&mut place.bytecost(words));
    // Its files are there from the first trial on.
    run.until("its first trial", || place.lines() > 0);
    run.ended_by(Signal::KILL);
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
        let (place, dir) = (Place::new(), directory_on_disk());
        let path = dir.path().join("mine");
        let content: Vec<u8> = (0..2_000_001_u32).map(|i| (i / 7) as u8).collect();
        fs::write(&path, &content).unwrap();
        let changed = fs::metadata(&path).unwrap().modified().unwrap();
        place
            .call(format!("{words} --file {}", path.display()))
            .measured();
        assert_eq!(fs::read(&path).unwrap(), content);
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), changed);
        let cells: BTreeSet<String> = (place.samples().into_iter())
            .filter(|(cell, _)| cell.mover != "null")
            .map(|(_, sample)| sample.cell)
            .collect();
        let is_whole = |id: &String| id.contains(mover) && id.contains("/2000001/");
        assert!(!cells.is_empty() && cells.iter().all(is_whole), "{cells:?}");
        let is_reported = place.read("report.md").contains("never written to");
        assert!(is_reported || mover == "/sendfile/");
        // Where the file is gone, the run stays as it is: whole.
        fs::remove_file(&path).unwrap();
        place.refuses("", &place.resume("=> mine: No such file"));
        assert!(place.run().join("ended.json").is_file());
    }
}

#[test]
fn what_cannot_be_had_of_files_is_told_in_a_line() {
    let (place, dir) = (Place::new(), directory_on_disk());
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
            "--file /nowhere => /nowhere | --file
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
    let template = "--size 5GiB => 5GiB | 4GiB
        --size 0 => size
        --size 7MiB --cache direct => choose --cache memory, warm or cold
        --size 7MiB --cache warm --file SHORT => the file has 5000 bytes
        --size 5000 --cache memory --file SHORT => sends memory files alone | choose --cache warm or cold
        --size 7MiB --cache warm --file /nowhere => /nowhere";
    let table = template.replace("SHORT", short.to_str().unwrap());
    place.refuses(&within(&dir, SEND), &table);
    assert_eq!(count(place.path()), 0, "something was left behind");
    assert_eq!(count(dir.path()), 2, "something was left behind");
}

#[test]
fn a_disk_without_room_and_one_that_is_read_only_are_told_before_anything_is_made() {
    let sending = format!("{SEND} --size 7MiB --cache warm");
    let two = READ
        .replace("pread", "pread,pwrite")
        .replace("1MiB", "64MiB");
    for (words, options, says) in [
        (READ, "size=2m", "no space | which has 2 MiB"),
        (&two, "size=96m", "no space: a file of 128 MiB"),
        (&sending, "size=2m", "no space"),
        (&sending, "ro", "Read-only file system"),
    ] {
        let (place, dir) = (Place::new(), directory_on_disk());
        if let Some(end) = in_tmpfs(&place, options, dir.path(), &within(&dir, words)) {
            end.refused(&says.split(" | ").chain(["--dir"]).collect::<Vec<_>>());
            assert_eq!(count(place.path()), 0, "something was left behind");
        }
    }
}
