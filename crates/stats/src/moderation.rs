//! Variances that comparisons of one kind lend each other: empirical Bayes.

use statrs::distribution::{ContinuousCDF, FisherSnedecor};
use statrs::function::gamma::digamma;

use crate::halving::halved;
use crate::location::Location;
use crate::spread::{mean, median, variance};

/// Fewest comparisons that say something of the variance of another one.
const FEWEST: usize = 4;

/// The most weight of the other comparisons in a variance, over that of its own blocks.
///
/// Comparisons share their baseline. With equal noise a quarter of each variance is the baseline's,
/// so that all of them together never have more than four times the degrees of one.
pub(crate) const MOST_LENT: f64 = 3.0;

/// The part of the scatter of variances that is each comparison's own chance: the rest they share
/// by their baseline, where it makes them look more alike than they are.
const OWN_CHANCE: f64 = 0.75;

/// The probability below which a variance counts as foreign to the distribution of the others, so that it
/// lends nothing.
const FOREIGN: f64 = 0.01;

/// Robust deviations on a log scale beyond which a variance says nothing
/// of the others: that of a comparison which stalled.
const FAR: f64 = 4.0;

/// The prior of a variance, from the variances of all comparisons of one kind.
///
/// Smyth, "Linear models and empirical Bayes methods for assessing differential expression in
/// microarray experiments" (Statistical Applications in Genetics and Molecular Biology 3, 2004):
/// true variances vary like a scaled inverse chi square, whose scale and degrees are fitted by the
/// moments of the logarithms of those that were found. Where these agree no better than chance
/// explains, each has the variance of all; where they do not, each keeps its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moderation {
    /// The variance of one block's value that is typical of the comparisons.
    pub variance: f64,
    /// Its degrees of freedom.
    pub degrees: f64,
}

impl Moderation {
    /// From all comparisons of one kind; `None` where fewer than four of them have a spread, and
    /// where they have nothing in common.
    pub fn fit(locations: &[Location]) -> Option<Moderation> {
        let usable = |l: &&Location| l.standard_error > 0.0 && l.degrees > 0.0;
        let known = without_far(locations.iter().filter(usable).collect());
        if known.len() < FEWEST {
            return None;
        }
        let halves: Vec<f64> = known.iter().map(|l| l.degrees / 2.0).collect();
        let log =
            |(l, half): (&&Location, &f64)| 2.0 * l.deviation().ln() - digamma(*half) + half.ln();
        let logs: Vec<f64> = known.iter().zip(&halves).map(log).collect();
        let chance = mean(&halves.iter().map(|h| trigamma(*h)).collect::<Vec<f64>>())?;
        let apart = variance(&logs)? - OWN_CHANCE * chance;
        // Few comparisons know little of how alike they are.
        let others = (known.len() - 1) as f64 / FEWEST as f64;
        let most = MOST_LENT.min(others) * 2.0 * median(&halves)?;
        let degrees = degrees_of(apart, most);
        let half = degrees / 2.0;
        Some(Moderation {
            variance: (mean(&logs)? + digamma(half) - half.ln()).exp(),
            degrees,
        })
        .filter(|m| m.variance.is_finite() && m.variance > 0.0)
    }

    /// A location with the variance that its own blocks and the other comparisons give together.
    ///
    /// Its value stays. One without any spread stays as it is, and so does one that varies more
    /// than the others let expect: it would come out too sure.
    pub fn moderate(&self, location: Location) -> Location {
        let own = location.deviation().powi(2);
        let degrees = location.degrees + self.degrees;
        let is_foreign = || {
            let among = FisherSnedecor::new(location.degrees, self.degrees);
            among.is_ok_and(|f| f.sf(own / self.variance) < FOREIGN)
        };
        if own <= 0.0 || location.degrees <= 0.0 || is_foreign() {
            return location;
        }
        let both = (location.degrees * own + self.degrees * self.variance) / degrees;
        Location {
            standard_error: (both / location.count as f64).sqrt(),
            degrees,
            lent: self.degrees,
            ..location
        }
    }
}

/// Those whose variance is not far beyond the others'.
fn without_far(mut all: Vec<&Location>) -> Vec<&Location> {
    let log = |l: &Location| l.deviation().ln();
    let logs: Vec<f64> = all.iter().map(|l| log(l)).collect();
    let Some(middle) = median(&logs) else {
        return all;
    };
    let apart: Vec<f64> = logs.iter().map(|l| (l - middle).abs()).collect();
    // The median of normal values' distances, as a share of their deviation.
    let deviation = median(&apart).unwrap_or(0.0) / 0.6745;
    all.retain(|l| deviation == 0.0 || log(l) <= middle + FAR * deviation);
    all
}

/// The degrees whose inverse chi square has so much variance on a log scale, `most` at most.
fn degrees_of(log_variance: f64, most: f64) -> f64 {
    let is_few = |degrees: f64| trigamma(degrees / 2.0) > log_variance;
    halved((1e-3, most.max(1e-3)), 60, is_few).1
}

/// The derivative of the digamma function, of a positive number: by recurrence up to where the
/// asymptotic series holds (Abramowitz and Stegun, "Handbook of Mathematical Functions", 6.4.6 and
/// 6.4.12).
fn trigamma(mut x: f64) -> f64 {
    let mut sum = 0.0;
    while x < 10.0 {
        sum += 1.0 / (x * x);
        x += 1.0;
    }
    let square = 1.0 / (x * x);
    let series = 1.0 / 6.0 - square * (1.0 / 30.0 - square * (1.0 / 42.0 - square / 30.0));
    sum + 1.0 / x + square / 2.0 + series * square / x
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trigamma_has_its_known_values() {
        let sixth = std::f64::consts::PI.powi(2) / 6.0;
        for (x, known) in [(1.0, sixth), (0.5, 3.0 * sixth), (2.0, sixth - 1.0)] {
            assert!((trigamma(x) - known).abs() < 1e-12, "{x}");
        }
    }

    #[test]
    fn degrees_are_found_again() {
        for degrees in [0.5, 3.0, 20.0] {
            let found = degrees_of(trigamma(degrees / 2.0), 100.0);
            assert!((found - degrees).abs() < 1e-9, "{degrees} {found}");
        }
        assert_eq!(degrees_of(-1.0, 12.0), 12.0);
    }
}
