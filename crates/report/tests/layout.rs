//! CSV in the layouts of others: what is read comes out as it was, and runs fit in.

use crate::fixture::{self, flow};

use bytecost_report::layout::{TableLayout, layouts};
use bytecost_spec::sample::FlowReading;
use bytecost_spec::study::AS_PUBLISHED;
use bytecost_spec::{
    Axis, Cell, Counter, Measure, Metric, Reading, Sample, Side, SideReadings, TrialKey,
};

const PUBLISHED: [(&str, &str); 2] = [
    ("pa02-a", include_str!("../../../published/pa02-a.csv")),
    ("pa02-b", include_str!("../../../published/pa02-b.csv")),
];

fn layout(name: &str) -> &'static dyn TableLayout {
    layouts().find(|layout| layout.name() == name).unwrap()
}

#[test]
fn what_was_published_comes_out_as_it_was() {
    for (name, text) in PUBLISHED {
        let imported = layout(name).import(text).unwrap();
        assert_eq!(imported.published.cells.len(), 48, "{name}");
        // One of them ends its lines as Windows does.
        let lines = text.replace("\r\n", "\n");
        assert_eq!(layout(name).csv_of_imported(&imported), lines, "{name}");
        let json = serde_json::to_string(&imported).unwrap();
        assert_eq!(serde_json::from_str(&json).ok(), Some(imported));
    }
}

#[test]
fn an_imported_table_is_the_whole_grid_of_its_study() {
    for (name, text) in PUBLISHED {
        let published = layout(name).import(text).unwrap().published;
        let study = layout(name).study(&published);
        assert_eq!(study.design.as_deref(), Some(AS_PUBLISHED));
        assert_eq!(study.tiers.len(), 1, "{name}");
        let mut ids: Vec<String> = study.cells().iter().map(|(_, c)| c.id()).collect();
        let mut wanted: Vec<&str> = published.cells.iter().map(|c| c.id.as_str()).collect();
        ids.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(ids, wanted, "{name}");
        // Rows that are no product of sizes and threads keep to themselves.
        let part: String = text.lines().take(6).map(|l| format!("{l}\n")).collect();
        let published = layout(name).import(&part).unwrap().published;
        let study = layout(name).study(&published);
        assert_eq!(study.cells().len(), published.cells.len());
    }
}

#[test]
fn sizes_and_numbers_mean_what_they_meant_there() {
    let a = layout("pa02-a").import(PUBLISHED[0].1).unwrap();
    let first = &a.published.cells[0];
    assert_eq!((first.cell.size_bytes, first.cell.fields), (2048, 8));
    assert_eq!(first.cell.value(Axis::Mover), "send-fields");
    let value = |measure| first.values.get(&Metric::both(measure)).copied();
    assert_eq!(value(Measure::ThroughputGbitPerS), Some(0.0));
    assert_eq!(value(Measure::LatencyUsP50), Some(40_876.649));
    assert_eq!(value(Measure::CyclesPerByte), None);
    let b = layout("pa02-b").import(PUBLISHED[1].1).unwrap();
    let cycles = Metric::of(Measure::CyclesPerByte, Side::Sender);
    let [one, two] = [&b.published.cells[0], &b.published.cells[1]];
    assert_eq!(one.cell.size_bytes, 512);
    assert_eq!(one.values[&cycles], 8_009_860_700.0 / 136_752_128.0);
    assert_eq!(two.cell.threads, 2);
    assert!(!two.values.contains_key(&cycles));
}

#[test]
fn a_bad_file_is_told_with_its_line() {
    let header = PUBLISHED[0].1.lines().next().unwrap();
    let table = "A4,256,1,0,1,2,3,4,5 => impl: `A4` is not known: A1, A2, A3
        A1,0,1,0,1,2,3,4,5 => msg_size: `0` is out of bounds
        A1,-8,1,0,1,2,3,4,5 => msg_size
        A1,99999999999999999999,1,0,1,2,3,4,5 => msg_size
        A1,9999999999999999999,1,0,1,2,3,4,5 => msg_size
        A1,2.5,1,0,1,2,3,4,5 => msg_size
        A1,256,0,0,1,2,3,4,5 => threads: `0` is out of bounds
        A1,256,257,0,1,2,3,4,5 => threads
        A1,256,2,NaN,1,2,3,4,5 => throughput_gbps: `NaN`
        A1,256,2,-1,1,2,3,4,5 => throughput_gbps: `-1`
        A1,256,2,inf,1,2,3,4,5 => throughput_gbps
        A1,256,2,1,1,1e300,3,4,5 => cycles: `1e300` is beyond all measure
        A1,256,2,1,1,x\u{1b}[2J,3,4,5 => cycles
        A1,256,2,1,1,2,3,4 => 8 values, but the header names 9
        A1,256,2,1,1,2,3,4,5,6 => 10 values
        A1,256,1,1,1,2,3,4,5 => the same cell as in line 2";
    for row in table.lines() {
        let (row, says) = row.trim().split_once(" => ").unwrap();
        let text = format!("{header}\nA1,256,1,0,1,2,3,4,5\n{row}\n");
        let told = layout("pa02-a").import(&text).unwrap_err().to_string();
        let is_there = told.starts_with("line 3: ") && told.contains(says);
        assert!(is_there && !told.contains('\n'), "{told}");
    }
    let told = |text: &str| layout("pa02-a").import(text).unwrap_err().to_string();
    assert!(told("").starts_with("line 1: "));
    assert!(told(header).contains("no row"));
    assert!(told(PUBLISHED[1].1).contains("the columns of layout pa02-a are impl,msg_size"));
    // What is empty is absent, and stays empty.
    let sparse = format!("{header}\nA1,256,1,,1.5,,,,\n");
    let imported = layout("pa02-a").import(&sparse).unwrap();
    let again = layout("pa02-a").csv_of_imported(&imported);
    assert_eq!(again, format!("{header}\nA1,256,1,,1.500,,,,\n"));
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
