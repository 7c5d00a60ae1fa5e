//! Every mover of files in every state of the page cache, in both orders, with every byte checked.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytecost_engine::{MOVERS, Mover, Route};
use bytecost_lab::files::Files;
use bytecost_lab::helpers::Helpers;
use bytecost_spec::survey::FileSurvey;
use bytecost_spec::{Cache, Cell, Counter, Failure, Sample};
use libtest_mimic::Trial;

use super::sent::{cut, disturbed};
use super::{case, cell, fails, given, lab, needed, read, sample, settings, trial_in, tried};

/// The crate's own directory: the temporary one may be a file system in memory.
pub fn files() -> Files {
    Files::new(PathBuf::from(env!("CARGO_MANIFEST_DIR")), None)
}

pub fn trials(found: FileSurvey, helpers: &Arc<Helpers>) -> Vec<Trial> {
    let mut trials = Vec::new();
    for mover in MOVERS.iter().filter(|m| m.route.is_of_files()) {
        for cache in Cache::ALL {
            // Blocks that divide a request, that do not, and that are larger.
            for (access, size, depth, threads, block) in [
                ("sequential", "4KiB", "1", "1", "64KiB"),
                ("random", "64KiB", "4", "2", "12KiB"),
                ("random", "4KiB", "200", "1", "2KiB"),
            ] {
                let cell = cell(&format!(
                    "mover={} cache={} access={access} size={size} depth={depth} threads={threads} block={block} ring=512KiB",
                    mover.name,
                    cache.name()
                ));
                let refused = refused_on(&found, mover.name, *cache);
                let (mover, cache) = (mover.name, cache.name());
                let name = format!("{mover}/{cache}/{access}/{size}/{depth}/{threads}");
                trials.push(tried(name, cell, refused, all_is_moved));
            }
        }
    }
    let helpers = Arc::clone(helpers);
    let needed = move || needed::on_files(&found, &helpers);
    trials.extend([
        case("a file that is truncated while it is read", truncated),
        case("a file of the user's stays as it was", of_the_user),
        case("what must work on files works", needed),
    ]);
    trials
}

pub fn refused_on(found: &FileSurvey, mover: &str, cache: Cache) -> Option<String> {
    let mut rows = found.movers.iter();
    let row = rows.find(|m| m.name == mover && m.cache == cache)?;
    row.refused.clone()
}

pub fn trial_of(cell: &Cell, files: Files) -> Result<Sample, Failure> {
    trial_in(&mut lab(settings(), files), cell)
}

pub fn sample_of(cell: &Cell, files: Files) -> Sample {
    given(trial_of(cell, files))
}

fn all_is_moved(cell: &Cell) {
    let sample = sample(cell);
    let truth = sample.truth.expect("nothing was checked");
    assert!(sample.receiver.is_none(), "a file has no other end");
    let is_whole = truth.sent_bytes.is_multiple_of(cell.size_bytes);
    assert!(is_whole, "whole requests: {truth:?}");
    let pass = cell.file_slots() * cell.size_bytes * u64::from(cell.threads);
    assert!(truth.sent_bytes >= 3 * pass, "three passes: {truth:?}");
    let mover = Mover::named(&cell.mover).expect("no row");
    let last_block = match cell.size_bytes % cell.block_bytes {
        0 => cell.block_bytes,
        rest => rest,
    };
    let compared = match (mover.route, mover.name) {
        (Route::FileToMemory, _) => truth.sent_bytes,
        // It holds the last block of each request, and nothing of it is kept.
        (Route::FileToNull, "read-null") => truth.sent_bytes / cell.size_bytes * last_block,
        (Route::FileToNull, _) => 0,
        _ => pass,
    };
    assert_eq!(truth.compared_bytes, compared);
    let checked = if compared > 0 { "content" } else { "count" };
    assert_eq!(truth.checked, checked);
    assert!(sample.latency_ns_histogram.is_some(), "requests are timed");
    assert_eq!(sample.sender.flows.len(), cell.threads as usize);
    let readings = &sample.sender.readings;
    for counter in [
        Counter::ElapsedNs,
        Counter::CpuNs,
        Counter::ContextSwitchesVoluntary,
        Counter::Messages,
        Counter::Bytes,
    ] {
        read(readings, counter);
    }
}

fn of_the_user() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mine");
    let content = vec![7; 300_000];
    std::fs::write(&path, &content).unwrap();
    let mine = || Files::new(dir.path().to_owned(), Some(path.clone()));
    let cell = |mover, ring| cell(&format!("mover={mover} cache=warm size=4KiB ring={ring}"));
    // A copy can be compared with the file; bytes that only pass by are not known.
    for (mover, compared) in [
        ("pread", 0),
        ("sendfile-null", 0),
        ("read-write-file", 256 << 10),
        ("copy_file_range", 256 << 10),
    ] {
        let sample = sample_of(&cell(mover, "256KiB"), mine());
        let truth = sample.truth.expect("no truth");
        assert!(truth.compared_bytes == compared, "{mover}: {truth:?}");
    }
    for (mover, ring, word) in [
        ("pwrite", "256KiB", "never written to"),
        ("pread", "1MiB", "too short"),
    ] {
        fails(trial_of(&cell(mover, ring), mine()), &[word]);
    }
    assert!(std::fs::read(&path).unwrap() == content, "it was changed");
}

/// Makes the file shorter while an endpoint reads it.
fn truncated() {
    for (mover, word) in [
        ("pread", "truncated"),
        ("uring-read", "truncated"),
        ("mmap-touch", "became shorter"),
    ] {
        let cell = cell(&format!("mover={mover} cache=warm size=4KiB ring=1MiB"));
        // The cut may come before the file was opened or brought in.
        let ended = disturbed(&cell, 1 << 20, cut);
        fails(ended, &[word, "truncated", "too short"]);
    }
}

pub fn has_open(pid: &str, path: &Path) -> bool {
    let open = std::fs::read_dir(format!("/proc/{pid}/fd"));
    open.into_iter()
        .flatten()
        .flatten()
        .any(|fd| std::fs::read_link(fd.path()).is_ok_and(|to| to == path))
}
