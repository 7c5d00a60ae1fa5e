//! What a number of blocks can see, and how many it takes.

use statrs::distribution::{ChiSquared, ContinuousCDF, Normal};

use crate::distribution::t_quantile;
use crate::location::trimmed_degrees;

/// The smallest true difference that a two-sided 5 % test of [`crate::trimmed_mean`] over as many
/// blocks finds 80 % of the time.
///
/// `deviation` is [`crate::Location::deviation`] of `count` blocks, so it is itself uncertain: with
/// 8 of them, taken for the truth it promises 80 % and keeps 69 %. [`power`] reckons with that; this
/// is its inverse to 2 % from two degrees of freedom on. Without the factor it would be the usual
/// sum of the 97.5 % and the 80 % quantile of t. `None` for fewer than two blocks or a deviation
/// that is not finite or negative.
#[must_use]
pub fn smallest_detectable(deviation: f64, count: usize) -> Option<f64> {
    if count < 2 || !deviation.is_finite() || deviation < 0.0 {
        return None;
    }
    let degrees = trimmed_degrees(count);
    let quantiles = t_quantile(0.975, degrees)? + t_quantile(0.8, degrees)?;
    let uncertain = 1.0 + 0.85 / degrees + 0.8 / (degrees * degrees);
    Some(quantiles * uncertain * deviation / (count as f64).sqrt())
}

/// The chance that a two-sided test of [`crate::trimmed_mean`] at level `alpha` over as many blocks
/// finds a true `difference` and its sign.
///
/// `deviation` is [`crate::Location::deviation`] of `count` blocks. The chance is the mean over the
/// true deviations that fit it, and over those that another run may show: both vary like the root of
/// a chi square over its degrees of freedom, taken at its quantiles in equal steps. `None` for fewer
/// than two blocks, a deviation that is not finite and positive, and an `alpha` that is not between
/// 0 and 1.
#[must_use]
pub fn power(deviation: f64, count: usize, difference: f64, alpha: f64) -> Option<f64> {
    const STEPS: usize = 200;
    if count < 2 || !deviation.is_finite() || deviation <= 0.0 {
        return None;
    }
    let degrees = trimmed_degrees(count);
    let critical = t_quantile(1.0 - alpha / 2.0, degrees)?;
    let reach = difference.abs() * (count as f64).sqrt() / deviation;
    let squares = ChiSquared::new(degrees).ok()?;
    let normal = Normal::standard();
    let spread = |step: usize| {
        let square = squares.inverse_cdf((step as f64 + 0.5) / STEPS as f64);
        (square / degrees).sqrt()
    };
    let spreads: Vec<f64> = (0..STEPS).map(spread).collect();
    let chances = spreads.iter().flat_map(|truth| {
        let shown = spreads.iter();
        shown.map(move |shown| normal.cdf(reach * truth - critical * shown))
    });
    Some(chances.sum::<f64>() / (STEPS * STEPS) as f64)
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
