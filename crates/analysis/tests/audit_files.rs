//! The built-in claims about files, each held against runs whose truth is known.

mod file_worlds;
mod world;

use bytecost_analysis::{Audited, Grounds, Ruling, audit};
use bytecost_spec::claim::{self, Claim};
use bytecost_spec::evidence::{Copied, CopiedBytes, CopyMeans, CopyPlace, TrialEvidence};
use bytecost_spec::{Cell, Counter, Reading, Table, TrialKey};
use file_worlds::{READS, SENDS, reads, sends, speed, stalling};
use world::{True, World};

const CLAIMS: &str = include_str!("../../../published/claims.toml");
const TABLES: [(&str, &str); 2] = [
    (
        "file-transfer",
        include_str!("../../../published/file-transfer.csv"),
    ),
    (
        "os-features",
        include_str!("../../../published/os-features.csv"),
    ),
];

fn built_in(id: &str) -> Claim {
    let claims = claim::parse(CLAIMS).expect("claims");
    claims.into_iter().find(|c| c.id == id).expect(id)
}

fn judged(world: &World, claim: Claim) -> Audited {
    let tables = TABLES.map(|(name, text)| Table::parse(name, text).expect(name));
    let grounds = Grounds {
        claims: &[claim],
        tables: &tables,
        studies: &["file-read", "file-copy", "file-to-socket"],
        ..Grounds::default()
    };
    audit(world.input(), &world.analyse(), &grounds).remove(0)
}

#[track_caller]
fn check(world: &World, id: &str, ruling: Ruling, says: &[&str]) -> Audited {
    let found = judged(world, built_in(id));
    assert_eq!(found.ruling, ruling, "{found:#?}");
    for word in says {
        assert!(found.because.contains(word), "no `{word}` in {found:#?}");
    }
    found
}

/// Figures in which a measured number stands.
fn measured(found: &Audited) -> usize {
    found
        .figures
        .iter()
        .filter(|f| f.measured.is_some())
        .count()
}

fn sequential() -> String {
    READS
        .replace("\"libaio\"", "\"uring-read\"")
        .replace("\"direct\"", "\"cold\"")
}

fn read(truth: fn(&Cell) -> True) -> World {
    reads(&sequential(), truth, |_| 0)
}

#[test]
fn whether_asynchronous_reads_are_slower_and_for_being_asynchronous() {
    let id = "o-aio-slower";
    let slow = |c: &Cell| speed(if c.mover == "pread" { 4.0 } else { 2.0 });
    let found = check(&read(slow), id, Ruling::Confirmed, &["8 cells", "1.41"]);
    // A figure of the table, and eight cells of each mover.
    assert_eq!(measured(&found), 16, "{found:#?}");
    let by_threads = |c: &Cell| {
        speed(match (c.mover.as_str(), c.depth) {
            ("posix-aio", _) => 1.0,
            ("uring-read", 16) => 12.0,
            _ => 4.0,
        })
    };
    check(
        &read(by_threads),
        id,
        Ruling::ConfirmedForAnotherReason,
        &[
            "the threads of the C library",
            "`uring-read` over `pread` is not below 1",
        ],
    );
    let quick = |c: &Cell| speed(if c.mover == "pread" { 1.0 } else { 3.0 });
    check(
        &read(quick),
        id,
        Ruling::Refuted,
        &["`posix-aio` over `pread`"],
    );
    let elsewhere = sends(SENDS, |_| speed(2.0));
    let found = check(
        &elsewhere,
        id,
        Ruling::Undecided,
        &["`bytecost run file-read` measures them"],
    );
    assert_eq!(measured(&found), 0);
    // What is not there of a reason is left aside.
    let study = sequential().replace(", \"uring-read\"", "");
    let without = reads(&study, slow, |_| 0);
    check(&without, id, Ruling::Confirmed, &["8 cells"]);
}

/// Files sent in two blocks, as the plan lays them out: what does not go by blocks has one.
fn blocks(truth: fn(&Cell) -> True, calls_of_a_block: u64) -> World {
    let study = SENDS
        .replace(
            "[\"read-write\", \"sendfile\", \"mmap-send\"]",
            "[\"read-write\", \"sendfile\"]",
        )
        .replace(
            "cache = [\"warm\", \"cold\"]",
            "cache = [\"warm\"]\nblock = [\"4KiB\", \"64KiB\"]",
        );
    let mut world = sends(&study, truth);
    let whole = |c: &Cell| c.mover == "sendfile" && c.block_bytes == 4096;
    world
        .samples
        .retain(|s| !(s.cell.contains("/sendfile/") && s.cell.contains("block=4KiB")));
    let kept: Vec<Cell> = world.cells.iter().filter(|c| !whole(c)).cloned().collect();
    for sample in &mut world.samples {
        let at = kept.iter().position(|c| c.id() == sample.cell);
        sample.trial.cell = at.expect("a cell that is kept") as u32;
    }
    world.cells = kept;
    world.change(
        |c| c.mover == "read-write",
        |sample| {
            let bytes = file_worlds::count(&sample.sender, Counter::Bytes);
            let block = if sample.cell.contains("block=4KiB") {
                4096
            } else {
                65_536
            };
            file_worlds::set(sample, Counter::Calls, calls_of_a_block * bytes / block);
        },
    );
    world
}

/// What was counted of 1,000 bytes of each cell: sendfile copies none, and `read-write` so many out
/// of the page cache and into the kernel.
fn count_copies(world: &mut World, read: u64, sent: u64) {
    let leg = |leg, bytes| Copied {
        leg,
        means: Some(CopyMeans::Tracepoints),
        bytes: Reading::Measured(bytes),
    };
    let of = |(place, cell): (usize, &Cell)| {
        let (read, sent) = match cell.mover.as_str() {
            "read-write" => (read, sent),
            _ => (0, 0),
        };
        TrialEvidence {
            trial: TrialKey {
                block: 0,
                cell: place as u32,
                attempt: 1,
            },
            cell: cell.id(),
            started_ms: 0,
            sent_bytes: 1000,
            sent_messages: 1,
            trial_ms: 1,
            elapsed_ns: 1,
            time: None,
            copies: Some(CopiedBytes {
                payload_bytes: 1000,
                legs: vec![
                    leg(CopyPlace::FromFile, read),
                    leg(CopyPlace::IntoKernel, sent),
                    leg(CopyPlace::Delivery, 0),
                    leg(CopyPlace::ToReader, 1000),
                ],
                gaps: Vec::new(),
            }),
            footprint: None,
            accounts: None,
            counts: Vec::new(),
        }
    };
    world.evidence = world.cells.iter().enumerate().map(of).collect();
}

fn five_times(c: &Cell) -> True {
    speed(if c.mover == "sendfile" { 21.2 } else { 4.0 })
}

#[test]
fn switches_are_counted_as_calls_and_copies_by_the_kernel() {
    let id = "f-copies-and-switches";
    let found = check(
        &blocks(five_times, 2),
        id,
        Ruling::Undecided,
        &["--evidence copies", "512", "`sendfile` over `read-write`"],
    );
    assert_eq!(measured(&found), 4, "{found:#?}");
    let counted = |read: u64, sent: u64| {
        let mut world = blocks(five_times, 2);
        count_copies(&mut world, read, sent);
        world
    };
    check(
        &counted(1000, 1000),
        id,
        Ruling::Confirmed,
        &["opies per byte of the sender"],
    );
    check(
        &counted(0, 1000),
        id,
        Ruling::Refuted,
        &["opies per byte of the sender"],
    );
    check(
        &blocks(five_times, 3),
        id,
        Ruling::Refuted,
        &[
            "System calls per MiB of the sender is not from 500 to 525",
            "768",
        ],
    );
    // A timer makes no call more or less.
    let study = SENDS.replace("cache =", "block = [\"4KiB\"]\ncache =");
    let found = check(
        &stalling(&study, five_times, "read-write"),
        id,
        Ruling::Undecided,
        &["--evidence copies"],
    );
    assert!(!found.because.contains("Nagle"), "{found:#?}");
    assert!(found.figures.iter().all(|f| !f.what.contains("8 ×")));
    let mut uncounted = blocks(five_times, 2);
    uncounted.change(
        |_| true,
        |s| {
            s.sender
                .readings
                .insert(Counter::Calls, Reading::absent("not told"));
        },
    );
    check(&uncounted, id, Ruling::Undecided, &["not told"]);
}

#[test]
fn the_mean_of_its_own_rows_contradicts_the_sixty_five_percent() {
    let id = "f-sixty-five-percent";
    let says = "in the mean of 8 rows 0.427 (0.288 to 0.541)";
    let found = check(&blocks(five_times, 2), id, Ruling::Refuted, &[says]);
    // Natively, in blocks of 4 KiB, at two sizes.
    assert_eq!(measured(&found), 2, "{found:#?}");
    let java = SENDS
        .replace(
            "\"read-write\", \"sendfile\", \"mmap-send\"",
            "\"java-stream\", \"java-transfer-to\"",
        )
        .replace("baseline = \"read-write\"", "baseline = \"java-stream\"");
    let java = java.replace("cache =", "block = [\"4KiB\"]\ncache =");
    let third = |c: &Cell| {
        speed(if c.mover == "java-transfer-to" {
            6.0 / 2.1 * 2.0
        } else {
            2.0
        })
    };
    let world = sends(&java, third);
    let found = check(&world, id, Ruling::Refuted, &[says]);
    assert_eq!(measured(&found), 4, "{found:#?}");
    // Without its own table the run alone decides.
    let mut of_run = built_in(id);
    of_run.tests.remove(0);
    let found = judged(&world, of_run.clone());
    assert_eq!(found.ruling, Ruling::Confirmed, "{found:#?}");
    let found = judged(&blocks(five_times, 2), of_run.clone());
    assert_eq!(found.ruling, Ruling::Refuted, "{found:#?}");
    let found = judged(&read(five_times), of_run);
    assert_eq!(found.ruling, Ruling::Undecided);
    let told = found.because.matches("bytecost run file-to-socket").count();
    assert_eq!(told, 1, "what is missing is said once: {found:#?}");
}

#[test]
fn five_times_is_looked_for_to_a_socket_or_to_nothing() {
    let id = "o-sendfile-five-times";
    check(&blocks(five_times, 2), id, Ruling::Confirmed, &["5.3"]);
    let twice = |c: &Cell| speed(if c.mover == "sendfile" { 8.0 } else { 4.0 });
    check(&blocks(twice, 2), id, Ruling::Refuted, &["2.0"]);
    check(
        &read(five_times),
        id,
        Ruling::Undecided,
        &["`bytecost run file-copy` measures them"],
    );
}
