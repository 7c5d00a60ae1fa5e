//! The decisions held against simulated truths, with fixed seeds.

use bytecost_stats::*;

use crate::worlds::{Noise, outliers, slack, t3};

#[test]
fn intervals_hold_the_truth_as_often_as_they_say() {
    const TIMES: usize = 20_000;
    let noises: [Noise; 3] = [Generator::normal, outliers, t3];
    let mut g = Generator::new(11);
    for (name, noise) in ["normal", "outliers", "t3"].into_iter().zip(noises) {
        for n in [8, 12, 20] {
            let held = (0..TIMES).filter(|_| {
                let values: Vec<f64> = (0..n).map(|_| 2.0 + noise(&mut g)).collect();
                let found = trimmed_mean(&values).and_then(|l| l.interval(0.95));
                found.is_some_and(|i| i.holds(2.0))
            });
            let share = held.count() as f64 / TIMES as f64;
            assert!((0.93..=0.97).contains(&share), "{name}, n = {n}: {share}");
        }
    }
}

/// The log ratios of cells to a baseline over blocks, in a random order within each block, while
/// the machine drifts: an AR(1) series of 0.9 with `drift` as its stationary deviation, one step a
/// trial. The baseline is measured `times` times in each block and their mean taken.
fn against_a_baseline(
    g: &mut Generator,
    blocks: usize,
    [cells, times]: [usize; 2],
    [noise, drift]: [f64; 2],
) -> Vec<Vec<f64>> {
    let innovation = drift * (1.0_f64 - 0.81).sqrt();
    let mut level = drift * g.normal();
    let mut ratios = vec![Vec::with_capacity(blocks); cells];
    let mut order: Vec<usize> = (0..cells + times).collect();
    for _ in 0..blocks {
        let mut values = vec![0.0; cells + times];
        g.shuffle(&mut order);
        for &index in &order {
            level = 0.9 * level + innovation * g.normal();
            values[index] = level + noise * g.normal();
        }
        let base = values[cells..].iter().sum::<f64>() / times as f64;
        for (row, value) in ratios.iter_mut().zip(&values) {
            row.push(value - base);
        }
    }
    ratios
}

#[test]
fn two_equal_cells_are_told_apart_no_more_often_than_promised() {
    const TIMES: usize = 20_000;
    let mut g = Generator::new(12);
    for blocks in [8, 12, 20] {
        let alarm = |_: &usize| {
            let differences = against_a_baseline(&mut g, blocks, [1, 1], [0.02, 0.10]);
            trimmed_mean(&differences[0]).and_then(|l| l.p_value(0.0)) < Some(0.05)
        };
        let share = (0..TIMES).filter(alarm).count() as f64 / TIMES as f64;
        let most = 0.05 + slack(0.05, TIMES);
        // A test that sees nothing has fewer.
        assert!((0.02..=most).contains(&share), "{blocks} blocks: {share}");
    }
}

#[test]
fn a_family_of_equal_cells_raises_one_alarm_in_twenty_at_most() {
    const TIMES: usize = 6_000;
    const CELLS: usize = 48;
    let mut g = Generator::new(13);
    for blocks in [10, 20] {
        let mut corrected = 0;
        let mut uncorrected = 0;
        for _ in 0..TIMES {
            let p_values: Vec<f64> = (0..CELLS)
                .filter_map(|_| {
                    let values: Vec<f64> = (0..blocks).map(|_| g.normal()).collect();
                    trimmed_mean(&values)?.p_value(0.0)
                })
                .collect();
            assert_eq!(p_values.len(), CELLS);
            corrected += usize::from(holm(&p_values).iter().any(|p| *p < 0.05));
            uncorrected += usize::from(p_values.iter().any(|p| *p < 0.05));
        }
        let share = corrected as f64 / TIMES as f64;
        let most = 0.05 + slack(0.05, TIMES);
        assert!(share <= most, "{blocks} blocks: {share}");
        assert!(uncorrected as f64 / TIMES as f64 > 0.8);
    }
}

#[test]
fn a_planted_difference_of_five_percent_is_found() {
    const TIMES: usize = 1_000;
    let mut g = Generator::new(14);
    let is_found = |_: &usize| {
        let mut differences = against_a_baseline(&mut g, 20, [1, 1], [0.03, 0.02]).remove(0);
        differences.iter_mut().for_each(|d| *d += 1.05_f64.ln());
        let location = trimmed_mean(&differences).expect("twenty values");
        location.value > 0.0 && location.p_value(0.0) < Some(0.05)
    };
    let found = (0..TIMES).filter(is_found).count();
    assert!(found * 100 >= TIMES * 95, "{found} of {TIMES}");
}

/// The share of runs that find a difference in so many blocks, where the deviation that another run of
/// `known` blocks has shown chooses both.
fn found(g: &mut Generator, known: usize, alpha: f64, choose: impl Fn(f64) -> (usize, f64)) -> f64 {
    const TIMES: usize = 4_000;
    let mut run = |blocks: usize, effect: f64| {
        let values: Vec<f64> = (0..blocks).map(|_| effect + g.normal()).collect();
        trimmed_mean(&values).expect("values")
    };
    let found = (0..TIMES).filter(|_| {
        let (blocks, effect) = choose(run(known, 0.0).deviation());
        let location = run(blocks, effect);
        location.value > 0.0 && location.p_value(0.0) < Some(alpha)
    });
    found.count() as f64 / TIMES as f64
}

#[test]
fn the_detectable_difference_is_detected_four_times_in_five() {
    let mut g = Generator::new(15);
    // Alone, and as the first of the comparisons of a study that are corrected together.
    let alone = [5, 8, 12, 20, 60].map(|blocks| (blocks, 1));
    for (blocks, family) in alone.into_iter().chain([(12, 48), (21, 70)]) {
        let alpha = 0.05 / f64::from(family);
        let unit = smallest_detectable(1.0, blocks, alpha).expect("an effect");
        let share = found(&mut g, blocks, alpha, |deviation| {
            (blocks, unit * deviation)
        });
        let message = format!("{blocks}, {family}: {share}");
        assert!((0.76..=0.84).contains(&share), "{message}");
        let promised = power(1.0, blocks, blocks, unit, alpha).expect("a power");
        assert!((promised - 0.8).abs() < 0.01, "{blocks}: {promised}");
    }
}

#[test]
fn the_blocks_needed_find_the_difference_four_times_in_five() {
    let mut g = Generator::new(31);
    for (known, family) in [(12, 1.0), (21, 70.0)] {
        let alpha = 0.05 / family;
        let share = found(&mut g, known, alpha, |deviation| {
            // Of what the run so far has shown of the noise, a difference of two thirds.
            let effect = 0.66 * deviation;
            let needed = blocks_needed(deviation, known, effect, alpha, 10_000);
            (needed.expect("a count"), effect)
        });
        assert!((0.76..=0.84).contains(&share), "{known}: {share}");
    }
}

/// `RatioVariation::deviation` of eight blocks.
#[test]
fn a_deviation_that_is_taken_for_the_truth_keeps_less_than_it_promises() {
    // The 97.5 % and the 80 % quantile of t with the four degrees of eight blocks.
    let usual = (2.776 + 0.941) / 8_f64.sqrt();
    let share = found(&mut Generator::new(16), 8, 0.05, |deviation| {
        (8, usual * deviation)
    });
    assert!((share - 0.69).abs() < 0.02, "{share}");
}

#[test]
fn a_difference_is_found_as_often_as_its_power_says() {
    let mut g = Generator::new(21);
    for (blocks, deviations, alpha) in [(16, 0.6, 0.0125), (16, 1.0, 0.0125), (24, 0.3, 0.05)] {
        // As many deviations of a run as are asked: the same power, whatever the run has shown.
        let promised = power(1.0, blocks, blocks, deviations, alpha).expect("a power");
        let share = found(&mut g, blocks, alpha, |deviation| {
            (blocks, deviations * deviation)
        });
        let apart = (share - promised).abs();
        assert!(apart < 0.03, "{share}, promised {promised}");
    }
}

#[test]
fn a_baseline_and_its_twin_keep_every_promise_with_a_quarter_less_variance() {
    const TIMES: usize = 4_000;
    const CELLS: usize = 6;
    let mut g = Generator::new(22);
    for blocks in [8, 16] {
        let (mut held, mut single, mut families) = (0, 0, 0);
        for _ in 0..TIMES {
            let logs = against_a_baseline(&mut g, blocks, [CELLS, 2], [0.04, 0.046]);
            let found: Vec<Location> = logs.iter().filter_map(|v| trimmed_mean(v)).collect();
            let p: Vec<f64> = found.iter().filter_map(|l| l.p_value(0.0)).collect();
            assert_eq!(p.len(), CELLS);
            let holds = |l: &&Location| l.interval(0.95).is_some_and(|i| i.holds(0.0));
            held += found.iter().filter(holds).count();
            single += usize::from(p[0] < 0.05);
            families += usize::from(holm(&p).iter().any(|p| *p < 0.05));
        }
        let of = |count: usize, all: usize| count as f64 / all as f64;
        let covered = of(held, TIMES * CELLS);
        assert!((0.94..=0.97).contains(&covered), "{blocks}: {covered}");
        let most = 0.05 + slack(0.05, TIMES);
        let single = of(single, TIMES);
        assert!((0.02..=most).contains(&single), "{blocks}: {single}");
        let family = of(families, TIMES);
        assert!(family <= most, "{blocks} blocks: {family}");
    }
    let spread = |times, generator: &mut Generator| {
        let all = against_a_baseline(generator, 40_000, [1, times], [0.04, 0.046]);
        variance(&all[0]).expect("values")
    };
    let share = spread(2, &mut g) / spread(1, &mut g);
    // Drift within a block is shared too, so that the gain is a little less than a quarter.
    assert!((0.72..=0.82).contains(&share), "{share}");
}

#[test]
fn a_trend_is_seen_where_there_is_one() {
    const TIMES: usize = 4_000;
    let mut g = Generator::new(16);
    let mut seen = |slope: f64| {
        let hits = (0..TIMES).filter(|_| {
            let values: Vec<f64> = (0..12).map(|i| slope * f64::from(i) + g.normal()).collect();
            mann_kendall(&values).is_some_and(|t| t.p < 0.05)
        });
        hits.count() as f64 / TIMES as f64
    };
    assert!(seen(0.0) <= 0.05 + slack(0.05, TIMES));
    assert!(seen(0.5) > 0.95);
}

/// A trial of a hundred times that are spread around its level, all of them `stall` times as long
/// in a share of the trials.
fn times(g: &mut Generator, level: f64, stalls: f64, stall: f64) -> Distribution {
    let stalled = (g.below(10_000) as f64) < 1e4 * stalls;
    let level = level + 0.05 * g.normal() + if stalled { stall.ln() } else { 0.0 };
    let mut values: Vec<f64> = (0..100).map(|_| (level + 0.3 * g.normal()).exp()).collect();
    values.sort_unstable_by(f64::total_cmp);
    values.dedup();
    Distribution::from_counts(values.into_iter().map(|v| (v, 1))).expect("values")
}

/// The ratio of one way's tail to that of another, by their trials in each block.
fn ratio(trials: &[[Distribution; 2]], share: f64) -> TestedLocation {
    let pairs: Vec<_> = trials.iter().map(|[a, b]| [vec![a], vec![b]]).collect();
    tail_ratio(&pairs, share, 0.95).expect("a ratio")
}

/// Of `runs`: how often the interval of a ratio of 1 holds it, and how often it is called different.
fn alike(blocks: usize, share: f64, stalls: f64, runs: usize) -> (f64, f64) {
    let mut g = Generator::new(41);
    let (mut held, mut different) = (0, 0);
    for _ in 0..runs {
        let trials: Vec<[Distribution; 2]> = (0..blocks)
            .map(|_| {
                let block = 0.1 * g.normal();
                [0, 1].map(|_| times(&mut g, block, stalls, 100.0))
            })
            .collect();
        let TestedLocation { interval, p, .. } = ratio(&trials, share);
        held += usize::from(interval.holds(0.0));
        different += usize::from(p < 0.05);
    }
    [held, different].map(|n| n as f64 / runs as f64).into()
}

#[test]
fn equal_tails_come_out_equal_at_the_promised_rate() {
    for (blocks, share, stalls) in [
        (8, 0.99, 0.0),
        (21, 0.9, 0.0),
        (21, 0.99, 0.0),
        (21, 0.99, 0.15),
        (12, 0.999, 0.05),
    ] {
        let (held, different) = alike(blocks, share, stalls, 400);
        let message = format!("{blocks} blocks, {share}, {stalls}: {held} {different}");
        assert!(held >= 0.92 && different <= 0.07, "{message}");
    }
}

#[test]
fn a_stall_in_some_trials_is_in_the_tail_and_no_trimming_hides_it() {
    let mut g = Generator::new(42);
    let (mut same, mut seen) = (0, 0);
    for _ in 0..100 {
        let trials: Vec<[Distribution; 2]> = (0..20)
            .map(|_| [(0.15, 100.0), (0.0, 1.0)].map(|(s, by)| times(&mut g, 0.0, s, by)))
            .collect();
        let TestedLocation {
            location, interval, ..
        } = ratio(&trials, 0.99);
        same += usize::from(interval.low > -0.05 && interval.high < 0.05);
        seen += usize::from(location.value > 50_f64.ln());
    }
    assert_eq!(same, 0);
    assert!(seen >= 90, "{seen}");
}

#[test]
fn a_slower_tail_is_found_with_its_ratio() {
    let mut g = Generator::new(43);
    let trials: Vec<[Distribution; 2]> = (0..16)
        .map(|_| {
            let block = 0.1 * g.normal();
            [0.4, 0.0].map(|more| times(&mut g, block + more, 0.0, 1.0))
        })
        .collect();
    let TestedLocation {
        location,
        interval,
        p,
    } = ratio(&trials, 0.99);
    assert!(interval.holds(0.4) && p < 0.01, "{location:?} {p}");
    // It is the ratio of the two quantiles.
    let [other, base] = [0, 1].map(|way| {
        let own: Vec<_> = trials.iter().map(|pair| vec![&pair[way]]).collect();
        let (quantile, bounds) = tail_quantile(&own, 0.99, 0.95).expect("a quantile");
        assert!(bounds.holds(quantile.value) && bounds.half_width() < 0.3);
        quantile.value
    });
    assert!((other - base - location.value).abs() < 1e-6);
}

#[test]
fn tails_of_few_values_are_told_apart_too() {
    let at = |value: f64| Distribution::from_counts([(value, 100)]).expect("values");
    let trials: Vec<[Distribution; 2]> = (0..8).map(|_| [at(25.0), at(100.0)]).collect();
    let TestedLocation {
        location,
        interval,
        p,
    } = ratio(&trials, 0.99);
    let held = interval.holds(0.25_f64.ln());
    assert!(p < 1e-6 && held, "{location:?} {p}");
    assert!(interval.half_width() < 0.01, "{interval:?}");
}

#[test]
fn distributions_are_of_rising_values() {
    let of = |values: &[(f64, u64)]| Distribution::from_counts(values.iter().copied());
    assert!(of(&[(1.0, 2), (3.0, 1)]).is_some());
    for wrong in [
        &[][..],
        &[(1.0, 0)],
        &[(2.0, 1), (1.0, 1)],
        &[(f64::NAN, 1)],
        &[(0.0, 1)],
    ] {
        assert_eq!(of(wrong), None);
    }
    let one = of(&[(1.0, 2), (3.0, 1)]).expect("values");
    assert_eq!(tail_quantile(&[vec![&one], vec![&one]], 0.5, 0.95), None);
    let three = [vec![&one], vec![&one], Vec::new()];
    assert_eq!(tail_quantile(&three, 0.5, 0.95), None);
}
