//! What a number of blocks can see, and how many it takes.

use statrs::distribution::{ChiSquared, ContinuousCDF, Normal};

use crate::distribution::t_quantile;
use crate::location::trimmed_degrees;

/// The smallest true difference that a two-sided 5 % test of [`crate::trimmed_mean`] finds 80 %
/// of the time.
///
/// `deviation` is [`crate::Location::deviation`], `count` the number of blocks. The noncentral t
/// distribution is approximated by the sum of the 97.5 % and the 80 % quantile of the central
/// one. `None` for fewer than two blocks or a deviation that is not finite or negative.
#[must_use]
pub fn smallest_detectable(deviation: f64, count: usize) -> Option<f64> {
    if count < 2 || !deviation.is_finite() || deviation < 0.0 {
        return None;
    }
    let degrees = trimmed_degrees(count);
    let quantiles = t_quantile(0.975, degrees)? + t_quantile(0.8, degrees)?;
    Some(quantiles * deviation / (count as f64).sqrt())
}

/// The chance that a two-sided test of [`crate::trimmed_mean`] at level `alpha` finds a true
/// `difference` and its sign: a noncentral t, as the mean over the spreads that so many blocks may
/// show (the quantiles of chi square in equal steps).
///
/// `None` for fewer than two blocks, a deviation that is not finite and positive, and an `alpha`
/// that is not between 0 and 1.
#[must_use]
pub fn power(deviation: f64, count: usize, difference: f64, alpha: f64) -> Option<f64> {
    const STEPS: usize = 400;
    if count < 2 || !deviation.is_finite() || deviation <= 0.0 {
        return None;
    }
    let degrees = trimmed_degrees(count);
    let critical = t_quantile(1.0 - alpha / 2.0, degrees)?;
    let reach = difference.abs() * (count as f64).sqrt() / deviation;
    let squares = ChiSquared::new(degrees).ok()?;
    let normal = Normal::standard();
    let chances = (0..STEPS).map(|step| {
        let square = squares.inverse_cdf((step as f64 + 0.5) / STEPS as f64);
        normal.cdf(reach - critical * (square / degrees).sqrt())
    });
    Some(chances.sum::<f64>() / STEPS as f64)
}

/// The fewest blocks whose interval of [`crate::trimmed_mean`] at `level` is no wider than
/// `half_width` to each side.
///
/// `deviation` is [`crate::Location::deviation`] so far, `level` such as 0.95. `None` where more
/// than `most` would be needed, where the deviation or the half width is not finite or the latter
/// not positive, and for a level that is not between 0 and 1.
#[must_use]
pub fn blocks_needed(deviation: f64, half_width: f64, level: f64, most: usize) -> Option<usize> {
    let fits = deviation.is_finite() && deviation >= 0.0 && half_width > 0.0 && level > 0.0;
    if !fits || !half_width.is_finite() {
        return None;
    }
    let reaches = |count: usize| {
        t_quantile(0.5 + level / 2.0, trimmed_degrees(count))
            .is_some_and(|t| t * deviation / (count as f64).sqrt() <= half_width)
    };
    // The width is not monotone from one count to the next, since whole values are trimmed; the
    // search by halves may end a few blocks off, which is finer than the deviation is known.
    let (mut low, mut high) = (2, most);
    if high < low || !reaches(high) {
        return None;
    }
    while low < high {
        let middle = low + (high - low) / 2;
        if reaches(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Some(low)
}
