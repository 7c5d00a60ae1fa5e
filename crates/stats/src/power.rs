//! The smallest difference that a number of blocks shows, and the number that shows a difference.

use statrs::distribution::{ContinuousCDF, Normal};

use crate::distribution::t_quantile;
use crate::halving::least;
use crate::location::{BetweenRounds, Location, Replicates};

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

/// Standard deviations of log ratios: from block to block, and from round to round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RatioVariation {
    /// [`Location::deviation`] of the `known` blocks, so that it is itself uncertain: with 8 of them,
    /// taken for the truth a power of 80 % is 69 %.
    pub deviation: f64,
    /// The blocks that the deviation is known by. What others lend them they lend to more blocks too.
    pub known: Replicates,
    /// The variance between rounds, which more blocks do not lessen; of a mean of several rounds its
    /// part.
    pub between: BetweenRounds,
}

impl RatioVariation {
    /// The noise from block to block alone.
    pub fn within(deviation: f64, known: impl Into<Replicates>) -> RatioVariation {
        RatioVariation {
            deviation,
            known: known.into(),
            between: BetweenRounds::NONE,
        }
    }

    /// The chance that a two-sided test of [`crate::trimmed_mean`] at level `alpha` over as many
    /// blocks finds a true `difference` and its sign.
    ///
    /// It is the mean over the true deviations that fit the known one, and over those that other
    /// blocks may show: both vary like the root of a chi square over its degrees of freedom. `None`
    /// for fewer than two blocks, a deviation that is not finite and positive, and an `alpha` that is
    /// not between 0 and 1.
    pub fn power(&self, blocks: impl Into<Replicates>, difference: f64, alpha: f64) -> Option<f64> {
        let blocks = blocks.into();
        let is_fit = self.deviation.is_finite() && self.deviation > 0.0;
        if blocks.count < 2 || self.known.count < 2 || !is_fit {
            return None;
        }
        let reach = difference.abs() / self.location(blocks, blocks).standard_error;
        Some(self.test(blocks, alpha)?.chance(reach))
    }

    /// The smallest true difference that a two-sided test at level `alpha` over the known blocks
    /// finds 80 % of the time: the inverse of [`RatioVariation::power`].
    ///
    /// `None` for fewer than two blocks, a deviation that is not finite or negative, and an `alpha`
    /// that is not between 0 and 1.
    pub fn smallest_detectable(&self, alpha: f64) -> Option<f64> {
        if self.known.count < 2 || !self.deviation.is_finite() || self.deviation < 0.0 {
            return None;
        }
        let test = self.test(self.known, alpha)?;
        let (mut low, mut high) = (0.0, 1.0);
        while test.chance(high) < POWER {
            (low, high) = (high, 2.0 * high);
            if !high.is_finite() {
                return None;
            }
        }
        while high - low > 1e-3 * high {
            let middle = (low + high) / 2.0;
            if test.chance(middle) < POWER {
                low = middle
            } else {
                high = middle
            }
        }
        Some(high * self.location(self.known, self.known).standard_error)
    }

    /// The fewest blocks in which a two-sided test at level `alpha` finds a true `difference` 80 % of
    /// the time.
    ///
    /// `None` where more than `most` would be needed, or no number is enough; where the deviation or
    /// the difference is not finite or the latter not positive; and for an `alpha` not between 0 and 1.
    pub fn blocks_needed(&self, difference: f64, alpha: f64, most: usize) -> Option<usize> {
        let known = self.known;
        let fits = self.deviation.is_finite() && self.deviation >= 0.0 && difference > 0.0;
        if !fits || !difference.is_finite() {
            return None;
        }
        let is_exact = self.deviation == 0.0 && self.between.variance == 0.0;
        let exact = is_exact && known.count >= 2 && alpha > 0.0 && alpha < 1.0;
        let reaches = |count: usize| {
            let blocks = Replicates { count, ..known };
            exact || (self.power(blocks, difference, alpha)).is_some_and(|p| p >= POWER)
        };
        // The chance is not monotone from one count to the next, since whole values are trimmed; the
        // search by halves may end a few blocks off, which is finer than the deviation is known.
        least(2, most, reaches)
    }

    /// The estimate of so many blocks, whose variance within is known by that of others.
    fn location(&self, blocks: Replicates, known: Replicates) -> Location {
        let within = Location {
            value: 0.0,
            standard_error: self.deviation / (blocks.count as f64).sqrt(),
            degrees: known.degrees(),
            count: blocks.count,
            lent: blocks.lent,
        };
        within.with_rounds(self.between, 1)
    }

    fn test(&self, blocks: Replicates, alpha: f64) -> Option<Test> {
        let shown = self.location(blocks, blocks);
        // The variance between rounds is the same then, so that it varies in truth alone.
        let within = self.deviation.powi(2) / blocks.count as f64;
        let share = if shown.standard_error > 0.0 {
            within / shown.standard_error.powi(2)
        } else {
            1.0
        };
        let critical = t_quantile(1.0 - alpha / 2.0, shown.degrees).filter(|_| alpha > 0.0)?;
        Some(Test {
            critical,
            truth: spreads(self.location(blocks, self.known).degrees),
            shown: spreads(blocks.degrees() / share.powi(2)),
        })
    }
}

/// [`RatioVariation::power`] of what varies from block to block alone.
pub fn power(
    deviation: f64,
    known: impl Into<Replicates>,
    blocks: impl Into<Replicates>,
    difference: f64,
    alpha: f64,
) -> Option<f64> {
    RatioVariation::within(deviation, known).power(blocks, difference, alpha)
}

/// [`RatioVariation::smallest_detectable`] of what varies from block to block alone.
pub fn smallest_detectable(
    deviation: f64,
    blocks: impl Into<Replicates>,
    alpha: f64,
) -> Option<f64> {
    RatioVariation::within(deviation, blocks).smallest_detectable(alpha)
}

/// [`RatioVariation::blocks_needed`] of what varies from block to block alone.
pub fn blocks_needed(
    deviation: f64,
    known: impl Into<Replicates>,
    difference: f64,
    alpha: f64,
    most: usize,
) -> Option<usize> {
    RatioVariation::within(deviation, known).blocks_needed(difference, alpha, most)
}

/// A two-sided test over so many blocks.
struct Test {
    critical: f64,
    /// The deviations that may be true, and those that may be shown, over those that are known.
    truth: Vec<f64>,
    shown: Vec<f64>,
}

impl Test {
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
