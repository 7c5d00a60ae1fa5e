//! The sample log: any bytes as `samples.jsonl`, through the store's reader.

use std::cell::RefCell;
use std::fs;

use bytecost_spec::{Manifest, Record};
use bytecost_store::{Loaded, Root, Run, StoreError};
use tempfile::TempDir;

use crate::edit::edited;
use crate::target::target;

pub const MANIFEST: &str = include_str!("../seeds/manifest.json");
pub const SAMPLES: &str = include_str!("../seeds/samples.jsonl");

const WORDS: &[&str] = &[
    "",
    "\n",
    "\r\n",
    "null",
    "0",
    "-1",
    "0.5",
    "18446744073709551615",
    "18446744073709551616",
    "{",
    "}",
    "[",
    "]",
    "\"",
    "\\",
    "\\ud800",
    ",",
    ":",
    "{\"sample\":",
    "{\"failure\":",
    "trial",
    "7",
    "{\"absent\":\"why\"}",
    "\u{0}",
];

/// A run directory of this thread, whose log can be replaced.
struct Shelf {
    run: Run,
    _dir: TempDir,
}

thread_local! {
    static SHELF: RefCell<Option<Shelf>> = const { RefCell::new(None) };
}

fn shelf() -> Shelf {
    let dir = tempfile::tempdir().unwrap();
    let manifest: Manifest = serde_json::from_str(MANIFEST).unwrap();
    let run = Root::at(dir.path()).create(&manifest).unwrap();
    Shelf { run, _dir: dir }
}

fn load(log: &[u8]) -> Result<Loaded, StoreError> {
    SHELF.with_borrow_mut(|slot| {
        let shelf = slot.get_or_insert_with(shelf);
        fs::write(shelf.run.dir().join("samples.jsonl"), log).unwrap();
        shelf.run.records()
    })
}

/// The number of the line that an error names.
fn line_of(error: &StoreError) -> usize {
    match error {
        StoreError::BrokenLine { line, .. } => usize::try_from(*line).unwrap(),
        other => panic!("{other}"),
    }
}

fn lines(log: &[u8]) -> usize {
    log.split(|b| *b == b'\n').count()
}

fn any_bytes(input: &[u8]) {
    check(input);
}

fn spoilt(input: &[u8]) {
    check(&edited(SAMPLES.as_bytes(), WORDS, 3, input));
}

/// A log is read, or its broken line is named; what was read is written as a log that reads alike.
fn check(log: &[u8]) {
    match load(log) {
        Ok(loaded) => {
            let whole = log.iter().filter(|b| **b == b'\n').count();
            assert_eq!(loaded.records.len(), whole, "a record a line");
            let rest = log.rsplit(|b| *b == b'\n').next().unwrap_or_default();
            assert_eq!(loaded.dropped_bytes, rest.len(), "the last line is told");
            let again: Vec<Record> = loaded.records.iter().map(through_json).collect();
            assert_eq!(again, loaded.records);
        }
        Err(error) => assert!((1..=lines(log)).contains(&line_of(&error)), "{error}"),
    }
}

fn through_json(record: &Record) -> Record {
    serde_json::from_slice(&serde_json::to_vec(record).unwrap()).unwrap()
}

fn valid() -> Vec<Record> {
    load(SAMPLES.as_bytes()).unwrap().records
}

/// A log cut off at any place gives the records before that place, with the number of bytes that it dropped.
fn cut(input: &[u8]) {
    let at = place(input);
    let loaded = load(&SAMPLES.as_bytes()[..at]).unwrap();
    let whole = SAMPLES[..at].matches('\n').count();
    assert_eq!(loaded.records, valid()[..whole]);
    assert_eq!(
        loaded.dropped_bytes > 0,
        !SAMPLES[..at].is_empty() && !SAMPLES[..at].ends_with('\n')
    );
}

/// A log with one byte changed is refused at that line, or all other lines read as before.
fn one_byte(input: &[u8]) {
    let at = place(input);
    let mut log = SAMPLES.as_bytes().to_vec();
    if at == log.len() {
        return;
    }
    log[at] = input.get(3).copied().unwrap_or(b'\n');
    let changed = SAMPLES[..at].matches('\n').count();
    let valid = valid();
    match load(&log) {
        Ok(loaded) => {
            assert_eq!(loaded.records[..changed], valid[..changed]);
            if loaded.records.len() > changed {
                assert_eq!(loaded.records[changed + 1..], valid[changed + 1..]);
            } else {
                assert_eq!(changed + 1, valid.len(), "only the last line may go");
                assert!(loaded.dropped_bytes > 0);
            }
        }
        Err(error) => {
            let line = line_of(&error);
            assert!(
                line == changed + 1 || line == changed + 2,
                "line {changed}: {error}"
            );
        }
    }
}

fn place(input: &[u8]) -> usize {
    let mut bytes = [0; 4];
    for (to, from) in bytes.iter_mut().zip(input) {
        *to = *from;
    }
    // The fourth byte is what a changed byte becomes.
    (u32::from_le_bytes(bytes) & 0xFF_FFFF) as usize * (SAMPLES.len() + 1) / (1 << 24)
}

target!(any_bytes_are_a_log_or_a_broken_line, 1_000, any_bytes);
target!(a_spoilt_log_is_a_log_or_a_broken_line, 1_000, spoilt);
// Invariant 6.
target!(a_log_cut_off_anywhere_is_a_prefix, 1_000, cut);
target!(a_changed_byte_costs_no_other_line, 1_000, one_byte);
