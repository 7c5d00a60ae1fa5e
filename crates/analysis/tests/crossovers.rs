//! From which size on: crossings of planted costs, and what is said of them.

mod world;

use bytecost_analysis::{Analysis, Crossing, CrossingPoint, Crossover};
use bytecost_spec::{Axis, Cell, Measure, Metric};
use world::{STUDY, True, World};

const COST: Metric = Metric::both(Measure::CpuSPerGb);

/// Both sides cost `send`'s by a power of the size, times a planted ratio.
fn world(seed: u64, noise: f64, ratio: fn(&Cell) -> f64) -> World {
    World::new(STUDY).run(seed, 16, noise, move |cell| {
        let ratio = ratio(cell);
        True {
            receiver_ns_per_byte: 0.1 * ratio,
            ..True::costs(0.2 * ratio)
        }
    })
}

fn crossover<'a>(analysis: &'a Analysis, value: &str) -> &'a Crossover {
    let of = |c: &&Crossover| c.value == value && c.metric == COST;
    let found: Vec<&Crossover> = analysis.crossovers.iter().filter(of).collect();
    let [one] = found.as_slice() else {
        panic!("{found:?}")
    };
    one
}

fn points(crossover: &Crossover) -> &[CrossingPoint] {
    match &crossover.outcome {
        Crossing::At(points) => points,
        other => panic!("{other:?}: {}", crossover.sentence),
    }
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
    let [point] = points(found) else {
        panic!("{found:?}")
    };
    assert!(point.better_above && !point.fades, "{point:?}");
    let (low, high) = (point.low.expect("low"), point.high.expect("high"));
    assert!(
        low < 16_384.0 && 16_384.0 < high && high / low < 1.2,
        "{point:?}"
    );
    assert_eq!(found.range, ("256".to_owned(), "1MiB".to_owned()));
    assert_eq!((found.along, found.baseline.as_str()), (Axis::Size, "send"));
    assert_eq!(found.findings.len(), 4);
    let start =
        "`sendfile` is better than `send` in CPU time per byte from about 16 KiB (95 % interval 1";
    assert!(found.sentence.starts_with(start), "{}", found.sentence);
    assert!(
        found.sentence.ends_with(" on; elsewhere it is worse."),
        "{}",
        found.sentence
    );
}

#[test]
fn none_fading_and_always_are_answers_too() {
    let analysis = world(2, 0.003, planted).analyse();
    let never = crossover(&analysis, "send-zerocopy");
    assert_eq!(never.outcome, Crossing::NeverBetter);
    let said = "`send-zerocopy` is at no size from 256 B to 1 MiB better than `send` in CPU time per byte by 3 % or more.";
    assert_eq!(never.sentence, said);
    let fading = crossover(&analysis, "writev");
    let [point] = points(fading) else {
        panic!("{fading:?}")
    };
    assert!(point.fades && !point.better_above, "{point:?}");
    assert!((40_000.0..65_536.0).contains(&point.value), "{point:?}");
    let end = "; elsewhere there is no difference that matters.";
    assert!(
        fading.sentence.contains("up to about ") && fading.sentence.ends_with(end),
        "{}",
        fading.sentence
    );

    let cheap = |c: &Cell| if c.mover == "sendfile" { 0.5 } else { 1.0 };
    let analysis = world(3, 0.003, cheap).analyse();
    let always = crossover(&analysis, "sendfile");
    assert_eq!(always.outcome, Crossing::AlwaysBetter);
    assert!(
        always
            .sentence
            .contains("at every size from 256 B to 1 MiB"),
        "{}",
        always.sentence
    );
    let undecided = world(4, 0.4, |_| 1.0).analyse();
    assert_eq!(crossover(&undecided, "writev").outcome, Crossing::Undecided);
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
    let [first, second] = points(found) else {
        panic!("{found:?}")
    };
    assert!(first.better_above && !second.better_above && first.value < second.value);
    assert!(
        found.sentence.contains(" from about ") && found.sentence.contains(" to about "),
        "{}",
        found.sentence
    );
}

#[test]
fn more_is_better_where_the_metric_says_so_and_the_same_run_gives_the_same() {
    // The world's throughput falls as the cost rises.
    let analysis = world(6, 0.003, planted).analyse();
    let rate = |c: &&Crossover| {
        c.value == "sendfile" && c.metric == Metric::both(Measure::ThroughputGbitPerS)
    };
    let found = analysis
        .crossovers
        .iter()
        .find(rate)
        .expect("of the second metric");
    assert!(points(found)[0].better_above, "{found:?}");
    assert_eq!(
        world(6, 0.003, planted).analyse().crossovers,
        analysis.crossovers
    );
}

#[test]
fn each_place_has_its_own_and_numbers_of_threads_are_gone_along_too() {
    let study = STUDY.replace("mover = [", "threads = [1, 2, 4]\nmover = [");
    let world = World::new(&study).run(7, 8, 0.003, |c| {
        let dear = c.mover == "sendfile" && c.threads > 2;
        True::costs(if dear {
            0.4
        } else if c.mover == "sendfile" {
            0.1
        } else {
            0.2
        })
    });
    let analysis = world.analyse();
    let of = |along: Axis| {
        let own = |c: &&Crossover| c.value == "sendfile" && c.metric == COST && c.along == along;
        analysis.crossovers.iter().filter(own).collect::<Vec<_>>()
    };
    assert_eq!((of(Axis::Size).len(), of(Axis::Threads).len()), (3, 4));
    let found = of(Axis::Threads)[0];
    assert_eq!(found.place, [(Axis::Size, "256".to_owned())]);
    let [point] = points(found) else {
        panic!("{found:?}")
    };
    assert!(
        !point.better_above && (2.0..4.0).contains(&point.value),
        "{point:?}"
    );
    assert!(
        found.sentence.contains(" threads (95 % interval"),
        "{}",
        found.sentence
    );
}

#[test]
fn a_crossing_that_the_intervals_do_not_bear_out_is_not_claimed() {
    let analysis = world(10, 0.12, |c: &Cell| {
        match (c.mover.as_str(), c.size_bytes) {
            ("sendfile", 256..=4096) => 1.6,
            ("sendfile", 65_536) => 1.05,
            ("sendfile", _) => 0.95,
            _ => 1.0,
        }
    })
    .analyse();
    let found = crossover(&analysis, "sendfile");
    let [point] = points(found) else {
        panic!("{found:?}")
    };
    assert!(point.low.is_some() && point.high.is_none(), "{point:?}");
    let start = "Whether `sendfile` is better than `send` in CPU time per byte anywhere from 256 B to 1 MiB is not decided: up to ";
    assert!(found.sentence.starts_with(start), "{}", found.sentence);
}
