//! Nothing stays attached when a process that counts is killed.

use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use bytecost_evidence::CpuAccountant;
use bytecost_evidence::copies::Copies;

use crate::lack::{Lack, skipped};

const PATIENCE: Duration = Duration::from_secs(60);
/// Set in a process of this test that counts until it is killed.
const COUNT_ON: &str = "BYTECOST_TEST_COUNTS_ON";

fn programs_of(pid: u32) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/fdinfo")) else {
        return found;
    };
    for entry in entries.flatten() {
        let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
        let ids = text.lines().filter_map(|l| l.strip_prefix("prog_id:"));
        found.extend(ids.filter_map(|id| id.trim().parse::<u32>().ok()));
    }
    found
}

#[test]
fn a_process_that_counts_until_it_is_killed() {
    if std::env::var_os(COUNT_ON).is_none() {
        return;
    }
    let copies = Copies::open(Path::new("/"));
    let _held = (super::events(), CpuAccountant::open(Path::new("/")));
    let mut out = io::stdout();
    writeln!(out, "{COUNT_ON} {}", copies.is_ok()).unwrap();
    out.flush().unwrap();
    thread::sleep(PATIENCE);
}

// Invariant 9.
#[test]
fn nothing_stays_attached_when_who_counted_is_killed() {
    // Calls of the child would be counted with those of other tests.
    let _alone = super::alone();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "killed::a_process_that_counts_until_it_is_killed",
            "--nocapture",
        ])
        .env(COUNT_ON, "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let said = lines.map_while(Result::ok).find(|l| l.contains(COUNT_ON));
    let held = programs_of(child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    if !said.unwrap_or_default().ends_with("true") {
        return skipped(Lack::Right, "nothing can be counted");
    }
    assert!(held.len() > 5, "{held:?}");
    let gone =
        |id: &u32| aya::programs::loaded_programs().all(|p| p.map_or(true, |p| p.id() != *id));
    let deadline = Instant::now() + PATIENCE;
    // The kernel frees them a moment after their last descriptor.
    while !held.iter().all(gone) {
        let is_late = Instant::now() >= deadline;
        assert!(!is_late, "programs of the dead are still there");
        thread::sleep(Duration::from_millis(10));
    }
}
