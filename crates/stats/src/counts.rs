//! Confidence intervals of the expected number of chance events, from their count.

use statrs::distribution::{Beta, ChiSquared, ContinuousCDF};

/// The chance that at least `count` of `of` independent events happen, each of probability
/// `rate`. 0 where there are more than `of`, or where `rate` is no probability.
pub fn at_least(count: u64, of: u64, rate: f64) -> f64 {
    if count == 0 {
        return 1.0;
    }
    let tail = (count <= of && (0.0..=1.0).contains(&rate))
        .then(|| Beta::new(count as f64, (of - count + 1) as f64).ok());
    tail.flatten().map_or(0.0, |beta| beta.cdf(rate))
}

/// The exact interval of a share of which `count` of `of` were counted (Clopper and Pearson,
/// Biometrika 1934): it covers the true share at least at `level`. From 0 to 1 where nothing was
/// counted, or where `level` is not between 0 and 1.
pub fn share_interval(count: u64, of: u64, level: f64) -> (f64, f64) {
    let tail = (1.0 - level) / 2.0;
    let quantile = |a: u64, b: u64, p: f64| {
        let fits = a > 0 && b > 0 && p > 0.0 && p < 1.0;
        let beta = fits.then(|| Beta::new(a as f64, b as f64).ok()).flatten()?;
        Some(beta.inverse_cdf(p))
    };
    let missing = of.saturating_sub(count);
    let low = quantile(count, missing + 1, tail);
    let high = quantile(count + 1, missing, 1.0 - tail);
    (low.unwrap_or(0.0), high.unwrap_or(1.0))
}

/// The exact interval of a Poisson count (Garwood, "Fiducial limits for the Poisson
/// distribution", Biometrika 1936): it covers the true mean at least at `level`, for example
/// 0.95. The whole line where `level` is not between 0 and 1.
pub fn poisson_interval(count: u64, level: f64) -> (f64, f64) {
    let tail = (1.0 - level) / 2.0;
    let quantile = |degrees: f64, p: f64| {
        ChiSquared::new(degrees)
            .ok()
            .filter(|_| p > 0.0 && p < 1.0)
            .map(|chi| chi.inverse_cdf(p) / 2.0)
    };
    let count = count as f64;
    let low = if count == 0.0 {
        Some(0.0)
    } else {
        quantile(2.0 * count, tail)
    };
    let high = quantile(2.0 * count + 2.0, 1.0 - tail);
    (low.unwrap_or(0.0), high.unwrap_or(f64::INFINITY))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Generator;

    #[test]
    fn the_interval_is_the_tabulated_one() {
        // Values of R's poisson.test(x)$conf.int.
        for (count, low, high) in [
            (0, 0.0, 3.688_879),
            (1, 0.025_318, 5.571_643),
            (10, 4.795_389, 18.390_356),
            (100, 81.363_51, 121.627_3),
            (1_000, 938.973_8, 1_063.957_6),
        ] {
            let found = poisson_interval(count, 0.95);
            let is_low = (found.0 - low).abs() < low * 1e-4 + 1e-9;
            let is_high = (found.1 - high).abs() < high * 1e-4;
            assert!(is_low && is_high, "{count}: {found:?}");
        }
        assert_eq!(poisson_interval(3, 2.0), (0.0, f64::INFINITY));
    }

    #[test]
    fn shares_and_their_tails_are_the_tabulated_ones() {
        // By sums of the binomial distribution and bisection.
        for (count, of, low, high) in [
            (0, 40, 0.0, 0.088_097),
            (4, 40, 0.027_925, 0.236_637),
            (32, 40, 0.643_522, 0.909_478),
            (40, 40, 0.911_903, 1.0),
        ] {
            let found = share_interval(count, of, 0.95);
            assert!((found.0 - low).abs() < 1e-5, "{count}: {found:?}");
            assert!((found.1 - high).abs() < 1e-5, "{count}: {found:?}");
        }
        assert_eq!(share_interval(0, 0, 0.95), (0.0, 1.0));
        for (count, of, p) in [
            (0, 5, 1.0),
            (1, 1, 0.05),
            (1, 5, 0.226_219),
            (3, 5, 0.001_158),
        ] {
            let apart = (at_least(count, of, 0.05) - p).abs();
            assert!(apart < 1e-6, "{count} of {of}");
        }
        assert_eq!(at_least(6, 5, 0.05), 0.0);
    }

    #[test]
    fn it_covers_the_truth_as_often_as_it_says() {
        let mut random = Generator::new(3);
        let covered = (0..2_000).filter(|_| {
            // Events at exponential distances: a mean of 8 a window.
            let (mut at, mut count) = (0.0, 0_u64);
            loop {
                at += -(1.0 - random.unit()).ln();
                if at > 8.0 {
                    break;
                }
                count += 1;
            }
            let (low, high) = poisson_interval(count, 0.95);
            (low..=high).contains(&8.0)
        });
        let share = covered.count() as f64 / 2_000.0;
        assert!((0.94..=0.99).contains(&share), "{share}");
    }
}
