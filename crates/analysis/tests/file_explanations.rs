//! Questions about files: answered where decided, else short about what is missing. And what movers
//! of files are not compared with.

use bytecost_spec::{Cache, Cell, Counter, Measure, Metric};

use crate::file_worlds::{READS, SENDS, reads, sends, speed, stalling};
use crate::world::{At, Found, True, World, answered, by_mover, missing, put, question, says};

/// Both lose from the page cache; past it POSIX aio stays as slow at any depth.
fn planted(cell: &Cell) -> True {
    match (cell.mover.as_str(), cell.cache, cell.depth) {
        ("posix-aio", Cache::Warm, _) => speed(2.0),
        ("libaio", Cache::Warm, _) => speed(8.0),
        ("posix-aio", ..) => speed(0.5),
        ("libaio", _, 16) => speed(8.0),
        ("libaio", ..) => speed(0.8),
        (_, Cache::Warm, _) => speed(10.0),
        _ => speed(1.0),
    }
}

fn has(list: &[String], part: &str) -> bool {
    list.iter().any(|text| text.contains(part))
}

const ALONE: &str = "asynchronous-slower";

#[test]
fn when_asynchronous_is_slower_is_reported_by_cache_and_depth() {
    let mixed = reads(READS, planted, |_| 0).analyse();
    let by_cache = [
        "`posix-aio` compared with `pread` in throughput: worse in 8 of 8 cells, 0.19",
        "`libaio` compared with `pread` in throughput: better with cache direct, at depth 16, at 4 KiB and at 64 KiB, 7.9",
        "worse in 6 of 8 cells",
    ];
    answered(&mixed, ALONE, &by_cache);
    let quick = |c: &Cell| speed(if c.mover == "pread" { 4.0 } else { 8.0 });
    let faster = reads(READS, quick, |_| 0).analyse();
    says(faster.answer(ALONE), ["better"]);
    assert!(!faster.answer(ALONE).contains("worse"));
    let mut without = reads(READS, planted, |_| 0);
    without.samples.retain(|s| !s.cell.contains("/pread/"));
    let incomplete = without.analyse();
    let words = ["next to a synchronous one", "--mover pread"];
    missing(&incomplete, ALONE, &words);
    let only_sync = READS.replace(", \"posix-aio\", \"libaio\"", "");
    let analysis = reads(&only_sync, planted, |_| 0).analyse();
    assert!(question(&analysis, ALONE).is_none());
}

/// `sendfile` is three times as fast and cheap from the page cache, and no better from the disk.
fn saving(cell: &Cell) -> True {
    match (cell.mover.as_str(), cell.cache) {
        ("sendfile", Cache::Warm) => speed(60.0),
        (_, Cache::Cold) => speed(5.0),
        _ => speed(20.0),
    }
}

const SAVES: &str = "sendfile-saves";

#[test]
fn what_sendfile_does_not_save_is_reported() {
    let nothing = sends(SENDS, |_| speed(20.0)).analyse();
    says(nothing.answer(SAVES), ["no difference that matters"]);
    assert!(!nothing.answer(SAVES).contains("better"));
}

#[test]
fn a_way_of_an_unknown_name_is_explained_by_its_facts() {
    let mut world = sends(SENDS, saving);
    world.rename("sendfile", "page-passer");
    let of_known = sends(SENDS, saving).analyse();
    let of_unknown = world.analyse();
    let [known, unknown] = [&of_known, &of_unknown].map(|a| a.answer(SAVES));
    assert_eq!(unknown, known.replace("sendfile", "page-passer"));
}

#[test]
fn what_is_missing_of_sendfile_is_reported() {
    let warm = SENDS.replace("[\"warm\", \"cold\"]", "[\"warm\"]");
    let from_memory = sends(&warm, saving).analyse();
    let found = answered(
        &from_memory,
        SAVES,
        &["better at 64 KiB and at 256 KiB, 0.3"],
    );
    let without_cold = "a cold page cache was not measured (--cache cold)";
    assert!(has(&found.evidence, without_cold));
    // A refusal is evidence for its own mover alone.
    let names_refusal = |mover: &str| {
        let mut refused = sends(&warm, saving);
        let mut cold = refused.cells[0].clone();
        (cold.cache, cold.mover) = (Cache::Cold, mover.to_owned());
        refused.refused = vec![bytecost_spec::RefusedCell {
            cell: cold,
            why: "its pages stayed".to_owned(),
        }];
        let analysis = refused.analyse();
        let evidence = question(&analysis, SAVES).unwrap().evidence;
        has(&evidence, "its pages stayed")
    };
    assert!(names_refusal("sendfile") && !names_refusal("uring-read-send"));
    let mut half = sends(SENDS, saving);
    half.samples.retain(|s| !s.cell.contains("/read-write/"));
    missing(&half.analyse(), SAVES, &["the study does not compare them"]);
    half.samples.clear();
    missing(&half.analyse(), SAVES, &["no way that leaves the bytes"]);
    let other = SENDS.replace("\"sendfile\", \"mmap-send\"", "\"uring-read-send\"");
    assert!(question(&sends(&other, saving).analyse(), SAVES).is_none());
}

#[test]
fn a_timer_is_no_time_that_sendfile_saves() {
    let analysis = stalling(SENDS, saving, "read-write").analyse();
    let found = answered(&analysis, SAVES, &["of the sender: better"]);
    assert!(!analysis.answer(SAVES).contains("throughput"), "{found:#?}");
    let timer = "withheld: one side waits for the timer";
    assert!(has(&found.evidence, timer), "{found:#?}");
}

fn with_writes() -> World {
    let study = READS.replace("posix-aio", "pwrite");
    reads(&study, |_| speed(1.0), |_| 0)
}

#[test]
fn reading_is_not_held_against_writing() {
    let findings = with_writes().analyse().findings;
    assert!(!findings.is_empty());
    assert!(findings.iter().all(|f| f.value == "libaio"));
}

#[test]
fn what_is_done_aside_is_no_neighbour() {
    let mut world = with_writes();
    let share = |measured: &World| {
        let analysis = measured.analyse();
        let cell = analysis.of_mover("pread");
        cell.estimates[&Metric::both(Measure::NeighbourShare)].value
    };
    let before = share(&world);
    let aside = 20_000_000;
    world.change(by_mover("pread"), |sample| {
        let busy = sample.machine[&Counter::MachineBusyNs].measured().unwrap();
        put(&mut sample.machine, Counter::MachineBusyNs, busy + aside);
    });
    let without = share(&world);
    assert!(without > before + 0.05, "{before} {without}");
    world.put(by_mover("pread"), At::Sender, [(Counter::AsideNs, aside)]);
    assert!((share(&world) - before).abs() < 0.01);
}
