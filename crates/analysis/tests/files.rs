//! Movers of files have no receiver, and are compared, drawn and told all the same.

use bytecost_analysis::{Analysis, Point, Verdict};
use bytecost_spec::{Axis, Cell, Counter, Measure, Metric};

use crate::file_worlds::reads;
use crate::world::{self, At, Found, True, World, of, put};

const STUDY: &str = world::study!(
    "files",
    r#"
[axes]
mover = ["null", "pread", "uring-read", "pwrite"]
size = ["4KiB", "64KiB"]
depth = [1, 8]
cache = ["direct"]

[[compare]]
axis = "mover"
baseline = "pread"
metrics = ["throughput_gbit_per_s", "latency_us_p99"]

[[figure]]
title = "Throughput"
x = "size"
y = "throughput_gbit_per_s"
series = "mover"
"#
);

/// What a request costs: several in flight are four times as fast and as cheap.
fn truth(cell: &Cell) -> True {
    match (cell.mover.as_str(), cell.depth) {
        ("uring-read", 8) => True::costs(0.25),
        _ => True::costs(1.0),
    }
}

fn world() -> World {
    reads(STUDY, truth, |_| 0)
}

fn ratio(analysis: &Analysis, mover: &str, depth: u32) -> Option<(f64, Verdict)> {
    let throughput = Metric::both(Measure::ThroughputGbitPerS);
    let found = analysis.findings.iter().find(|f| {
        let cell = Cell::from_id(&f.cell).unwrap();
        f.metric == throughput && cell.mover == mover && cell.depth == depth
    })?;
    Some((found.ratio, found.verdict))
}

#[test]
fn one_at_a_time_is_the_baseline_of_every_depth_and_reading_is_not_held_against_writing() {
    let analysis = world().analyse();
    let (deep, verdict) = ratio(&analysis, "uring-read", 8).unwrap();
    assert!((3.5..4.5).contains(&deep), "{deep}");
    assert_eq!(verdict, Verdict::Better);
    let (alone, verdict) = ratio(&analysis, "uring-read", 1).unwrap();
    assert!((0.9..1.1).contains(&alone), "{alone}");
    assert_ne!(verdict, Verdict::Better);
    assert_eq!(ratio(&analysis, "pwrite", 1), None);
    assert!(analysis.findings.iter().all(|f| !f.cell.contains("/null/")));
}

#[test]
fn a_file_has_throughput_latency_and_figures_and_no_words_about_sockets() {
    let analysis = world().analyse();
    let cell = analysis.of_mover("pread");
    for measure in [
        Measure::ThroughputGbitPerS,
        Measure::MessagesPerS,
        Measure::CpuSPerGb,
        Measure::LatencyUsP50,
        Measure::LatencyUsP999,
    ] {
        let metric = Metric::both(measure);
        assert!(cell.estimates.contains_key(&metric), "{metric}");
    }
    let null = &analysis.of_mover("null").estimates;
    assert!(!null.contains_key(&Metric::both(Measure::ThroughputGbitPerS)));
    let series = analysis.figures[0].series.iter();
    let names: Vec<&str> = series.map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["pread", "uring-read", "pwrite"]);
    let points = &analysis.figures[0].series[0].points;
    assert!(points.iter().all(|p| matches!(p, Point::Measured(_))));
    let constants = analysis.study.constants.iter();
    let told: Vec<Axis> = constants.map(|(axis, _)| *axis).collect();
    for axis in [Axis::Cache, Axis::Ring, Axis::Access, Axis::Threads] {
        assert!(told.contains(&axis), "{axis:?}");
    }
    let of_sockets = [
        Axis::Transport,
        Axis::Congestion,
        Axis::Nodelay,
        Axis::Receiver,
    ];
    assert!(
        !of_sockets.iter().any(|axis| told.contains(axis)),
        "{told:?}"
    );
    assert!(analysis.loop_floor_ns_per_message.is_some());
}

#[test]
fn what_is_done_aside_is_no_neighbour() {
    let mut world = world();
    let share = |world: &World| {
        let analysis = world.analyse();
        let cell = analysis.of_mover("pread");
        cell.estimates[&Metric::both(Measure::NeighbourShare)].value
    };
    let before = share(&world);
    let aside = 20_000_000;
    world.change(of("pread"), |sample| {
        let busy = sample.machine[&Counter::MachineBusyNs].measured().unwrap();
        put(&mut sample.machine, Counter::MachineBusyNs, busy + aside);
    });
    let without = share(&world);
    assert!(without > before + 0.05, "{before} {without}");
    world.put(of("pread"), At::Sender, [(Counter::AsideNs, aside)]);
    assert!((share(&world) - before).abs() < 0.01);
}
