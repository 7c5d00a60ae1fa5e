//! Properties of the log: all appended records are read back, and a crash at any byte loses at most the
//! last record.

mod common;

use std::fs;

use bytecost_spec::reading::COUNTERS;
use bytecost_spec::{Failure, Reading, Readings, Record, Sample, TrialKey};
use bytecost_store::Root;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn words() -> impl Strategy<Value = String> {
    prop_oneof![
        "\\PC{0,20}",
        Just("line\nend\r\n\u{2028}\"quoted\\".to_owned())
    ]
}

fn key() -> impl Strategy<Value = TrialKey> {
    any::<(u32, u32, u32)>().prop_map(|(block, cell, attempt)| TrialKey {
        block,
        cell,
        attempt,
    })
}

fn readings() -> impl Strategy<Value = Readings> {
    let counter = (0..COUNTERS.len()).prop_map(|i| COUNTERS[i].counter);
    let reading = prop_oneof![
        any::<u64>().prop_map(Reading::Measured),
        words().prop_map(Reading::absent)
    ];
    btree_map(counter, reading, 0..6)
}

fn sample() -> impl Strategy<Value = Sample> {
    (key(), words(), any::<u64>(), readings(), readings()).prop_map(
        |(trial, cell, started_ms, machine, of_sender)| {
            let mut sample = Sample {
                trial,
                cell,
                started_ms,
                machine,
                ..Sample::default()
            };
            sample.sender.readings = of_sender;
            sample
        },
    )
}

fn record() -> impl Strategy<Value = Record> {
    let failure =
        (key(), words(), any::<u64>(), words()).prop_map(|(trial, cell, started_ms, reason)| {
            Failure {
                trial,
                cell,
                started_ms,
                reason,
                stood_still_ns: started_ms.is_multiple_of(2).then_some(started_ms),
                wrong_bytes: started_ms.is_multiple_of(3),
                for_evidence: false,
            }
        });
    prop_oneof![
        sample().prop_map(Record::Sample),
        failure.prop_map(Record::Failure)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, rng_seed: RngSeed::Fixed(20_261_121), ..ProptestConfig::default() })]

    // Invariant 6.
    #[test]
    fn records_are_read_back_and_a_truncated_log_has_the_first_of_them(
        records in vec(record(), 0..8),
        next in record(),
        cuts in vec(any::<prop::sample::Index>(), 6),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::at(dir.path());
        let mut run = root.create(&common::manifest("one")).unwrap();
        for record in &records {
            run.append(record).unwrap();
        }
        prop_assert_eq!(&run.records().unwrap().records, &records);
        prop_assert_eq!(run.records().unwrap().dropped_bytes, 0);
        drop(run);

        let log = dir.path().join("one/samples.jsonl");
        let whole = fs::read(&log).unwrap();
        for cut in cuts.iter().map(|c| c.index(whole.len() + 1)) {
            fs::write(&log, &whole[..cut]).unwrap();
            let mut reopened = root.open("one").unwrap();
            let loaded = reopened.records().unwrap();
            let kept = whole[..cut].iter().filter(|b| **b == b'\n').count();
            prop_assert_eq!(&loaded.records, &records[..kept]);
            let at_line_end = cut == 0 || whole[cut - 1] == b'\n';
            prop_assert_eq!(loaded.dropped_bytes == 0, at_line_end);

            reopened.append(&next).unwrap();
            let appended = reopened.records().unwrap();
            prop_assert_eq!(appended.dropped_bytes, 0);
            prop_assert_eq!(&appended.records[..kept], &records[..kept]);
            prop_assert_eq!(&appended.records[kept..], std::slice::from_ref(&next));
        }
    }
}
