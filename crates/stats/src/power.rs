//! What a number of blocks can see, and how many it takes.

use statrs::distribution::{ContinuousCDF, Normal};

use crate::distribution::t_quantile;
use crate::halving::least;
use crate::location::Replicates;

/// The power that is planned for.
pub const POWER: f64 = 0.8;
/// Steps in which a deviation of so many degrees of freedom is spread out: the more there are, the
/// less it varies. With twice as many the chance is another by less than 0.005.
fn steps(degrees: f64) -> usize {
    match degrees {
        few if few < 10.0 => 48,
        some if some < 40.0 => 24,
        _ => 12,
    }
}

/// The smallest true difference that a two-sided test of [`crate::trimmed_mean`] at level `alpha`
/// over as many blocks finds 80 % of the time.
///
/// `deviation` is [`crate::Location::deviation`] of these `blocks`, so it is itself uncertain: with
/// 8 of them, taken for the truth it promises 80 % and keeps 69 %. [`power`] reckons with that; this
/// is its inverse. Whoever corrects for several tests gives the corrected level. `None` for fewer
/// than two blocks, a deviation that is not finite or negative, and an `alpha` that is not between
/// 0 and 1.
pub fn smallest_detectable(
    deviation: f64,
    blocks: impl Into<Replicates>,
    alpha: f64,
) -> Option<f64> {
    let blocks = blocks.into();
    let count = blocks.count;
    if count < 2 || !deviation.is_finite() || deviation < 0.0 {
        return None;
    }
    let test = Test::of(blocks, blocks, alpha)?;
    let (mut low, mut high) = (0.0, 1.0);
    while test.chance(high) < POWER {
        (low, high) = (high, 2.0 * high);
        if !high.is_finite() {
            return None;
        }
    }
    while high - low > 1e-3 * high {
        let middle = (low + high) / 2.0;
        match test.chance(middle) < POWER {
            true => low = middle,
            false => high = middle,
        }
    }
    Some(high * deviation / (count as f64).sqrt())
}

/// The chance that a two-sided test of [`crate::trimmed_mean`] at level `alpha` over as many blocks
/// finds a true `difference` and its sign.
///
/// `deviation` is [`crate::Location::deviation`] of `known` blocks. The chance is the mean over the
/// true deviations that fit it, and over those that other `blocks` may show: both vary like
/// the root of a chi square over its degrees of freedom. `None` for fewer than two blocks, a
/// deviation that is not finite and positive, and an `alpha` that is not between 0 and 1.
pub fn power(
    deviation: f64,
    known: impl Into<Replicates>,
    blocks: impl Into<Replicates>,
    difference: f64,
    alpha: f64,
) -> Option<f64> {
    let (known, blocks) = (known.into(), blocks.into());
    if blocks.count < 2 || known.count < 2 || !deviation.is_finite() || deviation <= 0.0 {
        return None;
    }
    let reach = difference.abs() * (blocks.count as f64).sqrt() / deviation;
    Some(Test::of(known, blocks, alpha)?.chance(reach))
}

/// The fewest blocks in which a two-sided test of [`crate::trimmed_mean`] at level `alpha` finds a
/// true `difference` 80 % of the time.
///
/// `deviation` is [`crate::Location::deviation`] of the `known` blocks so far; what others lend them
/// they lend to more blocks too. `None` where more than `most` would be needed, where the deviation
/// or the difference is not finite or the latter not positive, and for an `alpha` not between 0 and 1.
pub fn blocks_needed(
    deviation: f64,
    known: impl Into<Replicates>,
    difference: f64,
    alpha: f64,
    most: usize,
) -> Option<usize> {
    let known = known.into();
    let fits = deviation.is_finite() && deviation >= 0.0 && difference > 0.0;
    if !fits || !difference.is_finite() {
        return None;
    }
    let reaches = |count: usize| {
        let exact = deviation == 0.0 && known.count >= 2 && alpha > 0.0 && alpha < 1.0;
        let blocks = Replicates { count, ..known };
        exact || power(deviation, known, blocks, difference, alpha).is_some_and(|p| p >= POWER)
    };
    // The chance is not monotone from one count to the next, since whole values are trimmed; the
    // search by halves may end a few blocks off, which is finer than the deviation is known.
    least(2, most, reaches)
}

/// A two-sided test over so many blocks.
struct Test {
    critical: f64,
    /// The deviations that may be true, and those that may be shown, over those that are known.
    truth: Vec<f64>,
    shown: Vec<f64>,
}

impl Test {
    fn of(known: Replicates, blocks: Replicates, alpha: f64) -> Option<Test> {
        let degrees = blocks.degrees();
        Some(Test {
            critical: t_quantile(1.0 - alpha / 2.0, degrees).filter(|_| alpha > 0.0)?,
            truth: spreads(known.degrees()),
            shown: spreads(degrees),
        })
    }

    /// That a difference of so many standard errors is found.
    fn chance(&self, reach: f64) -> f64 {
        let normal = Normal::standard();
        let chances = self.truth.iter().flat_map(|truth| {
            let shown = self.shown.iter();
            shown.map(move |shown| normal.cdf(reach * truth - self.critical * shown))
        });
        chances.sum::<f64>() / (self.truth.len() * self.shown.len()) as f64
    }
}

/// The root of a chi square over its degrees of freedom, at its quantiles in equal steps, after
/// Wilson and Hilferty ("The distribution of chi-square", PNAS 17, 1931).
fn spreads(degrees: f64) -> Vec<f64> {
    let normal = Normal::standard();
    let part = 2.0 / (9.0 * degrees.max(0.5));
    let steps = steps(degrees);
    let spread = |step: usize| {
        let z = normal.inverse_cdf((step as f64 + 0.5) / steps as f64);
        (1.0 - part + z * part.sqrt()).max(0.0).powf(1.5)
    };
    (0..steps).map(spread).collect()
}
