//! Evidence beside the times, as a user asks for it.

mod common;

use std::fs;

use bytecost_analysis::Analysis;
use bytecost_spec::Record;
use bytecost_spec::evidence::{Evidence, Kind, Party};
use common::{Place, refused, stderr, went_through};

const RUN: &[&str] = &[
    "run",
    "--mover",
    "null,send,sendfile",
    "--size",
    "64KiB",
    "--budget",
    "4s",
    "--blocks",
    "6",
    "--window",
    "10ms",
    "--warmup",
    "2ms",
    "--seed",
    "7",
    "--evidence",
    "time",
];

fn analysis(place: &Place) -> Analysis {
    let text = fs::read_to_string(place.run_dir().join("findings.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn every_measured_cell_is_watched_once_after_the_last_block() {
    let place = Place::new();
    let run = place.call(RUN);
    went_through(&run);
    let analysis = analysis(&place);
    let question = analysis
        .explanations
        .iter()
        .find(|e| e.key == "cpu-time-by-kind");
    let question = question.expect("what was asked for is told");
    let records = place.records();
    let watched: Vec<&Evidence> = records
        .iter()
        .filter_map(|r| match r {
            Record::Evidence(e) => Some(e),
            _ => None,
        })
        .collect();
    if watched.is_empty() {
        // Where the CPUs cannot be sampled, that is told, and the rest of the run is whole.
        assert!(
            stderr(&run).contains("note: no evidence of time:"),
            "{}",
            stderr(&run)
        );
        assert!(question.missing.is_some());
        return;
    }
    let cells: std::collections::BTreeSet<&str> =
        analysis.cells.iter().map(|c| c.id.as_str()).collect();
    let seen: std::collections::BTreeSet<&str> = watched.iter().map(|e| e.cell.as_str()).collect();
    assert_eq!(cells, seen);
    assert_eq!(watched.len(), seen.len());
    let first = records
        .iter()
        .position(|r| matches!(r, Record::Evidence(_)))
        .unwrap();
    assert!(
        records[first..]
            .iter()
            .all(|r| matches!(r, Record::Evidence(_)))
    );
    // A sender of memory copies it; a sender of a file's pages does not.
    let copied = |mover: &str, party: Party| -> u64 {
        let own = watched
            .iter()
            .filter(|e| e.cell.contains(&format!("/{mover}/")));
        let looks = own.flat_map(|e| &e.time.as_ref().unwrap().looks);
        let copies = looks.filter(|l| l.party == party && l.kind == Kind::DataCopy);
        copies.map(|l| l.count).sum()
    };
    assert!(copied("send", Party::Sender) > 2 * copied("sendfile", Party::Sender));
    assert!(copied("sendfile", Party::Receiver) > 0);
    assert!(place.run_dir().join("report.html").exists());
    let page = fs::read_to_string(place.run_dir().join("report.html")).unwrap();
    assert!(page.contains("Where the CPU time goes"));
}

#[test]
fn what_is_displaced_from_the_caches_is_told_level_by_level_or_why_not() {
    let place = Place::new();
    let mut words = RUN.to_vec();
    *words.last_mut().unwrap() = "footprint";
    words[2] = "null,sendmsg,send-zerocopy";
    went_through(&place.call(&words));
    let analysis = analysis(&place);
    let page = fs::read_to_string(place.run_dir().join("report.html")).unwrap();
    if analysis.host.caches.is_empty() {
        return println!("skipped: the kernel reports no caches");
    }
    assert_eq!(analysis.footprints.len(), analysis.cells.len());
    for footprint in &analysis.footprints {
        let levels = footprint.levels.iter().map(|l| l.level);
        assert!(levels.is_sorted(), "{footprint:?}");
        for level in &footprint.levels {
            let found = level.displaced_kib.is_some() && level.idle_kib.is_some();
            assert_ne!(found, level.missing.is_some(), "{level:?}");
            let most = level.primed_bytes as f64 / 1024.0;
            let kib = level.displaced_kib.as_ref().map_or(0.0, |e| e.value);
            assert!((0.0..=most).contains(&kib), "{level:?}");
        }
    }
    assert!(page.contains("What moving displaces"));
    let question = analysis
        .explanations
        .iter()
        .find(|e| e.key == "cache-level");
    let question = question.expect("the run is about it");
    assert!(
        question
            .numbers
            .iter()
            .any(|n| n.starts_with("by timing, `send-zerocopy` against `sendmsg`, L")),
        "{question:?}"
    );
}

#[test]
fn what_is_no_evidence_is_refused() {
    let place = Place::new();
    refused(
        &place.call(&["run", "--evidence", "folklore"]),
        &["choose from time, footprint"],
    );
    refused(
        &place.call(&["run", "--resume", "x", "--evidence", "time"]),
        &["--resume goes on with"],
    );
}
