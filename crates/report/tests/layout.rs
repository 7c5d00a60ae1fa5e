//! CSV in the layouts of others: published tables are read, and runs fit in.

use crate::fixture::{self, flow};

use bytecost_report::layout::{ColumnLayout, TableLayout as _};
use bytecost_spec::sample::FlowReading;
use bytecost_spec::{
    Axis, Cell, Counter, Measure, Metric, Published, Reading, Sample, Side, SideReadings, Table,
    TrialKey,
};

const PUBLISHED: [(&str, &str); 2] = [
    ("pa02-a", include_str!("../../../published/pa02-a.csv")),
    ("pa02-b", include_str!("../../../published/pa02-b.csv")),
];

fn layout(name: &str) -> &'static ColumnLayout {
    ColumnLayout::named(name).unwrap()
}

fn published(name: &str, text: &str) -> Result<Published, String> {
    layout(name).published(&Table::parse(name, text).unwrap())
}

#[test]
fn sizes_and_numbers_mean_what_they_meant_there() {
    let [a, b] = PUBLISHED.map(|(name, text)| published(name, text).unwrap());
    let first = &a.cells[0];
    assert_eq!((first.cell.size_bytes, first.cell.fields), (2048, 8));
    assert_eq!(first.cell.value(Axis::Mover), "send-fields");
    let value = |measure| first.values.get(&Metric::both(measure)).copied();
    assert_eq!(value(Measure::ThroughputGbitPerS), Some(0.0));
    assert_eq!(value(Measure::LatencyUsP50), Some(40_876.649));
    assert_eq!(value(Measure::CyclesPerByte), None);
    let cycles = Metric::new(Measure::CyclesPerByte, Side::Sender);
    let [one, two] = [&b.cells[0], &b.cells[1]];
    assert_eq!(one.cell.size_bytes, 512);
    assert_eq!(one.values[&cycles], 8_009_860_700.0 / 136_752_128.0);
    assert_eq!(two.cell.threads, 2);
    assert!(!two.values.contains_key(&cycles));
}

#[test]
fn a_bad_table_is_told_with_its_line() {
    let table = "A4,256,1,0,1,2,3,4,5 => implementation `A4` is not known
        A1,x,1,0,1,2,3,4,5 => size: `x`
        A1,256,0,0,1,2,3,4,5 => `0`
        A1,256,2,NaN,1,2,3,4,5 => `NaN`";
    let own = "A1,256,1,,1.5,,,,\n";
    for row in table.lines() {
        let (row, says) = row.trim().split_once(" => ").unwrap();
        let error = published("pa02-a", &format!("{HEADER}{own}{row}\n")).unwrap_err();
        assert!(
            error.starts_with("line 3: ") && error.contains(says),
            "{error}"
        );
    }
    let error = published("pa02-a", PUBLISHED[1].1).unwrap_err();
    assert!(error.contains("columns"), "{error}");
    // Empty values are absent.
    let sparse = published("pa02-a", &format!("{HEADER}{own}")).unwrap();
    assert_eq!(sparse.cells[0].values.len(), 1);
}

fn cell(mover: &str, axes: &[(Axis, &str)]) -> Cell {
    let own = [
        (Axis::Mover, mover),
        (Axis::Size, "2KiB"),
        (Axis::Fields, "8"),
    ];
    fixture::cell(&[&own, axes].concat())
}

fn side(flows: &[FlowReading], switches: u64) -> SideReadings {
    let read = |(counter, n)| (counter, Reading::Measured(n));
    let known = [
        (Counter::ContextSwitchesVoluntary, switches),
        (Counter::ContextSwitchesInvoluntary, 1),
        (Counter::LlcLoadMisses, 50),
        (Counter::PerfEnabledNs, 10),
        (Counter::PerfRunningNs, 5),
    ];
    let absent = (Counter::Cycles, Reading::absent("no hardware counters"));
    SideReadings {
        readings: known.map(read).into_iter().chain([absent]).collect(),
        flows: flows.to_vec(),
        ..SideReadings::default()
    }
}

fn sample(cells: &[Cell], place: usize, attempt: u32, client: SideReadings) -> Sample {
    Sample {
        trial: TrialKey {
            attempt,
            ..TrialKey::first(0, place as u32)
        },
        cell: cells[place].id(),
        trial_ms: 1,
        sender: side(&[], 99),
        receiver: Some(client),
        ..Sample::default()
    }
}

const HEADER: &str = "impl,msg_size,threads,throughput_gbps,latency_us,cycles,instructions,cache_misses,context_switches\n";

#[test]
fn a_run_fills_the_rows_that_it_measured() {
    let ask = [(Axis::Pattern, "request-response"), (Axis::Threads, "2")];
    let cells = [
        cell("sendmsg", &ask),
        cell("send-fields", &ask),
        cell("send-zerocopy", &ask),
        cell("sendmsg", &[(Axis::Pattern, "stream")]),
        cell("send", &ask),
    ];
    // Two flows: 1 and 3 Gbit/s; 4 and 2 messages in 2000 ns each.
    let flows = side(&[flow(250, 4, 2000), flow(750, 2, 2000)], 6);
    let repeated = side(&[flow(1, 1, 1)], 1_000_000);
    let samples = [
        sample(&cells, 1, 0, repeated),
        sample(&cells, 1, 1, flows.clone()),
        sample(&cells, 0, 0, flows.clone()),
        sample(&cells, 3, 0, flows.clone()),
        sample(&cells, 4, 0, flows),
    ];
    let check = |as_published: bool, numbers: &str| {
        let text = layout("pa02-a").csv(&cells, &samples, as_published);
        // Absent, or shared with others: empty; the cell without a trial has no row.
        let row = |name: &str| format!("{name},256,2,{numbers},,,,7\n");
        assert_eq!(text, Ok([HEADER, &row("A1"), &row("A2")].concat()));
    };
    check(false, "4.000,0.667");
    check(true, "1.000,0.500");
}
