//! `samples.csv`: one row a trial, what is absent is empty.

use std::collections::BTreeMap;

use bytecost_report::samples_csv;
use bytecost_spec::sample::{FlowReading, Truth};
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
            .map(|&(bytes, elapsed_ns)| FlowReading {
                bytes,
                messages: 1,
                elapsed_ns,
            })
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
        peer_machine: Default::default(),
        truth: peer.then(|| Truth {
            checked: "content".to_owned(),
            ..Truth::default()
        }),
        latency_ns_histogram: None,
        neighbour: Vec::new(),
        packet_sockets: Vec::new(),
        obstacles: Vec::new(),
        repeated_because: (attempt == 0).then(|| "others took 9 %, \"a lot\"".to_owned()),
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
fn a_row_tells_the_trial_the_axes_and_both_sides() {
    let rows = table(&[sample(0, 0), sample(0, 1)]);
    assert_eq!(rows.len(), 2, "repeated trials are rows too");
    let check = |column: &str, expected: &str| assert_eq!(rows[0][column], expected, "{column}");
    check("block", "2");
    check("attempt", "0");
    check("twin", "no");
    check("repeated_because", "others took 9 %, \"a lot\"");
    check("mover", "send");
    check("size_bytes", "65536");
    check("socket_buffer_bytes", "");
    check("read_size_bytes", "262144");
    check("placement", "free");
    check("sender_cpu_ns", "71");
    check("receiver_cpu_ns", "71");
    check("sender_cycles", "");
    check("sender_bytes", "");
    check("machine_cpus", "2");
    check("machine_steal_ns", "");
    check("sender_flows", "2");
    check("checked", "content");
    check("throughput_gbit_per_s", "60");
    assert_eq!(rows[1]["repeated_because"], "");
    assert_eq!(rows[1]["attempt"], "1");
    let twins: Vec<Cell> = cells().iter().map(Cell::other_twin).collect();
    let text = String::from_utf8(samples_csv(&twins, &[sample(0, 0)]).unwrap()).unwrap();
    assert!(text.starts_with("block,cell,twin,attempt") && text.contains("\n2,0,yes,0,"));
}

#[test]
fn without_a_receiver_its_columns_are_empty_and_the_sender_counts() {
    let row = &table(&[sample(1, 1)])[0];
    assert_eq!(row["mover"], "null");
    assert_eq!(row["throughput_gbit_per_s"], "120");
    let of_receiver = row.iter().filter(|(name, _)| name.starts_with("receiver_"));
    assert!(of_receiver.clone().count() > 20);
    for (name, value) in of_receiver {
        assert_eq!(value, "", "{name}");
    }
    assert_eq!(row["sent_bytes"], "");
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
    let mut names: Vec<&str> = std::str::from_utf8(&bytes)
        .unwrap()
        .trim()
        .split(',')
        .collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn a_sample_of_another_plan_is_refused() {
    let error = samples_csv(&cells(), &[sample(7, 0)])
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("cell 7") && error.contains("2 cells"),
        "{error}"
    );
}
