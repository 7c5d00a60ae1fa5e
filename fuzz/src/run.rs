//! A whole run directory, all the way to its reports: any manifest, any samples.

use std::fs;

use bytecost_analysis::{Input, analyse};
use bytecost_report::Style;
use bytecost_spec::{Manifest, Record};
use bytecost_store::{Root, Run};

use crate::edit::edited;
use crate::samples::{MANIFEST, SAMPLES};
use crate::target::target;

const WORDS: &[&str] = &[
    "",
    "null",
    "true",
    "0",
    "1",
    "-1",
    "2",
    "1e308",
    "18446744073709551615",
    "4294967295",
    "0.0",
    "{}",
    "[]",
    "\"\"",
    "\"<script>\"",
    "\"\\u001b[2J\"",
    "\"x\"",
    ",",
    "format",
    "\"null\"",
    "\"send\"",
    "\"16MiB\"",
    "\"0\"",
    "\"request-response\"",
    "\"unix\"",
    "cubic",
    "default",
    "18446744073709551615",
    "{\"absent\":\"why\"}",
];

fn any_manifest(input: &[u8]) {
    report(input, SAMPLES.as_bytes());
}

fn spoilt_manifest(input: &[u8]) {
    let manifest = edited(MANIFEST.as_bytes(), WORDS, 2, input);
    report(&manifest, SAMPLES.as_bytes());
}

fn spoilt_samples(input: &[u8]) {
    report(
        MANIFEST.as_bytes(),
        &edited(SAMPLES.as_bytes(), WORDS, 2, input),
    );
}

/// `bytecost report` of a directory. It ends in reports or in a plain error.
fn report(manifest: &[u8], samples: &[u8]) {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("manifest.json"), manifest).unwrap();
    fs::write(dir.path().join("samples.jsonl"), samples).unwrap();
    match Root::at(dir.path()).open(dir.path().to_str().unwrap()) {
        Ok(run) => {
            written_again(run.manifest());
            analyse_and_report(&run);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn written_again(manifest: &Manifest) {
    let json = serde_json::to_vec(manifest).unwrap();
    assert_eq!(
        serde_json::from_slice::<Manifest>(&json).unwrap(),
        *manifest
    );
}

fn analyse_and_report(run: &Run) {
    let Ok(loaded) = run.records() else {
        return;
    };
    let plan = &run.manifest().plan;
    let mut samples = Vec::new();
    let mut failures = Vec::new();
    let mut evidence = Vec::new();
    let mut blocks = Vec::new();
    for record in loaded.records {
        match record {
            Record::Sample(sample) => samples.push(sample),
            Record::Failure(failure) => failures.push(failure),
            Record::Evidence(found) => evidence.push(found),
            Record::Block(ended) => blocks.push(ended),
        }
    }
    let analysis = analyse(Input {
        refused: &plan.refused,
        left_out: &plan.left_out,
        failures: &failures,
        blocks: &blocks,
        evidence: &evidence,
        notes: &plan.notes,
        ..Input::of(run.manifest(), &plan.cells, &samples)
    });
    let style = Style {
        width: 100,
        color: false,
    };
    let terminal = bytecost_report::terminal(&analysis, style);
    assert!(
        !terminal.contains('\u{1b}'),
        "nothing reaches the terminal but text"
    );
    assert!(bytecost_report::html(&analysis).ends_with("</html>\n"));
    assert!(!bytecost_report::markdown(&analysis).is_empty());
    let json = bytecost_report::findings_json(&analysis);
    assert!(serde_json::from_str::<serde_json::Value>(&json).is_ok());
    let _ = bytecost_report::samples_csv(&plan.cells, &samples);
}

target!(any_manifest_is_a_run_or_an_error, 500, any_manifest);
target!(
    a_run_with_a_spoilt_manifest_is_reported_or_refused,
    2_000,
    spoilt_manifest
);
target!(
    a_run_with_spoilt_samples_is_reported_or_refused,
    1_000,
    spoilt_samples
);

#[test]
fn the_run_is_valid_before_it_is_spoilt() {
    let manifest: Manifest = serde_json::from_str(MANIFEST).unwrap();
    assert!(!manifest.plan.cells.is_empty());
    report(MANIFEST.as_bytes(), SAMPLES.as_bytes());
}
