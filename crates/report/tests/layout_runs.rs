//! The layout of timed programs: a row a run.

use crate::fixture::{cell, flow};

use bytecost_report::layout::{RUNS, Runs, TableLayout as _};
use bytecost_spec::{Axis, Cell, Sample, SideReadings, TrialKey};

fn runs() -> &'static Runs {
    &RUNS[0]
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
        // Nothing was done in the window, so that no time is known.
        sample(pinned, 0, 0, &[(0, 0, 10_000_000)]),
    ];
    let text = runs().csv(&cells, &samples, false).unwrap();
    assert_eq!(
        text,
        "Run,Mode,Time_s\n1,sync_io,1.000\n2,sync_io,2.000\n1,async_aio,4.000\n1,separate_core,2.000\n"
    );
    let none = runs().csv(&cells[3..4], &samples, false).unwrap_err();
    assert!(none.contains("bytecost run os-features"), "{none}");
}
