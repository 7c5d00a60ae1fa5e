//! The layout of timed programs: a row a run, both ways.

use crate::fixture::{cell, flow};

use bytecost_report::layout::{RUNS, Runs, TableLayout as _};
use bytecost_spec::{Axis, Cell, Measure, Metric, Sample, SideReadings, TrialKey};

const JOINED: &str = include_str!("../../../published/os-features.csv");

fn runs() -> &'static Runs {
    &RUNS[0]
}

fn published() -> String {
    let rows = JOINED.lines().skip(1).map(|line| {
        let values: Vec<&str> = line.split(',').collect();
        format!("{},{},{}\n", values[2], values[1], values[3])
    });
    format!("Run,Mode,Time_s\n{}", rows.collect::<String>())
}

#[test]
fn what_was_published_comes_out_as_it_was() {
    let own = published();
    for text in [own.as_str(), JOINED] {
        let imported = runs().import(text).unwrap();
        assert_eq!(imported.rows.len(), 24);
        assert_eq!(runs().csv_of_imported(&imported), own);
        // What of it is a speed of ours: 1 GiB over the mean of three runs.
        let speed = |mover: &str| {
            let mut cells = imported.published.cells.iter();
            let cell = cells.find(|c| c.cell.mover == mover).unwrap();
            cell.values[&Metric::both(Measure::ThroughputGbitPerS)]
        };
        assert!((speed("pread") / 3.0508 - 1.0).abs() < 1e-3);
        assert!((speed("sendfile-null") / 16.137 - 1.0).abs() < 1e-3);
        let study = runs().study(&imported.published);
        assert_eq!(study.tiers.len(), imported.published.cells.len());
    }
}

#[test]
fn a_part_of_the_modes_is_a_table_too() {
    let imported = runs().import("run,mode,time_s\n1,sync_io,2.5\n").unwrap();
    assert_eq!(imported.published.cells.len(), 3, "a size each");
    let work = "Run,Mode,Time_s\n2,shared_core,0.0004\n1,shared_core,4.250\n";
    let imported = runs().import(work).unwrap();
    assert!(imported.published.cells.is_empty());
    assert_eq!(runs().csv_of_imported(&imported), work);
}

#[test]
fn a_bad_file_is_told_with_its_line() {
    let check = |text: &str, says: &str| {
        let told = runs().import(text).unwrap_err().to_string();
        assert!(told.contains(says) && !told.contains('\n'), "{told}");
    };
    check("", "line 1");
    check("Run,Mode,Time_s\n", "line 1: there is no row");
    check("Run,Mode\n1,sync_io\n", "the columns of layout os-features");
    check("Run,Mode,Time_s,Host\n1,sync_io,2,x\n", "Run,Mode,Time_s");
    let other = "line 2: Mode: `sendfile` is of zero_copy_io, not of `async_io`";
    check("feature,mode,run,time_s\nasync_io,sendfile,1,2\n", other);
    let table = "1,sync_io,3 => line 3: the same run of the same mode as in line 2
        0,sync_io,3 => line 3: Run: `0` is out of bounds
        1.5,sync_io,3 => Run: `1.5`
        99999,sync_io,3 => Run: `99999`
        2,fast_io,3 => Mode: `fast_io` is not known: sync_io,
        2,sync_io,0 => Time_s: `0` is out of bounds
        2,sync_io,-1 => Time_s
        2,sync_io,NaN => Time_s
        2,sync_io,1e9 => Time_s: `1e9` is out of bounds
        2,sync_io,1e-20 => Time_s
        2,sync_io,x\u{1b}[2J => Time_s
        2,sync_io => 2 values, but the header names 3";
    for row in table.lines() {
        let (row, says) = row.trim().split_once(" => ").unwrap();
        check(&format!("Run,Mode,Time_s\n1,sync_io,2\n{row}\n"), says);
    }
}

fn work(threads: &str, placement: &str) -> Cell {
    cell(&[
        (Axis::Mover, "work-integer"),
        (Axis::Threads, threads),
        (Axis::Placement, placement),
    ])
}

fn read(mover: &str, size: &str) -> Cell {
    cell(&[
        (Axis::Mover, mover),
        (Axis::Size, size),
        (Axis::Cache, "warm"),
    ])
}

/// A trial with flows of so many bytes, messages and ns.
fn sample(cell: &Cell, block: u32, attempt: u32, flows: &[(u64, u64, u64)]) -> Sample {
    let moved = |&(bytes, messages, ns): &(u64, u64, u64)| flow(bytes, messages, ns);
    Sample {
        trial: TrialKey {
            attempt,
            ..TrialKey::first(block, 0)
        },
        cell: cell.id(),
        sender: SideReadings {
            flows: flows.iter().map(moved).collect(),
            ..SideReadings::default()
        },
        ..Sample::default()
    }
}

#[test]
fn a_run_has_a_row_for_each_trial_of_a_mode() {
    let gib = 1u64 << 30;
    let cells = [
        // Without a counterpart, so that the next is the mode.
        read("pread", "4KiB"),
        read("pread", "64KiB"),
        read("posix-aio", "64KiB"),
        read("libaio", "64KiB"),
        work("2", "cross-cache"),
        work("1", "same-cpu"),
    ];
    let [_, pread, aio, libaio, apart, pinned] = &cells;
    let samples = [
        sample(&cells[0], 0, 0, &[(gib, 1, 1)]),
        sample(pread, 0, 0, &[(gib / 2, 1, 500_000_000)]),
        // A trial that was repeated counts once.
        sample(pread, 1, 0, &[(gib, 1, 9_000_000_000)]),
        sample(pread, 1, 1, &[(gib, 1, 2_000_000_000)]),
        sample(aio, 0, 0, &[(gib / 4, 1, 1_000_000_000)]),
        sample(libaio, 0, 0, &[(gib, 1, 1)]),
        // Two threads, each of which does all of the work.
        sample(apart, 0, 0, &[(1, 5_000_000, 10_000_000); 2]),
        // Nothing was done in the window: no time can be told.
        sample(pinned, 0, 0, &[(0, 0, 10_000_000)]),
    ];
    let text = runs().csv(&cells, &samples, false).unwrap();
    assert_eq!(
        text,
        "Run,Mode,Time_s\n1,sync_io,1.000\n2,sync_io,2.000\n1,async_aio,4.000\n1,separate_core,2.000\n"
    );
    let imported = runs().import(&text).unwrap();
    assert_eq!(runs().csv_of_imported(&imported), text);
    let none = runs().csv(&cells[3..4], &samples, false).unwrap_err();
    assert!(none.contains("bytecost run os-features"), "{none}");
}
