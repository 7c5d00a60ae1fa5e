//! Evidence beside the times, as a user asks for it.

mod common;

use std::collections::BTreeSet;
use std::fs;

use bytecost_analysis::Analysis;
use bytecost_spec::evidence::{CountedEvent, Kind, Party, TrialEvidence};
use bytecost_spec::{Measure, Metric, Record, Side};
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
    let watched: Vec<&TrialEvidence> = records
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
    let cells: BTreeSet<&str> = analysis.cells.iter().map(|c| c.id.as_str()).collect();
    let seen: BTreeSet<&str> = watched.iter().map(|e| e.cell.as_str()).collect();
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

/// The evidence of a run's log.
fn watched(place: &Place) -> Vec<TrialEvidence> {
    let records = place.records().into_iter();
    let watched = records.filter_map(|r| match r {
        Record::Evidence(e) => Some(e),
        _ => None,
    });
    watched.collect()
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn copies_and_events_are_counted_in_each_cell_that_has_a_way_through_the_kernel() {
    let place = Place::new();
    let words: Vec<&str> = RUN[..RUN.len() - 1].to_vec();
    let run = place.call(&[&words[..], &["copies,counts"]].concat());
    went_through(&run);
    let analysis = analysis(&place);
    let watched = watched(&place);
    if watched.is_empty() {
        assert!(!is_root(), "{}", stderr(&run));
        assert!(stderr(&run).contains("note: no evidence of copies:"));
        return;
    }
    let cells: BTreeSet<&str> = watched.iter().map(|e| e.cell.as_str()).collect();
    assert_eq!(cells.len(), 2, "null has no way through the kernel");
    for (mover, sender) in [("send", 1.0), ("sendfile", 0.0)] {
        let mut cells = analysis.cells.iter();
        let cell = cells.find(|c| c.cell.mover == mover).unwrap();
        let of = |side: Side| {
            let measure = Measure::CopiesPerByte;
            cell.estimates[&Metric { measure, side }].value
        };
        let found = [Side::Sender, Side::Receiver].map(of);
        assert!((found[0] - sender).abs() < 0.1, "{mover}: {found:?}");
        assert!((found[1] - 1.0).abs() < 0.1, "{mover}: {found:?}");
        let counts = analysis.counts.iter().find(|c| c.cell == cell.id).unwrap();
        let calls = counts.per_message(CountedEvent::SystemCalls).unwrap();
        assert!(calls > 0.9, "{mover}: {calls} calls a message");
    }
    let page = fs::read_to_string(place.run_dir().join("report.html")).unwrap();
    assert!(page.contains("How often each byte is copied"));
}

#[test]
fn unasked_evidence_takes_a_tenth_of_the_budget_and_is_gathered_where_that_is_permitted() {
    let place = Place::new();
    let words: Vec<&str> = RUN[..RUN.len() - 2].to_vec();
    let words = [&words[..], &["--quiet"]].concat();
    let run = place.call_with(&words, &[("BYTECOST_EVIDENCE", None)]);
    went_through(&run);
    assert!(!stderr(&run).contains("no evidence"), "{}", stderr(&run));
    let watched = watched(&place);
    assert_eq!(!watched.is_empty(), is_root());
    assert!(watched.iter().all(|e| e.time.is_none()));
    let manifest = fs::read_to_string(place.run_dir().join("manifest.json")).unwrap();
    assert!(manifest.contains("\"unasked\": true"), "{manifest}");
    refused(
        &place.call_with(&["run"], &[("BYTECOST_EVIDENCE", Some("folklore"))]),
        &["BYTECOST_EVIDENCE is `folklore`"],
    );
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
            .any(|n| n.starts_with("by timing, `send-zerocopy` compared with `sendmsg`, L")),
        "{question:?}"
    );
}

#[test]
fn what_is_no_evidence_is_refused() {
    let place = Place::new();
    refused(
        &place.call(&["run", "--evidence", "folklore"]),
        &["choose from time, copies, counts, footprint, none"],
    );
    refused(
        &place.call(&["run", "--resume", "x", "--evidence", "time"]),
        &["--resume continues"],
    );
}

#[test]
fn what_a_request_takes_of_a_server_is_counted_and_watched_for_every_kind_of_model() {
    const MODELS: [&str; 4] = ["epoll", "uring", "thread", "fork"];
    let place = Place::new();
    let servers = MODELS.join(",");
    let words = [
        "run",
        "server-models",
        "--placement",
        "free",
        "--blocks",
        "6",
        "--window",
        "50ms",
        "--warmup",
        "2ms",
        "--budget",
        "60s",
        "--service",
        "echo",
        "--connect",
        "kept",
        "--idle",
        "0",
        "--connections",
        "3",
        "--server",
        &servers,
        "--evidence",
        "time,counts,copies",
    ];
    let run = place.call(&words);
    went_through(&run);
    let said = stderr(&run);
    assert!(
        said.contains(
            "note: no evidence of copies: the kernel copies requests and responses equally often"
        ),
        "{said}"
    );
    let analysis = analysis(&place);
    if !is_root() {
        return assert!(said.contains("note: no evidence of counts:"), "{said}");
    }
    for cell in &analysis.cells {
        let server = cell.cell.serving.server.as_deref().unwrap();
        let counts = analysis.counts.iter().find(|c| c.cell == cell.id).unwrap();
        // Of uring one call may be for several requests.
        let calls = counts.per_message(CountedEvent::SystemCalls).unwrap();
        let least = if server == "uring" { 0.05 } else { 0.5 };
        assert!(calls > least, "{server}: {calls} calls a request");
        let mut times = analysis.cpu_time.iter();
        let Some(time) = times.find(|t| t.cell == cell.id) else {
            assert!(said.contains("note: no evidence of time:"), "{said}");
            continue;
        };
        // Children that a model has started are the server too, whose parent only waits.
        for party in [Party::Receiver, Party::Sender] {
            let own = time.kinds.iter().filter(|k| k.party == party);
            let looks: u64 = own.map(|k| k.looks).sum();
            assert!(looks > 10, "{server}: {looks} looks at {party:?}");
        }
    }
    let page = fs::read_to_string(place.run_dir().join("report.html")).unwrap();
    assert!(page.contains("Of servers: what their own"));
}
