//! Planted truths come back with the right verdicts; what is missing stays missing.

use bytecost_analysis::{Analysis, Finding, NoValue, Verdict};
use bytecost_spec::survey::CounterTrial;
use bytecost_spec::{Cell, Counter, Measure, Metric, Reading, Side};

use crate::world::{At, Found, STUDY, True, World, all, at, by_mover, put, with_axes};

const COST: Metric = Metric::both(Measure::CpuSPerGb);

/// `sendfile` dear at small sizes and cheap at large ones, `writev` like `send`, zero-copy dear.
fn planted(cell: &Cell) -> True {
    let send = 0.1 + 100.0 / cell.size_bytes as f64;
    match cell.mover.as_str() {
        "sendfile" if cell.size_bytes < 65_536 => True::costs(1.5 * send),
        "sendfile" => True::costs(0.4 * send),
        "send-zerocopy" => True::costs(1.3 * send).copied(Some(1.0)),
        _ => True::costs(send),
    }
}

fn quiet() -> World {
    World::new(STUDY).run(1, 12, 0.01, planted)
}

#[test]
fn planted_ratios_get_the_right_verdicts() {
    let world = quiet();
    let analysis = world.analyse();
    let check = |mover, size, ratio: f64, verdict| {
        let found = analysis.of_cell(COST, &world.id(mover, size));
        assert_eq!(found.verdict, verdict, "{found:?}");
        let holds = (found.low..=found.high).contains(&ratio);
        assert!(holds, "{ratio}: {found:?}");
        assert!(found.first && found.blocks == 12);
        assert_eq!(found.baseline, world.id("send", size));
    };
    // The receiver's 0.1 stands in both sums.
    let both = |factor: f64, size: f64| {
        let send = 0.1 + 100.0 / size;
        (factor * send + 0.1) / (send + 0.1)
    };
    check("sendfile", 256, both(1.5, 256.0), Verdict::Worse);
    check("sendfile", 1 << 20, both(0.4, 1_048_576.0), Verdict::Better);
    check("send-zerocopy", 65_536, both(1.3, 65_536.0), Verdict::Worse);
    check("writev", 4096, 1.0, Verdict::NoDifferenceThatMatters);
    let fast = Metric::both(Measure::ThroughputGbitPerS);
    let throughput = analysis.of_cell(fast, &world.id("sendfile", 1 << 20));
    assert_eq!(throughput.verdict, Verdict::Better);
    assert!(throughput.ratio > 2.0 && !throughput.first);
}

#[test]
fn what_the_noise_hides_is_not_decided_and_says_what_it_would_take() {
    let world = World::new(STUDY).run(2, 6, 0.25, |_| True::costs(0.2));
    let analysis = world.analyse();
    let open = &analysis.findings;
    assert!(open.iter().all(|f| f.verdict == Verdict::NotDecided));
    assert!(open.iter().all(|f| f.blocks_needed.is_none_or(|n| n > 6)));
    assert!(open.iter().any(|f| f.blocks_needed.is_some()));
    assert!(open.iter().all(|f| f.detectable > 0.1));
}

#[test]
fn equal_cells_raise_no_more_alarms_than_promised() {
    let runs = 120;
    let alarm = |seed: &u64| {
        let world = World::new(STUDY).run(1000 + seed, 8, 0.05, |_| True::costs(0.2));
        world.analyse().findings.iter().any(Finding::is_apart)
    };
    // 5 % of 120 are 6; 14 or more would come up once in a thousand.
    let alarms = (0..runs).filter(alarm).count();
    assert!(alarms <= 13, "{alarms} of {runs}");
}

#[test]
fn what_counters_cost_is_reported_of_movers_that_were_tried_with_and_without() {
    let trial = |mover: &str, with, cpu_ns| CounterTrial {
        mover: mover.to_owned(),
        with,
        cpu_ns,
        messages: 1000,
    };
    let mut world = quiet();
    assert!(world.analyse().counters_cost.is_empty());
    world.manifest.survey.counters_cost = vec![
        trial("send", true, 130_000),
        trial("send", false, 120_000),
        trial("send", false, 120_000),
        trial("null", true, 2_000),
    ];
    let costs = world.analyse().counters_cost;
    assert_eq!(costs.len(), 1, "null was not tried without: {costs:?}");
    assert_eq!(costs[0].mover, "send");
    let (with, without) = (
        &costs[0].with_ns_per_message,
        &costs[0].without_ns_per_message,
    );
    assert!((with.value - 130.0).abs() < 1e-9 && (without.value - 120.0).abs() < 1e-9);
    assert_eq!((with.trials, without.trials), (1, 2));
}

// Invariant 5.
#[test]
fn absent_readings_propagate_with_their_reason() {
    let mut world = quiet();
    world.change(at("sendfile", 256), |s| {
        let gone = Reading::absent("the clock was away");
        s.sender.readings.insert(Counter::CpuNs, gone);
    });
    let analysis = world.analyse();
    let id = world.id("sendfile", 256);
    let cell = analysis.of_id(&id);
    let of = |side| Metric { side, ..COST };
    let recorded = |why: &str| NoValue::Recorded(why.to_owned());
    for (metric, why) in [
        (of(Side::Both), recorded("the clock was away")),
        (of(Side::Sender), recorded("the clock was away")),
        (
            Metric::both(Measure::CyclesPerByte),
            recorded("no hardware counters"),
        ),
        (
            Metric::both(Measure::BranchMissesPerMessage),
            NoValue::NotRead(Counter::BranchMisses),
        ),
    ] {
        assert_eq!(cell.absent[&metric], why);
    }
    assert!(cell.estimates.contains_key(&of(Side::Receiver)));
    for meaningless in [Measure::LatencyUsP50, Measure::CopiedShare] {
        let metric = Metric::both(meaningless);
        assert!(!cell.absent.contains_key(&metric) && !cell.estimates.contains_key(&metric));
    }
    let mut findings = analysis.findings.iter();
    assert!(findings.all(|f| f.metric != COST || f.cell != id));
}

#[test]
fn delayed_acknowledgements_are_reported_per_message_of_the_sender_where_there_is_tcp() {
    let delayed = Metric::both(Measure::DelayedAcksPerMessage);
    for (transport, expected) in [("veth", Some(0.25)), ("unix", None)] {
        let study = with_axes(&format!("transport = [\"{transport}\"]"));
        let mut world = World::new(&study).run(3, 6, 0.01, planted);
        world.put(all, At::Sender, [(Counter::Messages, 2_000)]);
        world.put(all, At::Machine, [(Counter::TcpDelayedAcks, 500)]);
        let analysis = world.analyse();
        for (mover, of_mover) in [("null", None), ("send", expected)] {
            let cell = analysis.of_mover(mover);
            let found = cell.estimates.get(&delayed).map(|e| e.value);
            assert_eq!(found, of_mover, "{mover} over {transport}");
            assert_eq!(cell.absent.get(&delayed), None);
        }
    }
}

#[test]
fn counters_that_shared_the_cpu_are_absent() {
    let mut world = quiet();
    world.each(|s| {
        for side in s.sides_mut() {
            put(&mut side.readings, Counter::Cycles, 5_000);
            put(&mut side.readings, Counter::PerfEnabledNs, 1_000);
            put(&mut side.readings, Counter::PerfRunningNs, 999);
        }
    });
    let cycles = Metric::both(Measure::CyclesPerByte);
    let cells = world.analyse().cells;
    assert!(cells.iter().all(|c| !c.estimates.contains_key(&cycles)));
}

#[test]
fn a_metric_that_reads_zero_has_an_estimate_and_no_ratio() {
    let study = STUDY.replace("\"throughput_gbit_per_s\"]", "\"migrations_per_s\"]");
    let analysis = World::new(&study).run(3, 6, 0.01, planted).analyse();
    let migrations = Metric::both(Measure::MigrationsPerS);
    let cell = &analysis.cells[1];
    assert_eq!(cell.estimates[&migrations].value, 0.0);
    assert!(analysis.findings.iter().all(|f| f.metric != migrations));
}

#[test]
fn latencies_come_from_the_merged_histogram() {
    let study = with_axes("pattern = [\"request-response\"]")
        .replace("\"cpu_s_per_gb\", ", "\"latency_us_p50\", ");
    let mut world = World::new(&study).run(4, 8, 0.01, |cell| {
        True::costs(0.2).late(if cell.mover == "writev" { 20.0 } else { 10.0 })
    });
    let p50 = Metric::both(Measure::LatencyUsP50);
    let readable = world.analyse();
    let cell = readable.of_mover("writev");
    let median = cell.estimates[&p50];
    assert!((19.0..21.0).contains(&median.value), "{median:?}");
    let p99 = cell.estimates[&Metric::both(Measure::LatencyUsP99)].value;
    assert!((22.0..30.0).contains(&p99), "{p99}");
    let slower = readable.of_cell(p50, &world.id("writev", 256));
    assert_eq!(slower.verdict, Verdict::Worse);
    assert!((1.9..2.1).contains(&slower.ratio));

    world.change(by_mover("send"), |s| {
        s.latency_ns_histogram = Some("garbage".into())
    });
    let analysis = world.analyse();
    let send = analysis.of_mover("send");
    assert_eq!(send.absent[&p50], NoValue::UnreadableHistogram);
    assert!(analysis.findings.iter().all(|f| f.metric != p50));
}

#[test]
fn foreign_samples_and_failures_do_no_harm() {
    let mut world = quiet();
    let before = world.analyse();
    let mut foreign = world.samples[0].clone();
    foreign.cell = "no/such/cell".to_owned();
    foreign.trial.cell = u32::MAX;
    world.samples.push(foreign);
    world.fail(0, "no/such/cell", "gone");
    assert_eq!(world.analyse().findings, before.findings);
}

// Invariant 3.
#[test]
fn the_same_run_gives_the_same_bytes_that_the_schema_describes() {
    let world = quiet();
    let text = serde_json::to_string(&world.analyse()).expect("JSON");
    assert_eq!(text, serde_json::to_string(&world.analyse()).expect("JSON"));
    let back: Analysis = serde_json::from_str(&text).expect("an analysis");
    assert_eq!(back.findings.len(), 24);
    let schema = schemars::schema_for!(Analysis).to_value();
    let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let described = schema["properties"].as_object().expect("properties");
    for key in value.as_object().expect("an object").keys() {
        assert!(described.contains_key(key), "{key}");
    }
}
