//! The percentile bootstrap, for what has no formula.

use crate::generator::Generator;
use crate::location::Interval;
use crate::spread::{quantile_of_sorted, sorted, usable};

/// Resamples beyond which nothing is gained.
const MOST_RESAMPLES: usize = 100_000;

/// The percentile bootstrap interval of any statistic (Efron, 1979).
///
/// `statistic` is given `resamples` resamples of `values`, each drawn with replacement by a
/// generator with `seed`, and each of the length of `values`; resamples without a statistic are
/// left out. `None` for fewer than two values, for what is not finite, for fewer than 100 or
/// more than 100,000 resamples, for a level not between 0 and 1, and where more than half of the
/// resamples have no statistic.
pub fn bootstrap_interval(
    values: &[f64],
    level: f64,
    resamples: usize,
    seed: u64,
    statistic: impl Fn(&[f64]) -> Option<f64>,
) -> Option<Interval> {
    let fits = values.len() >= 2
        && usable(values)
        && (100..=MOST_RESAMPLES).contains(&resamples)
        && level > 0.0
        && level < 1.0;
    if !fits {
        return None;
    }
    let mut generator = Generator::new(seed);
    let mut drawn = vec![0.0; values.len()];
    let mut found = Vec::with_capacity(resamples);
    for _ in 0..resamples {
        for slot in &mut drawn {
            *slot = values[generator.below(values.len())];
        }
        found.extend(statistic(&drawn).filter(|s| s.is_finite()));
    }
    if found.len() * 2 < resamples {
        return None;
    }
    let found = sorted(&found);
    Some(Interval {
        low: quantile_of_sorted(&found, 0.5 - level / 2.0),
        high: quantile_of_sorted(&found, 0.5 + level / 2.0),
    })
}
