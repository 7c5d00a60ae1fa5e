//! Crossings held against planted curves, with fixed seeds.

use bytecost_stats::{Course, GainEdge, Gains, Generator, Resampling, course};

/// Log sizes from 256 B to 1 MiB.
fn places() -> Vec<f64> {
    (0..7).map(|i| (256.0 * 4.0_f64.powi(i)).ln()).collect()
}

fn place(bytes: f64) -> f64 {
    bytes.ln()
}

/// Blocks of gains about a true curve: noise of each place, and one that a block has in common.
fn blocks(
    g: &mut Generator,
    n: usize,
    noise: f64,
    truth: impl Fn(f64) -> f64,
) -> Vec<Vec<Option<f64>>> {
    (0..n)
        .map(|_| {
            let shared = noise * g.normal();
            let at = |p: &f64| Some(truth(*p) + shared + noise * g.normal());
            places().iter().map(at).collect()
        })
        .collect()
}

fn judge(blocks: &[Vec<Option<f64>>], bound: f64, seed: u64) -> Course {
    let gains = Gains {
        places: &places(),
        blocks,
        bound,
    };
    let resampling = Resampling {
        level: 0.95,
        times: 1000,
        seed,
    };
    course(gains, resampling).expect("a course")
}

fn edges(course: Course) -> Vec<GainEdge> {
    match course {
        Course::Edges(edges) => edges,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_planted_crossing_is_found_where_it_is() {
    let truth = |p: f64| 0.2 * (p - place(20_000.0));
    let mut g = Generator::new(1);
    for (sign, rising) in [(1.0, true), (-1.0, false)] {
        let found = edges(judge(
            &blocks(&mut g, 20, 0.02, |p| sign * truth(p)),
            0.05,
            3,
        ));
        let [edge] = found.as_slice() else {
            panic!("{found:?}")
        };
        assert_eq!((edge.rising, edge.fades), (rising, false));
        let (low, high) = (edge.low.expect("low"), edge.high.expect("high"));
        assert!(
            low < edge.at && edge.at < high && high - low < 0.4,
            "{edge:?}"
        );
        assert!((low..=high).contains(&place(20_000.0)), "{edge:?}");
    }
}

/// How often the interval of the only edge holds the truth, and how often there is one.
fn coverage(n: usize, noise: f64, slope: f64, at: f64, times: usize) -> (f64, f64) {
    let mut g = Generator::new(17);
    let (mut held, mut found) = (0, 0);
    for seed in 0..times {
        let rows = blocks(&mut g, n, noise, |p| slope * (p - at));
        let Course::Edges(edges) = judge(&rows, 0.05, seed as u64) else {
            continue;
        };
        let [edge] = edges.as_slice() else { continue };
        found += 1;
        let above = edge.low.is_none_or(|low| low <= at);
        let below = edge.high.is_none_or(|high| at <= high);
        held += usize::from(above && below);
    }
    (held as f64 / found as f64, found as f64 / times as f64)
}

#[test]
fn intervals_hold_the_planted_size_as_often_as_they_say() {
    for (n, noise, slope) in [(8, 0.03, 0.2), (16, 0.1, 0.2), (40, 0.1, -0.1)] {
        for bytes in [20_000.0, 1_500.0] {
            let (held, found) = coverage(n, noise, slope, place(bytes), 500);
            let said = format!("{n} blocks, noise {noise}, {bytes} B: {held} of {found}");
            assert!((0.93..=0.98).contains(&held) && found > 0.99, "{said}");
        }
    }
}

#[test]
fn where_nothing_crosses_that_is_said() {
    let mut g = Generator::new(2);
    let mut check = |truth: fn(f64) -> f64, expected: Course| {
        assert_eq!(judge(&blocks(&mut g, 16, 0.01, truth), 0.05, 1), expected);
    };
    check(|_| 0.3, Course::Always);
    check(|p| 0.1 + 0.2 * (p - place(256.0)), Course::Always);
    check(|_| -0.3, Course::Never);
    // A tenth of a percent to and fro, and a gain of what does not matter.
    check(|p| 0.001 * (p * 9.0).sin(), Course::Never);
    check(|_| 0.02, Course::Never);
    // It loses less and less, and is never better.
    check(|p| -0.5 + 0.06 * (p - place(256.0)), Course::Never);
}

#[test]
fn several_crossings_come_in_the_order_of_the_scale() {
    let mut g = Generator::new(3);
    let hill = |p: f64| 1.0 - 0.4 * (p - place(16_384.0)).abs();
    let found = edges(judge(&blocks(&mut g, 16, 0.02, hill), 0.05, 1));
    let [first, second] = found.as_slice() else {
        panic!("{found:?}")
    };
    assert!(first.rising && !second.rising && first.at < second.at);
    for (edge, truth) in [(first, -2.5), (second, 2.5)] {
        assert!((edge.at - place(16_384.0) - truth).abs() < 0.1, "{edge:?}");
        assert!(edge.low.is_some() && edge.high.is_some(), "{edge:?}");
    }
}

#[test]
fn a_gain_that_fades_ends_where_it_no_longer_matters() {
    let mut g = Generator::new(4);
    // From e^1 at 256 B down to nothing from 16 KiB on, where it wavers about zero.
    let fading = |p: f64| {
        let rest = 1.0 - (p - place(256.0)) / (place(16_384.0) - place(256.0));
        rest.max(0.0) + 0.004 * (p * 7.0).sin()
    };
    let found = edges(judge(&blocks(&mut g, 16, 0.005, fading), 0.05, 1));
    let [edge] = found.as_slice() else {
        panic!("{found:?}")
    };
    assert!(edge.fades && !edge.rising, "{edge:?}");
    let truth = place(256.0) + 0.95 * (place(16_384.0) - place(256.0));
    assert!((edge.at - truth).abs() < 0.1, "{edge:?}");
    // The other way round it is never better.
    let mut g = Generator::new(4);
    let rows = blocks(&mut g, 16, 0.005, |p| -fading(p));
    assert_eq!(judge(&rows, 0.05, 1), Course::Never);
}

#[test]
fn what_the_noise_hides_is_left_open() {
    let mut g = Generator::new(5);
    let flat = judge(&blocks(&mut g, 8, 0.5, |_| 0.1), 0.05, 1);
    assert_eq!(flat, Course::Open);
    // A bump that a few wild blocks could have made is no pair of crossings.
    let dip = |p: f64| {
        if (p - place(16_384.0)).abs() < 0.1 {
            -0.06
        } else {
            0.6
        }
    };
    let rows = blocks(&mut g, 12, 0.12, dip);
    assert!(!matches!(judge(&rows, 0.05, 1), Course::Edges(e) if e.len() > 1));
}

#[test]
fn an_interval_that_leaves_the_range_has_no_end_there() {
    let mut g = Generator::new(6);
    // Zero between the last two sizes, but only just, and noisy there.
    let truth = |p: f64| 0.05 * (place(900_000.0) - p);
    let found = edges(judge(&blocks(&mut g, 20, 0.06, truth), 0.0, 1));
    let [edge] = found.as_slice() else {
        panic!("{found:?}")
    };
    assert!(edge.low.is_some() && edge.high.is_none(), "{edge:?}");
}

#[test]
fn the_same_seed_gives_the_same_interval_and_garbage_gives_none() {
    let rows = blocks(&mut Generator::new(7), 12, 0.1, |p| p - place(9_000.0));
    assert_eq!(judge(&rows, 0.05, 5), judge(&rows, 0.05, 5));
    let fine = Resampling {
        level: 0.95,
        times: 200,
        seed: 1,
    };
    let check = |places: &[f64], rows: &[Vec<Option<f64>>], bound: f64, resampling: Resampling| {
        let gains = Gains {
            places,
            blocks: rows,
            bound,
        };
        assert_eq!(course(gains, resampling), None);
    };
    let row = |a: f64| vec![Some(a), Some(-a)];
    let good = [row(1.0), row(1.1), row(1.2)];
    check(&[], &[], 0.05, fine);
    check(&[1.0], &[vec![Some(1.0)]], 0.05, fine);
    check(&[2.0, 1.0], &good, 0.05, fine);
    check(&[1.0, f64::NAN], &good, 0.05, fine);
    check(&[1.0, 2.0], &good, f64::NAN, fine);
    check(&[1.0, 2.0], &good[..2], 0.05, fine);
    check(
        &[1.0, 2.0],
        &[row(f64::NAN), row(1.0), row(1.0)],
        0.05,
        fine,
    );
    check(&[1.0, 2.0, 3.0], &good, 0.05, fine);
    check(&[1.0, 2.0], &good, 0.05, Resampling { times: 10, ..fine });
    check(&[1.0, 2.0], &good, 0.05, Resampling { level: 1.0, ..fine });
    // Blocks that lack a place are drawn too, and speak for the others.
    let mut holes = good.to_vec();
    holes.extend([vec![Some(1.3), None], vec![None, Some(-1.0)]]);
    let gains = Gains {
        places: &[1.0, 2.0],
        blocks: &holes,
        bound: 0.05,
    };
    assert!(matches!(course(gains, fine), Some(Course::Edges(e)) if e.len() == 1));
}

#[test]
fn equal_ways_are_seldom_said_to_cross() {
    const TIMES: u64 = 400;
    for (n, noise) in [(8, 0.3), (16, 0.1), (40, 0.3)] {
        let mut g = Generator::new(23);
        let alarms = (0..TIMES).filter(|seed| {
            let course = judge(&blocks(&mut g, n, noise, |_| 0.0), 0.05, *seed);
            matches!(course, Course::Edges(_) | Course::Always)
        });
        let share = alarms.count() as f64 / TIMES as f64;
        assert!(share <= 0.06, "{n} blocks, noise {noise}: {share}");
    }
}
