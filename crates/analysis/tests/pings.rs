//! The cost of the distance between two CPUs: the matrix of pairs, its words, and missing pairs.

use bytecost_analysis::{Analysis, Gap, MatrixData, Point, SharedHardware};
use bytecost_spec::host::Cpu;
use bytecost_spec::survey::Route;
use bytecost_spec::{Cell, Nearness, Placement, RefusedCell};

use crate::world::{self, True, World, cache, says};

const STUDY: &str = world::study!(
    "cpu-to-cpu",
    r#"
[axes]
mover = ["null", "ping-cache-line", "ping-futex"]
size = [8]
placement = ["0:0", "1:1", "2:2", "0:1", "0:2", "1:2"]

[[compare]]
axis = "placement"
baseline = "0:1"
metrics = ["round_trip_ns"]
"#
);

fn cpus(cell: &Cell) -> (u32, u32) {
    match &cell.placement {
        Placement::Cpus { sender, receiver } => (sender[0], receiver[0]),
        other => panic!("{other}"),
    }
}

/// CPUs 0 and 1 share a cache, CPU 2 is on another node; a turn takes 1, 4 and 16 times as long.
fn times_of(a: u32, b: u32) -> f64 {
    match (a, b) {
        (a, b) if a == b => 1.0,
        (0, 1) => 4.0,
        _ => 16.0,
    }
}

fn times(cell: &Cell) -> f64 {
    let (a, b) = cpus(cell);
    times_of(a, b)
}

fn world(study: &str, times: impl Fn(&Cell) -> f64) -> World {
    let rows = [
        ("null", Route::Nowhere),
        ("ping-cache-line", Route::PingPongSpinning),
        ("ping-futex", Route::PingPong),
    ];
    let mut world = World::of_rows(study, &rows);
    let host = &mut world.manifest.host;
    host.cpus = (0..3)
        .map(|cpu| Cpu {
            cpu,
            node: Some(cpu / 2),
            siblings: vec![cpu],
            ..Cpu::default()
        })
        .collect();
    host.caches = vec![cache(3, 32 << 20)];
    host.caches[0].shared_by = vec![0, 1];
    // Spinning movers are refused on one CPU.
    let spins = |c: &Cell| c.mover == "ping-cache-line" && cpus(c).0 == cpus(c).1;
    for cell in world.cells.iter().filter(|c| spins(c)) {
        world.refused.push(RefusedCell {
            cell: cell.clone(),
            why: "they spin".to_owned(),
        });
    }
    world.cells.retain(|c| !spins(c));
    let truth = |cell: &Cell| True::costs(times(cell)).at_rate(0.1 / times(cell));
    world.run(7, 12, 0.01, truth).alone()
}

fn matrix<'a>(analysis: &'a Analysis, mover: &str) -> &'a MatrixData {
    analysis.matrices.iter().find(|m| m.mover == mover).unwrap()
}

#[test]
fn each_way_has_its_pairs_from_near_to_far_with_their_times() {
    let analysis = world(STUDY, times).analyse();
    assert_eq!(analysis.matrices.len(), 2);
    let futex = matrix(&analysis, "ping-futex");
    assert_eq!(futex.cpus, [0, 1, 2]);
    let pairs: Vec<(u32, u32, Option<Nearness>, SharedHardware)> = (futex.pairs.iter())
        .map(|p| (p.from, p.to, p.nearness, p.shared))
        .collect();
    let l3 = SharedHardware::Cache {
        level: 3,
        size_bytes: 32 << 20,
    };
    let (cpu, nodes) = (SharedHardware::Cpu, SharedHardware::Nodes(0, 1));
    let (same, cache, node) = (Nearness::SameCpu, Nearness::SameCache, Nearness::CrossNode);
    assert_eq!(
        pairs,
        [
            (0, 0, Some(same), cpu),
            (1, 1, Some(same), cpu),
            (2, 2, Some(same), cpu),
            (0, 1, Some(cache), l3),
            (0, 2, Some(node), nodes),
            (1, 2, Some(node), nodes),
        ]
    );
    let classes: Vec<usize> = futex.pairs.iter().map(|p| p.class).collect();
    assert_eq!(classes, [0, 0, 0, 1, 2, 2]);
    says(
        bytecost_report::markdown(&analysis),
        [
            "(same L3 of 32 MiB)",
            "From near to far: same CPU",
            "nodes 0 and 1",
        ],
    );
    // 8 bytes at 0.1 Gbit/s are 640 ns.
    for pair in &futex.pairs {
        let Point::Measured(e) = &pair.point else {
            panic!("{pair:?}");
        };
        let expected = 640.0 * times_of(pair.from, pair.to);
        let apart = (e.value / expected - 1.0).abs();
        assert!(apart < 0.05, "{pair:?}: {expected}");
        assert!(e.low.unwrap() <= e.value && e.value <= e.high.unwrap());
    }
    let both = (futex.pair(2, 0), futex.pair(0, 2));
    assert_eq!(both.0, both.1, "one way stands for both");
    assert_eq!(futex.pair(0, 3), None);
    let line = matrix(&analysis, "ping-cache-line");
    let gap = Point::Gap(Gap::Refused("they spin".to_owned()));
    assert_eq!(line.pair(1, 1).unwrap().point, gap);
}

#[test]
fn what_intervals_do_not_distinguish_is_reported_so() {
    let analysis = world(STUDY, |_| 1.0).analyse();
    says(
        bytecost_report::markdown(&analysis),
        ["which the intervals do not tell apart."],
    );
}

#[test]
fn a_pair_alone_and_a_run_without_trials_are_no_matrix() {
    let all = r#"["0:0", "1:1", "2:2", "0:1", "0:2", "1:2"]"#;
    let one = STUDY.replace(all, r#"["0:1"]"#);
    let analysis = world(&one, times).analyse();
    assert!(analysis.matrices.is_empty());
    let mut empty = world(STUDY, times);
    empty.samples.clear();
    assert!(empty.analyse().matrices.is_empty());
}
