//! The questions about files: answered where the run bears it, silent where nothing is to be
//! explained, and missing with what it takes elsewhere.

mod world;

use bytecost_analysis::{Analysis, Explanation};
use bytecost_spec::survey::{InFlight, Release, Route};
use bytecost_spec::{Cache, Cell, Counter, Reading, Sample, SideReadings};
use world::{True, World};

const READS: &str = r#"
name = "file-read"
title = "Files"
question = "When is asynchronous slower?"
prediction = "From the page cache."
smallest-effect = "5%"
precision = "3%"
budget = "60s"
warmup = "10ms"
window = "100ms"
blocks-least = 6
blocks-most = 40

[axes]
mover = ["null", "pread", "posix-aio", "libaio"]
size = ["4KiB", "64KiB"]
depth = [1, 16]
cache = ["warm", "direct"]

[[compare]]
axis = "mover"
baseline = "pread"
metrics = ["throughput_gbit_per_s", "latency_us_p99"]
"#;

const SENDS: &str = r#"
name = "file-to-socket"
title = "Files to sockets"
question = "What does sendfile save?"
prediction = "The calls."
smallest-effect = "5%"
precision = "3%"
budget = "60s"
warmup = "10ms"
window = "100ms"
blocks-least = 6
blocks-most = 40

[axes]
mover = ["read-write", "sendfile", "mmap-send"]
size = ["64KiB", "256KiB"]
cache = ["warm", "cold"]

[[compare]]
axis = "mover"
baseline = "read-write"
metrics = ["throughput_gbit_per_s", "sender_cpu_s_per_gb"]
"#;

fn facts(world: &mut World, rows: &[(&str, Route, InFlight)]) {
    let row = |(name, route, in_flight): &(&str, Route, InFlight)| {
        let mut row = world::facts(name, Release::AtReturn, route.has_peer());
        (row.route, row.in_flight) = (*route, *in_flight);
        row
    };
    world.manifest.survey.mover_facts = rows.iter().map(row).collect();
}

/// A world of reads, with so many context switches and calls a request.
fn reads(study: &str, truth: fn(&Cell) -> True, switches: fn(&Cell) -> u64) -> World {
    let mut world = World::new(study);
    // As the plan does: who waits for each request has one in flight.
    world.cells.retain(|c| c.depth == 1 || c.mover != "pread");
    facts(
        &mut world,
        &[
            ("null", Route::Nowhere, InFlight::One),
            ("pread", Route::FileToMemory, InFlight::One),
            ("libaio", Route::FileToMemory, InFlight::Several),
            ("posix-aio", Route::FileToMemory, InFlight::SeveralByThreads),
        ],
    );
    let mut world = world.run(7, 12, 0.01, truth);
    let mut asked = World::new(&study.replace("cache = ", "pattern = [\"ask\"]\ncache = "))
        .run(7, 1, 0.02, truth);
    let histogram = asked.samples.remove(3).latency_ns_histogram;
    world.change(
        |c| c.mover != "null",
        |sample| {
            sample.receiver = None;
            sample.latency_ns_histogram.clone_from(&histogram);
        },
    );
    for cell in world.cells.clone() {
        let times = switches(&cell);
        world.change(
            |c| *c == cell,
            |sample| {
                let messages = count(&sample.sender, Counter::Messages);
                set(sample, Counter::ContextSwitchesVoluntary, times * messages);
                set(sample, Counter::ContextSwitchesInvoluntary, 0);
            },
        );
    }
    world
}

fn count(side: &SideReadings, counter: Counter) -> u64 {
    side.readings[&counter].measured().expect("a reading")
}

fn set(sample: &mut Sample, counter: Counter, value: u64) {
    let reading = Reading::Measured(value);
    sample.sender.readings.insert(counter, reading);
}

fn speed(gbit_per_s: f64) -> True {
    True {
        gbit_per_s,
        ..True::costs(6.0 / gbit_per_s)
    }
}

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

/// A world of files to sockets, in which `read-write` makes two calls for each 4 KiB.
fn sends(study: &str, truth: fn(&Cell) -> True) -> World {
    let mut world = World::new(study);
    let rows: Vec<(&str, Route, InFlight)> = ["read-write", "sendfile", "mmap-send"]
        .map(|name| (name, Route::FileToSocket, InFlight::One))
        .to_vec();
    facts(&mut world, &rows);
    let mut world = world.run(5, 12, 0.01, truth);
    world.change(
        |_| true,
        |sample| {
            let bytes = count(&sample.sender, Counter::Bytes);
            let per_call = if sample.cell.contains("/read-write/") {
                2048
            } else {
                1 << 16
            };
            set(sample, Counter::Calls, bytes / per_call);
        },
    );
    world
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
