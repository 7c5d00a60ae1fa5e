//! `samples.csv`: one row a trial, what is absent is empty.

use std::collections::BTreeSet;

use crate::fixture::flow;

use bytecost_report::samples_csv;
use bytecost_spec::{Cell, Sample, SideReadings, TrialKey};

/// A sample of a cell, whose receiver took bytes in a window of so many ns.
fn sample(cell: u32, elapsed_ns: u64) -> Sample {
    Sample {
        trial: TrialKey::first(2, cell),
        receiver: Some(SideReadings {
            flows: vec![flow(500, 1, elapsed_ns)],
            ..SideReadings::default()
        }),
        ..Sample::default()
    }
}

fn csv(samples: &[Sample]) -> String {
    let bytes = samples_csv(&[Cell::default()], samples).unwrap();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn a_flow_without_a_window_has_no_rate() {
    let rate = |elapsed_ns| {
        let text = csv(&[sample(0, elapsed_ns)]);
        let [names, values] = [0, 1].map(|line| text.lines().nth(line).unwrap().split(','));
        let mut columns = names.zip(values);
        let rate = columns.find(|(name, _)| *name == "throughput_gbit_per_s");
        rate.unwrap().1.to_owned()
    };
    assert_eq!((rate(0), rate(100)), (String::new(), "40".to_owned()));
}

#[test]
fn no_column_has_the_name_of_another() {
    let text = csv(&[]);
    let mut seen = BTreeSet::new();
    let mut names = text.trim().split(',');
    assert!(names.all(|name| seen.insert(name)), "{text}");
}

#[test]
fn a_sample_of_another_plan_is_refused() {
    let refused = samples_csv(&[Cell::default()], &[sample(7, 1)]);
    let error = refused.unwrap_err().to_string();
    let expected = "cell 7, but the plan has 1 cells";
    assert!(error.contains(expected), "{error}");
}
