//! From which size on: crossings of planted costs, what is said of them, and which sizes come next.

use bytecost_analysis::{Analysis, Crossing, CrossingPoint, Crossover, Finding, Verdict};
use bytecost_spec::{Axis, Cell, Measure, Metric, Value};

use crate::file_worlds::{READS, reads};
use crate::world::{STUDY, True, World, with_axes};

const COST: Metric = Metric::both(Measure::CpuSPerGb);

/// Both sides cost `send`'s by a power of the size, times a planted ratio.
fn world(seed: u64, noise: f64, ratio: fn(&Cell) -> f64) -> World {
    World::new(STUDY).run(seed, 16, noise, move |cell| True::both(ratio(cell)))
}

fn crossover<'a>(analysis: &'a Analysis, value: &str) -> &'a Crossover {
    let of = |c: &&Crossover| c.value == value && c.metric == COST;
    let mut found = analysis.crossovers.iter().filter(of);
    found
        .next()
        .filter(|_| found.next().is_none())
        .expect("one crossover")
}

fn points<const N: usize>(crossover: &Crossover) -> [&CrossingPoint; N] {
    match &crossover.outcome {
        Crossing::At(points) => {
            let all: Vec<&CrossingPoint> = points.iter().collect();
            all.try_into().expect("as many points")
        }
        other => panic!("{other:?}"),
    }
}

fn ends(point: &CrossingPoint) -> [Value; 2] {
    [&point.low, &point.high].map(|end| end.clone().unwrap_or_default())
}

/// The size's logarithm, from 0 at 256 B to 1 at 1 MiB.
fn along(cell: &Cell) -> f64 {
    (cell.size_bytes as f64 / 256.0).ln() / 4096.0_f64.ln()
}

fn planted(cell: &Cell) -> f64 {
    match cell.mover.as_str() {
        // Equal at the middle of the range: 16 KiB.
        "sendfile" => (1.0 - 2.0 * along(cell)).exp(),
        "send-zerocopy" => 1.5,
        "writev" => (-0.9 * (1.0 - 1.5 * along(cell)).max(0.0)).exp(),
        _ => 1.0,
    }
}

#[test]
fn a_crossing_is_found_at_the_planted_size() {
    let analysis = world(1, 0.003, planted).analyse();
    let found = crossover(&analysis, "sendfile");
    let [point] = points(found);
    assert!(point.better_above && !point.fades, "{point:?}");
    assert_eq!(ends(point), ["4KiB", "64KiB"]);
    assert_eq!(found.range, ("256".into(), "1MiB".into()));
    assert_eq!(
        (found.along, found.baseline.clone()),
        (Axis::Size, "send".into())
    );
    assert_eq!(found.findings.len(), 4);
}

#[test]
fn none_fading_and_always_are_answers_too() {
    let as_planted = world(2, 0.003, planted).analyse();
    let never = crossover(&as_planted, "send-zerocopy");
    assert_eq!(never.outcome, Crossing::NeverBetter);
    let fading = crossover(&as_planted, "writev");
    let [point] = points(fading);
    assert!(point.fades && !point.better_above, "{point:?}");

    let cheap = |c: &Cell| if c.mover == "sendfile" { 0.5 } else { 1.0 };
    let analysis = world(3, 0.003, cheap).analyse();
    let always = crossover(&analysis, "sendfile");
    assert_eq!(always.outcome, Crossing::AlwaysBetter);
    assert_eq!(always.range, ("256".into(), "1MiB".into()));
    let undecided = world(4, 0.4, |_| 1.0).analyse();
    assert_eq!(crossover(&undecided, "writev").outcome, Crossing::Undecided);
}

#[test]
fn two_sizes_cross_where_one_of_them_is_decided() {
    let study = STUDY.replace("\"4KiB\", \"64KiB\", ", "");
    let check = |noise, wrong_at: Option<u64>, value, is: &dyn Fn(&Crossover) -> bool| {
        let mut world = World::new(&study).run(3, 16, noise, |c| match c.mover.as_str() {
            "sendfile" => True::both(0.5),
            "send-zerocopy" => True::both(1.5),
            _ => True::both(1.0),
        });
        if let Some(size_bytes) = wrong_at {
            let cell = world.id("sendfile", size_bytes);
            world.fail(0, &cell, "wrong content at byte 7");
        }
        let analysis = world.analyse();
        let found = crossover(&analysis, value);
        assert!(is(found), "{found:?}");
    };
    check(0.003, None, "sendfile", &|c| {
        c.outcome == Crossing::AlwaysBetter
    });
    check(0.003, None, "send-zerocopy", &|c| {
        c.outcome == Crossing::NeverBetter
    });
    check(0.4, None, "writev", &|c| c.outcome == Crossing::Undecided);
    check(0.003, Some(256), "sendfile", &|c| {
        c.open == ["256"] && ends(points::<1>(c)[0]) == ["", "1MiB"]
    });
    check(0.003, Some(1 << 20), "sendfile", &|c| {
        c.open == ["1MiB"] && ends(points::<1>(c)[0]) == ["256", ""]
    });
}

#[test]
fn two_crossings_come_in_order() {
    let valley = |c: &Cell| match c.mover.as_str() {
        "sendfile" if (c.size_bytes == 256) || (c.size_bytes == 1 << 20) => 1.4,
        "sendfile" => 0.6,
        _ => 1.0,
    };
    let analysis = world(5, 0.003, valley).analyse();
    let found = crossover(&analysis, "sendfile");
    let [first, second] = points(found);
    assert!(first.better_above && !second.better_above);
    assert_eq!(ends(first), ["256", "4KiB"]);
    assert_eq!(ends(second), ["64KiB", "1MiB"]);
}

#[test]
fn more_is_better_where_the_metric_says_so_and_the_same_run_gives_the_same() {
    // The world's throughput falls as the cost rises.
    let analysis = world(6, 0.003, planted).analyse();
    let throughput = Metric::both(Measure::ThroughputGbitPerS);
    let rate = |c: &&Crossover| c.value == "sendfile" && c.metric == throughput;
    let found = analysis.crossovers.iter().find(rate);
    let [point] = points(found.expect("of the second metric"));
    assert!(point.better_above, "{point:?}");
    let again = world(6, 0.003, planted).analyse();
    assert_eq!(again.crossovers, analysis.crossovers);
}

#[test]
fn each_place_has_its_own_and_numbers_of_threads_are_gone_along_too() {
    let with_threads = with_axes("threads = [1, 2, 4]");
    let world = World::new(&with_threads).run(7, 8, 0.003, |c| {
        True::costs(match (c.mover.as_str(), c.threads) {
            ("sendfile", ..=2) => 0.1,
            ("sendfile", _) => 0.4,
            _ => 0.2,
        })
    });
    let analysis = world.analyse();
    let of = |along: Axis| {
        let own = |c: &&Crossover| c.value == "sendfile" && c.metric == COST && c.along == along;
        analysis.crossovers.iter().filter(own).collect::<Vec<_>>()
    };
    assert_eq!((of(Axis::Size).len(), of(Axis::Threads).len()), (3, 4));
    let found = of(Axis::Threads)[0];
    assert_eq!(found.place, [(Axis::Size, "256".into())]);
    let [point] = points(found);
    assert!(!point.better_above, "{point:?}");
    assert_eq!(ends(point), ["2", "4"]);

    // A baseline that has no depth hides none.
    let study = READS.replace("[1, 16]", "[1, 4, 16]");
    let read = reads(&study, |_| True::costs(0.2), |_| 0).analyse();
    let of_libaio = |c: &&Crossover| c.value == "libaio" && c.along == Axis::Size;
    let turns = read
        .crossovers
        .iter()
        .filter(of_libaio)
        .filter(|c| c.place.iter().any(|(axis, _)| *axis == Axis::Depth));
    assert_eq!(turns.count(), 3 * 2 * 3, "of three metrics and two caches");
}

fn verdicts(analysis: &Analysis, value: &str) -> Vec<Verdict> {
    let of = |f: &&Finding| f.value == value && f.metric == COST;
    let found = analysis.findings.iter().filter(of);
    found.map(|f| f.verdict).collect()
}

/// The curve of a real run, which reports called better from 266 KiB on and worse elsewhere.
#[test]
fn nothing_is_called_better_or_worse_that_no_finding_decides() {
    let uring = |c: &Cell| match (c.mover.as_str(), c.size_bytes) {
        ("sendfile", 256) => 1.17,
        ("sendfile", 4096) => 1.06,
        ("sendfile", 65_536) => 1.03,
        ("sendfile", _) => 0.95,
        _ => 1.0,
    };
    for seed in 0..8 {
        let analysis = world(seed, 0.12, uring).analyse();
        let found = crossover(&analysis, "sendfile");
        let decided = verdicts(&analysis, "sendfile");
        let is = |verdict| decided.contains(&verdict);
        let is_better = matches!(found.outcome, Crossing::At(_) | Crossing::AlwaysBetter);
        assert_eq!(is_better, is(Verdict::Better), "{decided:?} {found:?}");
        let open = decided.iter().filter(|v| **v == Verdict::NotDecided);
        assert_eq!(found.open.len(), open.count(), "{found:?}");
    }
}

#[test]
fn a_step_between_two_sizes_lies_within_the_interval() {
    let step = |c: &Cell| match c.mover.as_str() {
        "sendfile" if c.size_bytes > 33 << 10 => 0.8,
        "sendfile" => 1.02,
        _ => 1.0,
    };
    let study = STUDY.replace("\"64KiB\"", "\"16KiB\", \"64KiB\"");
    for seed in 0..8 {
        let world = World::new(&study).run(seed, 16, 0.01, |c| True::both(step(c)));
        let analysis = world.analyse();
        let found = crossover(&analysis, "sendfile");
        let [point] = points(found);
        // Undecided sizes widen the interval.
        let [low, high] = ends(point);
        assert_eq!(high, "64KiB", "{found:?}");
        let lows = ["", "256", "4KiB", "16KiB"];
        assert!(lows.iter().any(|value| low == *value), "{found:?}");
    }
}

#[test]
fn what_has_no_verdict_is_no_end_of_an_interval() {
    let mut run = world(1, 0.003, planted);
    let failed = run.id("sendfile", 65_536);
    for block in 0..3 {
        run.fail(block, &failed, "the receiver was killed by SIGKILL");
    }
    let analysis = run.analyse();
    let found = crossover(&analysis, "sendfile");
    let [point] = points(found);
    assert_eq!(ends(point), ["4KiB", "1MiB"]);
    assert_eq!(found.open, ["64KiB"]);
}
