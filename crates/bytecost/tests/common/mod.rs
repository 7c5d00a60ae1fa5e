//! The command as a user calls it, in a directory of its own.
#![allow(dead_code)] // each test file uses a part of it

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use bytecost_spec::Record;
use tempfile::TempDir;

/// A directory to call the command in.
pub struct Place(TempDir);

/// A run that takes a second or two and needs two cells.
pub const TINY: &[&str] = &[
    "run",
    "--mover",
    "null,send,sendfile",
    "--size",
    "4KiB",
    "--budget",
    "3s",
    "--blocks",
    "8",
    "--window",
    "50ms",
    "--warmup",
    "5ms",
    "--seed",
    "7",
    "--quiet",
];

impl Place {
    pub fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Those tests that are about evidence ask for it.
    pub fn call(&self, words: &[&str]) -> Output {
        self.call_with(words, &[("BYTECOST_EVIDENCE", Some("none"))])
    }

    /// The same with variables set, or not set.
    pub fn call_with(&self, words: &[&str], variables: &[(&str, Option<&str>)]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bytecost"));
        command.args(words).current_dir(self.path());
        command.env_remove("BYTECOST_RUNS");
        command.env("XDG_CACHE_HOME", caches());
        for (name, value) in variables {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.output().unwrap()
    }

    /// The one run that there is.
    pub fn run_dir(&self) -> PathBuf {
        let mut runs: Vec<PathBuf> = fs::read_dir(self.path().join("bytecost-runs"))
            .unwrap()
            .map(|e| e.unwrap().path())
            .collect();
        assert_eq!(runs.len(), 1, "{runs:?}");
        runs.remove(0)
    }

    /// The log of the one run that there is, record by record.
    pub fn records(&self) -> Vec<Record> {
        let log = fs::read_to_string(self.run_dir().join("samples.jsonl")).unwrap();
        log.lines()
            .map(|l| serde_json::from_str(l).unwrap())
            .collect()
    }

    /// A finished tiny run. On a busy machine single trials may fail, which status 1 tells.
    pub fn with_run() -> Place {
        let place = Place::new();
        let output = place.call(TINY);
        went_through(&output);
        place
    }
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Holds a run to its end. On a busy machine single trials may fail, which status 1 tells.
pub fn went_through(output: &Output) {
    assert!(
        matches!(output.status.code(), Some(0 | 1)),
        "{}",
        stderr(output)
    );
}

/// Where commands keep what they found, for all tests: not where the user has it.
pub fn caches() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("caches")
}

/// A directory beside the tests, which is on a disk more often than the temporary one.
pub fn beside() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// How many entries a directory has.
pub fn count(dir: &Path) -> usize {
    fs::read_dir(dir).unwrap().count()
}

/// Holds a refusal to its form: status 2, one line that says these things, nothing on stdout.
pub fn refused(output: &Output, says: &[&str]) {
    let said = stderr(output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert_eq!(said.trim_end().lines().count(), 1, "{said}");
    assert!(said.starts_with("error: "), "{said}");
    for word in says {
        assert!(said.contains(word), "`{word}` is not in: {said}");
    }
    assert_eq!(stdout(output), "");
}
