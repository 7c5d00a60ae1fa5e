//! What a count of chance events says of their true number.

use statrs::distribution::{ChiSquared, ContinuousCDF};

/// The exact interval of a Poisson count (Garwood, "Fiducial limits for the Poisson
/// distribution", Biometrika 1936): it covers the true mean at least at `level`, for example
/// 0.95. The whole line where `level` is not between 0 and 1.
#[must_use]
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
            assert!(
                (found.0 - low).abs() < low * 1e-4 + 1e-9,
                "{count}: {found:?}"
            );
            assert!((found.1 - high).abs() < high * 1e-4, "{count}: {found:?}");
        }
        assert_eq!(poisson_interval(3, 2.0), (0.0, f64::INFINITY));
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
