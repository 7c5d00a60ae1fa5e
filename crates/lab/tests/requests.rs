//! The loop of requests to a file: it allocates nothing, loses nothing, and sees what is wrong.

use std::os::fd::OwnedFd;
use std::time::Duration;

use bytecost_engine::file::{self, Opening, TestFile};
use bytecost_engine::{BlockOrder, FileWork, MOVERS, Mover, Route, Setup, WrongBytes};
use bytecost_lab::requests::{Content, Cool, Requests};
use bytecost_meter::NoMeter;
use bytecost_spec::Access;

#[path = "../../../tests/lack.rs"]
mod lack;
mod loops;

use lack::{Lack, skipped};

use loops::{CountingGate, counted, finish, in_memory};

const SIZE: usize = 4096;

fn opened(file: &TestFile, write: bool, direct: bool) -> OwnedFd {
    file::open(&file.path(), Opening { write, direct }).unwrap()
}

/// A file of 16 requests, and how a mover of files goes through it.
fn file_setup(file: &TestFile, mover: &Mover, depth: usize) -> Setup {
    let target = (mover.route == Route::FileToFile).then(|| {
        let mut target = TestFile::in_memory().unwrap();
        target.reserve(16 * SIZE as u64).unwrap();
        opened(&target, true, false)
    });
    Setup {
        file: Some(FileWork {
            file: opened(file, mover.route == Route::MemoryToFile, false),
            order: BlockOrder::new(Access::Random, 0, 16, SIZE as u64, 1),
            depth,
            block: SIZE,
            target,
        }),
        ..Setup::new(SIZE, Duration::from_secs(60))
    }
}

// Invariant 4.
#[test]
fn no_mover_of_files_allocates_or_loses_a_request() {
    // Not in memory: RWF_NOWAIT is not for memory files.
    let mut file = TestFile::in_dir(env!("CARGO_MANIFEST_DIR").as_ref()).unwrap();
    file.grow(16 * SIZE as u64).unwrap();
    for mover in MOVERS.iter().filter(|m| m.route.is_of_files()) {
        // Fewer in flight than a pass has requests, and more than the window offers.
        for (depth, window) in [(4, 500), (900, 500)] {
            let Ok(mut engine) = mover.open_file(file_setup(&file, mover, depth)) else {
                skipped(Lack::Machine, mover.name);
                continue;
            };
            let content = (mover.route == Route::FileToMemory).then(|| Content {
                pattern: file::content(),
                most: 8,
            });
            let places = file::written_places(SIZE, depth);
            let mut requests = Requests::new(&mut *engine, places, content, None);
            let mut meter = NoMeter;
            let gate = CountingGate::new(100, window);
            let (count, ended) = counted(|| requests.run(&gate, &mut meter, finish()));
            let ended = match ended {
                Err(e) if e.raw_os_error() == Some(rustix::io::Errno::OPNOTSUPP.raw_os_error()) => {
                    continue; // RWF_NOWAIT is not for every file system
                }
                ended => ended.unwrap_or_else(|e| panic!("{}, {depth}: {e}", mover.name)),
            };
            // The one place for the edges of segments, before the first of them.
            assert!(count <= 1, "{} allocated {count}", mover.name);
            let compared = requests.compared_bytes;
            assert!(ended.total.messages > 0, "{}", mover.name);
            assert_eq!(ended.total.bytes, ended.total.messages * SIZE as u64);
            if content.is_some() {
                assert_eq!(compared, ended.total.messages * 8, "{}", mover.name);
            }
            assert_eq!(ended.edges.len(), 1);
        }
        if mover.route == Route::MemoryToFile {
            file = in_memory(16 * SIZE as u64);
        }
    }
}

#[test]
fn a_cold_file_is_made_cold_between_stretches_that_are_not_measured() {
    let file = in_memory(16 * SIZE as u64);
    for name in ["pread", "libaio", "mmap-touch"] {
        let mover = Mover::named(name).unwrap();
        let mut engine = mover.open_file(file_setup(&file, mover, 4)).unwrap();
        let mut cooled = 0;
        let mut cool = || {
            cooled += 1;
            Ok(())
        };
        let mut requests = Requests::new(&mut *engine, 4, None, Some((16, &mut cool)));
        let gate = CountingGate::new(0, 400);
        let ended = requests.run(&gate, &mut NoMeter, finish()).unwrap();
        assert!(
            ended.edges.len() > 5,
            "{name}: {} segments",
            ended.edges.len()
        );
        for (from, to) in &ended.edges[..ended.edges.len() - 1] {
            let pass = to.tally.messages - from.tally.messages;
            assert_eq!(pass, 16, "{name}");
        }
        let timed = ended.tally().messages;
        assert_eq!(requests.latency_ns.len(), timed, "{name}");
        assert_eq!(cooled, ended.edges.len() - 1, "{name}");
    }
}

#[test]
fn a_window_that_is_too_short_for_a_request_has_one_all_the_same() {
    let file = in_memory(16 * SIZE as u64);
    for name in ["pread", "libaio", "splice-file"] {
        let mover = Mover::named(name).unwrap();
        let mut engine = mover.open_file(file_setup(&file, mover, 4)).unwrap();
        // Also of a cold file that is through when the window opens.
        for is_cold in [false, true] {
            let cool: Cool<'_> = &mut || Ok(());
            let cold = is_cold.then_some((1, cool));
            let mut requests = Requests::new(&mut *engine, 4, None, cold);
            let gate = CountingGate::new(3, 0);
            let ended = requests.run(&gate, &mut NoMeter, finish()).unwrap();
            assert!(is_cold || ended.edges.len() == 1, "{name}");
            assert!(ended.tally().messages >= 1, "{name}, {is_cold}");
        }
    }
}

#[test]
fn a_file_that_holds_something_else_is_caught() {
    let file = in_memory(16 * SIZE as u64);
    rustix::io::pwrite(opened(&file, true, false), b"x", 5 * SIZE as u64 + 3).unwrap();
    for name in ["read", "uring-read", "mmap-touch"] {
        let mover = Mover::named(name).unwrap();
        let Ok(mut engine) = mover.open_file(file_setup(&file, mover, 4)) else {
            continue;
        };
        let content = Content {
            pattern: file::content(),
            most: 8,
        };
        let mut requests = Requests::new(&mut *engine, 4, Some(content), None);
        let gate = CountingGate::new(0, 100);
        let why = requests.run(&gate, &mut NoMeter, finish()).unwrap_err();
        let word = format!("byte {} of it is wrong", 5 * SIZE + 3);
        assert!(why.to_string().contains(&word), "{name}: {why}");
        assert!(WrongBytes::is_in(&why), "{name}: {why}");
    }
}

#[test]
fn a_request_past_the_page_cache_that_is_no_whole_block_is_an_error() {
    let mut file = TestFile::in_dir(env!("CARGO_MANIFEST_DIR").as_ref()).unwrap();
    file.grow(16 * SIZE as u64).unwrap();
    let Some(unit) = file::direct_bytes(&file.path()).filter(|unit| *unit > 1) else {
        return skipped(Lack::Machine, "O_DIRECT");
    };
    // A length that is no whole block, and a whole block at an odd offset.
    for (size, start) in [(SIZE as u64 - unit / 2, 0), (SIZE as u64, unit / 2)] {
        let readers = MOVERS.iter().filter(|m| m.route == Route::FileToMemory);
        for mover in readers.filter(|m| m.name != "mmap-touch") {
            let mut setup = file_setup(&file, mover, 4);
            setup.size = size as usize;
            let work = setup.file.as_mut().unwrap();
            work.file = opened(&file, false, true);
            work.order = BlockOrder::new(Access::Sequential, start, 8, size, 1);
            let Ok(mut engine) = mover.open_file(setup) else {
                skipped(Lack::Machine, mover.name);
                continue;
            };
            let mut requests = Requests::new(&mut *engine, 4, None, None);
            let gate = CountingGate::new(0, 20);
            let ended = requests.run(&gate, &mut NoMeter, finish());
            let why = ended.err().map(|e| e.raw_os_error());
            let invalid = rustix::io::Errno::INVAL.raw_os_error();
            assert_eq!(why, Some(Some(invalid)), "{} {size} {start}", mover.name);
        }
    }
}
