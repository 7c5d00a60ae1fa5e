//! The questions about files: answered where the run bears it, silent where nothing is to be
//! explained, and missing with what it takes elsewhere.

mod file_worlds;
mod world;

use bytecost_analysis::{Analysis, Explanation};
use bytecost_spec::{Cache, Cell, Counter, Reading};
use file_worlds::{READS, SENDS, reads, sends, speed, stalling};
use world::True;

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

fn by_threads(cell: &Cell) -> u64 {
    2 * u64::from(cell.mover == "posix-aio")
}

fn find<'a>(analysis: &'a Analysis, key: &str) -> Option<&'a Explanation> {
    analysis.explanations.iter().find(|e| e.key == key)
}

/// Holds an answered question to the parts of its answer.
#[track_caller]
fn answered<'a>(analysis: &'a Analysis, key: &str, parts: &[&str]) -> &'a Explanation {
    let found = find(analysis, key).unwrap_or_else(|| panic!("no {key}"));
    let answer = found
        .answer
        .as_deref()
        .unwrap_or_else(|| panic!("{found:#?}"));
    for part in parts {
        assert!(answer.contains(part), "no `{part}` in {answer}");
    }
    assert!(found.missing.is_none() && found.would_change.is_some());
    assert!(answer.ends_with('.') && !answer.contains('\n'), "{answer}");
    found
}

/// Holds a question without an answer to what it says is missing.
#[track_caller]
fn missing(analysis: &Analysis, key: &str, parts: &[&str]) {
    let found = find(analysis, key).unwrap_or_else(|| panic!("no {key}"));
    let said = found
        .missing
        .as_deref()
        .unwrap_or_else(|| panic!("{found:#?}"));
    for part in parts {
        assert!(said.contains(part), "no `{part}` in {said}");
    }
    assert!(found.answer.is_none() && !said.ends_with('.'), "{found:#?}");
}

fn has(rows: &[String], parts: &[&str]) -> bool {
    rows.iter()
        .any(|row| parts.iter().all(|part| row.contains(part)))
}

#[test]
fn when_asynchronous_is_slower_is_told_by_cache_and_depth() {
    let analysis = reads(READS, planted, by_threads).analyse();
    let found = answered(
        &analysis,
        "asynchronous-slower",
        &[
            "Slower, by its throughput over that of `pread`: from the page cache with one request in flight `posix-aio` 0.20",
            "and `libaio` 0.79",
            "from the disk past the page cache with several requests in flight `posix-aio` 0.49",
            "Faster: from the disk past the page cache with several requests in flight `libaio` 7.9",
            " (7.",
        ],
    );
    assert!(
        has(
            &found.numbers,
            &[
                "`libaio` against `pread`, throughput from the disk past the page cache: 0.",
                "at 4 KiB, at depth 16",
            ],
        ),
        "{found:#?}"
    );
    assert!(!found.findings.is_empty());
    let quick = |c: &Cell| {
        let gain = if c.mover == "pread" { 1.0 } else { 2.0 };
        speed(4.0 * gain)
    };
    answered(
        &reads(READS, quick, by_threads).analyse(),
        "asynchronous-slower",
        &[
            "At no place that was measured: of 16 comparisons of its throughput with that of `pread` none came out slower",
            "Faster: ",
        ],
    );
    let mut without = reads(READS, planted, by_threads);
    without.samples.retain(|s| !s.cell.contains("/pread/"));
    missing(
        &without.analyse(),
        "asynchronous-slower",
        &["no synchronous read was measured", "--mover pread"],
    );
}

#[test]
fn why_asynchronous_is_slower_is_told_from_what_was_counted() {
    let key = "asynchronous-why";
    let analysis = reads(READS, planted, by_threads).analyse();
    let found = answered(
        &analysis,
        key,
        &[
            "Threads of the process carry out the requests of `posix-aio`",
            "2.00 (2.00 to 2.00) context switches a request instead of 0",
            "from the page cache no request waits for the disk (`pread` has one in ",
            "more requests in flight do not help `posix-aio`",
            "with one request in flight nothing overlaps",
            "the throughput of `libaio` becomes ",
        ],
    );
    assert!(
        has(
            &found.numbers,
            &["`pread` in 4 cells: ", "CPU time per message"]
        ),
        "{found:#?}"
    );
    assert!(
        has(&found.evidence, &["more CPU time in 14 of 14 cells"]),
        "{found:#?}"
    );
}

#[test]
fn nothing_is_explained_where_asynchronous_is_not_slower() {
    let quick = |c: &Cell| speed(if c.mover == "pread" { 1.0 } else { 3.0 });
    let analysis = reads(READS, quick, by_threads).analyse();
    assert!(find(&analysis, "asynchronous-why").is_none());
    // io_uring has threads as well, and does not use them for what is in the page cache.
    let with_uring = READS.replace("\"libaio\"", "\"uring-read\"");
    let both = |c: &Cell| speed(if c.mover == "pread" { 4.0 } else { 1.0 });
    let analysis = reads(&with_uring, both, by_threads).analyse();
    answered(
        &analysis,
        "asynchronous-why",
        &["Threads of the process carry out the requests of `posix-aio`, so that"],
    );
    // Without switches the threads are not named, whatever the mover is called.
    let analysis = reads(READS, planted, |_| 0).analyse();
    let found = answered(
        &analysis,
        "asynchronous-why",
        &["From the page cache no request"],
    );
    assert!(
        !found
            .answer
            .as_ref()
            .unwrap()
            .contains("hreads of the process")
    );
}

#[test]
fn a_run_without_what_it_takes_says_so() {
    let key = "asynchronous-why";
    let mut without = reads(READS, planted, by_threads);
    without.samples.retain(|s| !s.cell.contains("/pread/"));
    missing(
        &without.analyse(),
        key,
        &["no synchronous read was measured"],
    );
    let mut bare = reads(READS, planted, by_threads);
    bare.samples
        .retain(|s| !s.cell.contains("/posix-aio/") && !s.cell.contains("depth=16"));
    // Only what says how long a request takes, not what it costs.
    for counter in [
        Counter::CpuNs,
        Counter::ContextSwitchesVoluntary,
        Counter::ContextSwitchesInvoluntary,
    ] {
        bare.change(
            |_| true,
            |s| {
                let absent = Reading::absent("not counted on this kernel");
                s.sender.readings.insert(counter, absent);
            },
        );
    }
    missing(&bare.analyse(), key, &["not counted on this kernel"]);
    let only_sync = READS.replace(", \"posix-aio\", \"libaio\"", "");
    let analysis = reads(&only_sync, planted, by_threads).analyse();
    assert!(find(&analysis, key).is_none() && find(&analysis, "asynchronous-slower").is_none());
}

/// `sendfile` is three times as fast and cheap from the page cache, and no better from the disk.
fn saving(cell: &Cell) -> True {
    match (cell.mover.as_str(), cell.cache) {
        ("sendfile", Cache::Warm) => speed(60.0),
        (_, Cache::Cold) => speed(5.0),
        _ => speed(20.0),
    }
}

#[test]
fn what_sendfile_saves_is_told_and_where_it_does_not() {
    let key = "sendfile-saves";
    let analysis = sends(SENDS, saving).analyse();
    let found = answered(
        &analysis,
        key,
        &[
            "Beside `read-write`, `sendfile` saves system calls: 16.0 for each MiB instead of 512",
            "CPU time of the sender: 0.3",
            "for each byte in 2 of 4 cells",
            "time: 0.3",
            "for each file in 2 of 4 cells",
            "It saves no time in 2 cells from the disk through the page cache: ",
        ],
    );
    assert!(
        has(
            &found.numbers,
            &[
                "`sendfile` against `read-write`, time for a file: ",
                "from the page cache, at 64 KiB, ",
                " ms",
            ],
        ),
        "{found:#?}"
    );
    assert!(has(&found.numbers, &["`mmap-send` against `read-write`"]));
    assert!(found.evidence.is_empty() && !found.findings.is_empty());

    let always = |c: &Cell| speed(if c.mover == "sendfile" { 60.0 } else { 20.0 });
    answered(
        &sends(SENDS, always).analyse(),
        key,
        &["for each file in 4 cells", "No place was measured in which"],
    );
    let nothing = answered(
        &sends(SENDS, |_| speed(20.0)).analyse(),
        key,
        &["It saves no time in 4 cells", "16.0 for each MiB"],
    )
    .answer
    .clone()
    .unwrap();
    assert!(!nothing.contains("time: 1"), "{nothing}");
}

#[test]
fn what_is_missing_of_sendfile_is_told() {
    let key = "sendfile-saves";
    let warm = SENDS.replace("[\"warm\", \"cold\"]", "[\"warm\"]");
    let analysis = sends(&warm, saving).analyse();
    let found = answered(&analysis, key, &["for each file in 2 cells"]);
    assert!(has(
        &found.evidence,
        &["the cold page cache was not measured", "--cache cold"]
    ));
    // A refusal is told of the mover that it is about, and of no other.
    let mut refused = sends(&warm, saving);
    let cold = sends(SENDS, saving).cells.into_iter();
    let mut cold: Vec<Cell> = cold.filter(|c| c.cache == Cache::Cold).collect();
    cold.sort_by_key(|c| c.mover != "sendfile");
    let mut of = |mover: &str| {
        let mut other = cold[0].clone();
        other.mover = mover.to_owned();
        refused.refusals = vec![bytecost_spec::Refusal {
            what: other.id(),
            why: "its pages stayed".to_owned(),
        }];
        let analysis = refused.analyse();
        answered(&analysis, key, &[]).evidence.clone()
    };
    let told = ["`sendfile` with a cold page cache was not measured: its pages stayed"];
    assert!(has(&of("sendfile"), &told));
    assert!(!has(&of("uring-read-send"), &["its pages stayed"]));

    let mut half = sends(SENDS, saving);
    half.samples.retain(|s| !s.cell.contains("/read-write/"));
    missing(
        &half.analyse(),
        key,
        &["no cell with mover `read-write` was measured"],
    );

    let other = SENDS
        .replace("\"read-write\", ", "")
        .replace("baseline = \"read-write\"", "baseline = \"mmap-send\"");
    assert!(find(&sends(&other, saving).analyse(), key).is_none());
}

#[test]
fn a_timer_is_no_time_that_sendfile_saves() {
    let analysis = stalling(SENDS, saving, "read-write").analyse();
    let found = answered(
        &analysis,
        "sendfile-saves",
        &[
            "saves system calls: 16",
            "CPU time of the sender: 0.3",
            "Of time nothing can be said.",
        ],
    );
    let answer = found.answer.as_ref().unwrap();
    assert!(!answer.contains("for each file"), "{answer}");
    assert!(
        has(
            &found.evidence,
            &["in 4 cells one of the two waits", "--nodelay on"]
        ),
        "{found:#?}"
    );
}
