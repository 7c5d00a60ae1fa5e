//! Manifests and records for the tests of run directories.

use bytecost_spec::{Failure, Manifest, Record, Study, TrialKey};

const STUDY: &str = include_str!("../../../../studies/send-copies.toml");

pub fn manifest(id: &str) -> Manifest {
    Manifest {
        id: id.to_owned(),
        bytecost_version: "0.1.0".into(),
        started: "2026-11-21T14:15:03.25Z".into(),
        seed: u64::MAX - 1,
        command: vec!["bytecost".into(), "run".into()],
        ..Manifest::new(Study::parse(STUDY).unwrap())
    }
}

#[allow(dead_code)] // not every test binary needs it
pub fn failure(block: u32) -> Record {
    Record::Failure(Failure {
        trial: TrialKey::first(block, 3),
        cell: "loopback/stream/send".into(),
        started_ms: 17,
        reason: "the receiver was killed".into(),
        stood_still_ns: None,
        wrong_bytes: false,
        for_evidence: false,
    })
}
