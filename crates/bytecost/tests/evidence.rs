//! Evidence in addition to the times, as a user asks for it.

use std::collections::BTreeSet;

use crate::common::{Lack, Place, ended, is_root, says, skipped};
use bytecost_analysis::Fact;
use bytecost_spec::evidence::{CountedEvent, Kind, Party, TrialEvidence};
use bytecost_spec::{Counter, Record};

const RUN: &str = "run --size 64KiB --budget 4s --blocks 6 --window 10ms --warmup 2ms --seed 7 --mover null,send,sendfile";

fn watched(place: &Place) -> Vec<TrialEvidence> {
    let all = place.records().into_iter();
    all.filter_map(|record| match record {
        Record::Evidence(evidence) => Some(evidence),
        _ => None,
    })
    .collect()
}

#[test]
fn every_measured_cell_is_watched_once_after_the_last_block() {
    let place = Place::new();
    let run = place.call(format!("{RUN} --evidence time")).measured();
    let analysis = place.findings();
    let watched = watched(&place);
    if watched.is_empty() {
        // Where the CPUs cannot be sampled, the report says so, and all else of the run is complete.
        says(&run.stderr, &["note: no evidence of time:"]);
        let mut facts = analysis.explanations.iter().flat_map(|e| &e.facts);
        assert!(facts.any(|fact| matches!(fact, Fact::NoCpuSamples(_))));
        return;
    }
    let cells: BTreeSet<&str> = analysis.cells.iter().map(|c| c.id.as_str()).collect();
    let seen: BTreeSet<&str> = watched.iter().map(|e| e.cell.as_str()).collect();
    assert_eq!(cells, seen);
    assert_eq!(watched.len(), seen.len());
    let is_evidence = |record: &Record| matches!(record, Record::Evidence(_));
    let records = place.records();
    let last = records.iter().rev().take_while(|r| is_evidence(r)).count();
    assert_eq!(last, watched.len(), "all come after the last block");
    // A sender of memory copies it; a sender of a file's pages does not.
    let copied = |mover: &str, party: Party| -> u64 {
        let own = watched.iter().filter(|e| e.cell.contains(mover));
        let looks = own.flat_map(|e| &e.time.as_ref().unwrap().looks);
        let copies = looks.filter(|l| l.party == party && l.kind == Kind::DataCopy);
        copies.map(|l| l.count).sum()
    };
    assert!(copied("/send/", Party::Sender) > 2 * copied("/sendfile/", Party::Sender));
    assert!(copied("/sendfile/", Party::Receiver) > 0);
}

#[test]
fn unasked_evidence_takes_a_tenth_of_the_budget_and_is_gathered_where_that_is_permitted() {
    let place = Place::new();
    let mut command = place.bytecost(format!("{RUN} --quiet"));
    let run = ended(command.env_remove("BYTECOST_EVIDENCE")).measured();
    assert!(!run.stderr.contains("no evidence"), "{}", run.stderr);
    let watched = watched(&place);
    assert_eq!(!watched.is_empty(), is_root());
    assert!(watched.iter().all(|e| e.time.is_none()));
    says(&place.read("manifest.json"), &["\"unasked\": true"]);
    let mut with_folklore = place.bytecost("run");
    let end = ended(with_folklore.env("BYTECOST_EVIDENCE", "folklore"));
    end.refused(&["BYTECOST_EVIDENCE is `folklore`"]);
    place.refuses(
        "run",
        "--evidence folklore => choose from time, copies, counts, footprint, none",
    );
}

#[test]
fn what_is_displaced_from_the_caches_is_told_level_by_level_or_why_not() {
    let place = Place::new();
    place.call(format!("{RUN} --evidence footprint")).measured();
    let analysis = place.findings();
    if analysis.host.caches.is_empty() {
        return skipped(Lack::Machine, "the kernel reports no caches");
    }
    assert_eq!(analysis.footprints.len(), analysis.cells.len());
    for level in analysis.footprints.iter().flat_map(|f| &f.levels) {
        let found = level.displaced_kib.is_some() && level.idle_kib.is_some();
        assert_ne!(found, level.missing.is_some(), "{level:?}");
    }
}

#[test]
fn what_a_request_takes_of_a_server_is_counted_and_watched_for_every_kind_of_model() {
    let place = Place::new();
    let words = "run server-models --placement free --blocks 6 --window 50ms --warmup 50ms --budget 60s --service echo --connect kept --idle 0 --connections 3 --server epoll,uring,thread,fork --evidence time,counts,copies";
    let said = place.call(words).measured().stderr;
    says(
        &said,
        &["note: no evidence of copies: the kernel copies requests and responses equally often"],
    );
    if !is_root() {
        return says(&said, &["note: no evidence of counts:"]);
    }
    let analysis = place.findings();
    for cell in &analysis.cells {
        let server = cell.cell.serving.server.as_deref().unwrap();
        let counts = analysis.counts.iter().find(|c| c.cell == cell.id).unwrap();
        // Of uring one call may be for several requests.
        let calls = counts.per_message(CountedEvent::SystemCalls).unwrap();
        let least = if server == "uring" { 0.05 } else { 0.5 };
        assert!(calls > least, "{server}: {calls} calls a request");
        let mut times = analysis.cpu_time.iter();
        let Some(time) = times.find(|t| t.cell == cell.id) else {
            says(&said, &["note: no evidence of time:"]);
            continue;
        };
        // Children that a model has started are the server too, whose parent only waits.
        for party in [Party::Receiver, Party::Sender] {
            let own = time.kinds.iter().filter(|k| k.party == party);
            let looks: u64 = own.map(|k| k.looks).sum();
            assert!(looks > 10, "{server}: {looks} looks at {party:?}");
        }
    }
}

/// Nagle's algorithm sends the first of eight writes and joins the others until that is acknowledged.
#[test]
fn segments_a_message_are_read_that_part_the_regimes_of_nagle() {
    let place = Place::new();
    let words = "run --mover send-fields --size 256 --fields 8 --pattern request-response --nodelay on,off --blocks 6 --window 150ms --warmup 50ms --budget 30s --evidence none --quiet";
    place.call(words).measured();
    let segments = |nodelay: &str| {
        let samples = place.samples().into_iter().map(|(_, sample)| sample);
        let chosen = samples.filter(|s| s.cell.contains(&format!("/{nodelay}/")));
        let read = chosen.filter_map(|s| {
            let of = |counter: Counter| s.sender.readings[&counter].measured();
            let messages = of(Counter::Messages).filter(|n| *n > 0)?;
            Some(of(Counter::TcpDataSegments)? as f64 / messages as f64)
        });
        read.collect::<Vec<f64>>()
    };
    let (on, off) = (segments("on"), segments("off"));
    assert!(!on.is_empty() && !off.is_empty());
    assert!(on.iter().all(|n| (7.0..=9.0).contains(n)), "{on:?}");
    assert!(off.iter().all(|n| (1.0..=4.0).contains(n)), "{off:?}");
}
