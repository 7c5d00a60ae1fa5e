//! Whatever comes in, nothing panics, and what comes out keeps its promises.

use bytecost_stats::*;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::RngSeed;

fn everything(values: &[f64]) {
    let _ = (mean(values), variance(values), median(values));
    let _ = lag1_autocorrelation(values);
    for share in [-1.0, 0.0, 0.3, 1.0, f64::NAN] {
        let _ = quantile(values, share);
    }
    let locations = [trimmed_mean(values), student_mean(values)];
    for location in locations.into_iter().flatten() {
        for level in [f64::NAN, -0.5, 0.0, 0.95, 1.0] {
            let _ = location.interval(level);
        }
        let _ = (location.p_value(0.0), location.p_value(f64::NAN));
        let _ = smallest_detectable(location.deviation(), values.len(), 0.05);
        let _ = blocks_needed(location.deviation(), values.len(), 0.01, 0.05, 10_000);
    }
    let _ = mann_kendall(values);
    let _ = holm(values);
}

fn any_number() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => -10.0..10.0_f64,
        2 => Just(0.0),
        6 => select(vec![f64::NAN, f64::INFINITY, f64::MAX, -f64::MAX, f64::MIN_POSITIVE, -0.0]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, rng_seed: RngSeed::Fixed(20_261_121), ..ProptestConfig::default() })]

    #[test]
    fn nothing_panics(values in proptest::collection::vec(any_number(), 0..25)) {
        everything(&values);
    }

    #[test]
    fn no_number_in_gives_no_number_out(
        mut values in proptest::collection::vec(-5.0..5.0_f64, 3..12),
        at in 0..12_usize,
    ) {
        let at = at % values.len();
        values[at] = f64::NAN;
        prop_assert_eq!(trimmed_mean(&values), None);
        prop_assert_eq!(student_mean(&values), None);
        prop_assert_eq!(median(&values), None);
        prop_assert_eq!(mann_kendall(&values), None);
    }

    #[test]
    fn holm_is_monotone_and_bounded(p in proptest::collection::vec(0.0..=1.0_f64, 0..60)) {
        let corrected = holm(&p);
        prop_assert_eq!(corrected.len(), p.len());
        for i in 0..p.len() {
            prop_assert!(corrected[i] >= p[i] && corrected[i] <= 1.0);
            for j in 0..p.len() {
                prop_assert!(p[i] >= p[j] || corrected[i] <= corrected[j]);
            }
        }
    }

    #[test]
    fn estimates_do_not_depend_on_the_order(
        mut values in proptest::collection::vec(-5.0..5.0_f64, 2..30),
        seed in any::<u64>(),
    ) {
        let before = (trimmed_mean(&values), median(&values));
        Generator::new(seed).shuffle(&mut values);
        prop_assert_eq!(before, (trimmed_mean(&values), median(&values)));
    }

    #[test]
    fn the_blocks_needed_suffice(deviation in 0.001..0.5_f64, difference in 0.01..0.4_f64) {
        if let Some(count) = blocks_needed(deviation, 12, difference, 0.05, 10_000) {
            let more = blocks_needed(deviation, 12, difference / 2.0, 0.05, 10_000);
            prop_assert!(more.is_none_or(|m| m >= count));
            let promised = power(deviation, 12, count, difference, 0.05);
            prop_assert!(promised.is_some_and(|p| p >= 0.79));
        } else {
            prop_assert!(deviation / difference > 20.0);
        }
    }
}

#[test]
fn short_and_constant_series_have_their_plain_answers() {
    everything(&[]);
    everything(&[1.0]);
    assert_eq!(trimmed_mean(&[1.0]), None);
    assert_eq!(trimmed_mean_value(&[3.0]), Some(3.0));
    let same = trimmed_mean(&[2.0; 8]).expect("a location");
    let interval = same.interval(0.95).expect("a level");
    assert_eq!((interval.low, interval.high), (2.0, 2.0));
    assert_eq!(same.p_value(2.0), Some(1.0));
    assert_eq!(same.p_value(0.0), Some(0.0));
    assert_eq!(mann_kendall(&[2.0; 8]), None);
    assert_eq!(lag1_autocorrelation(&[2.0; 8]), None);
}

#[test]
fn quantised_readings_do_not_look_exact() {
    let mut values = [1.0; 8];
    values[7] = 1.1;
    let found = trimmed_mean(&values).expect("a location");
    assert_eq!(found.value, 1.0);
    assert!(found.standard_error > 0.0);
}

#[test]
fn a_single_outlier_hardly_moves_the_trimmed_mean() {
    let mut values: Vec<f64> = (0..10).map(|i| 1.0 + 0.01 * f64::from(i)).collect();
    let before = trimmed_mean(&values).expect("a location");
    values[9] = 1e6;
    let after = trimmed_mean(&values).expect("a location");
    assert_eq!(before, after);
}

#[test]
fn blocks_needed_are_told_only_where_they_can_be_had() {
    let check = |deviation, difference, most, expected| {
        let found = blocks_needed(deviation, 8, difference, 0.05, most);
        assert_eq!(found, expected);
    };
    check(0.0, 0.01, 100, Some(2));
    check(0.5, 0.001, 100, None);
    check(f64::NAN, 0.01, 100, None);
    check(0.1, 0.0, 100, None);
    check(0.1, f64::INFINITY, 100, None);
    check(0.1, 0.1, 1, None);
    assert_eq!(blocks_needed(0.1, 8, 0.1, 0.0, 100), None);
    // The corrected level takes more.
    let [one, seventy] =
        [0.05, 0.05 / 70.0].map(|alpha| blocks_needed(0.03, 21, 0.03, alpha, 1000));
    assert!(one.is_some_and(|n| (10..=20).contains(&n)), "{one:?}");
    assert!(seventy > one.map(|n| 3 * n / 2), "{one:?} {seventy:?}");
}
