//! `samples.csv`: one row a trial, what is absent is empty.

use std::collections::{BTreeMap, BTreeSet};

use crate::fixture;

use bytecost_report::samples_csv;
use bytecost_spec::sample::Truth;
use bytecost_spec::{Cell, Counter, Reading, Sample, SideReadings, TrialKey};

fn cells() -> Vec<Cell> {
    ["send", "null"]
        .map(|mover| Cell {
            mover: mover.to_owned(),
            ..Cell::default()
        })
        .to_vec()
}

fn side(flows: &[(u64, u64)]) -> SideReadings {
    SideReadings {
        readings: BTreeMap::from([
            (Counter::CpuNs, Reading::Measured(71)),
            (Counter::Cycles, Reading::absent("no hardware counters")),
        ]),
        flows: flows
            .iter()
            .map(|(bytes, ns)| fixture::flow(*bytes, 1, *ns))
            .collect(),
        ..SideReadings::default()
    }
}

fn sample(cell: u32, attempt: u32) -> Sample {
    let peer = cell == 0;
    Sample {
        trial: TrialKey {
            block: 2,
            cell,
            attempt,
        },
        cell: cells().get(cell as usize).map(Cell::id).unwrap_or_default(),
        started_ms: 5,
        trial_ms: 90,
        sender: side(&[(1000, 100), (1000, 200)]),
        receiver: peer.then(|| side(&[(500, 100), (500, 200)])),
        machine: BTreeMap::from([(Counter::MachineCpus, Reading::Measured(2))]),
        truth: peer.then(|| Truth {
            checked: "content".to_owned(),
            ..Truth::default()
        }),
        repeated_because: (attempt == 0).then(|| "others took 9 %, \"a lot\"".to_owned()),
        ..Sample::default()
    }
}

/// Rows by column name.
fn table(samples: &[Sample]) -> Vec<BTreeMap<String, String>> {
    let bytes = samples_csv(&cells(), samples).unwrap();
    let mut reader = csv::Reader::from_reader(bytes.as_slice());
    let names = reader.headers().unwrap().clone();
    let row = |record: csv::StringRecord| {
        let pairs = names.iter().zip(record.iter());
        pairs.map(|(n, v)| (n.to_owned(), v.to_owned())).collect()
    };
    reader.records().map(|r| row(r.unwrap())).collect()
}

#[test]
fn a_flow_without_a_window_has_no_rate() {
    let mut sample = sample(0, 1);
    sample.receiver = Some(side(&[(500, 0)]));
    assert_eq!(table(&[sample])[0]["throughput_gbit_per_s"], "");
}

#[test]
fn no_column_has_the_name_of_another() {
    let bytes = samples_csv(&cells(), &[]).unwrap();
    let text = std::str::from_utf8(&bytes).unwrap();
    let mut seen = BTreeSet::new();
    assert!(
        text.trim().split(',').all(|name| seen.insert(name)),
        "{text}"
    );
}

#[test]
fn a_sample_of_another_plan_is_refused() {
    let error = samples_csv(&cells(), &[sample(7, 0)])
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("cell 7, but the plan has 2 cells"),
        "{error}"
    );
}
