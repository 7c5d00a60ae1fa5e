//! Manifests and records for the tests of run directories.

use bytecost_spec::{Failure, Host, Manifest, Record, Study, Survey, TrialKey, manifest::FORMAT};

const STUDY: &str = r#"
name = "send-copies"
title = "Copies"
question = "Which?"
prediction = "The first."
smallest-effect = "5%"
precision = "3.3%"
budget = "10s"
warmup = "10ms"
window = "50ms"
blocks-least = 6
blocks-most = 20
"#;

pub fn manifest(id: &str) -> Manifest {
    Manifest {
        format: FORMAT,
        id: id.to_owned(),
        bytecost_version: "0.1.0".into(),
        build_id: None,
        legs: Vec::new(),
        bisection: None,
        looks: Vec::new(),
        expectation: None,
        started: "2026-11-21T14:15:03.25Z".into(),
        seed: u64::MAX - 1,
        command: vec!["bytecost".into(), "run".into()],
        study: Study::parse(STUDY).unwrap(),
        host: Host::default(),
        survey: Survey::default(),
        peer: None,
        own_cards: Vec::new(),
        evidence: Vec::new(),
    }
}

#[allow(dead_code)] // not every test binary needs it
pub fn failure(block: u32) -> Record {
    Record::Failure(Failure {
        trial: TrialKey {
            block,
            cell: 3,
            attempt: 0,
        },
        cell: "loopback/stream/send".into(),
        started_ms: 17,
        reason: "the receiver was killed".into(),
    })
}
