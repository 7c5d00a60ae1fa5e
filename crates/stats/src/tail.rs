//! Tails: quantiles of all values of several trials together, with intervals over blocks.
//!
//! A trimmed mean of the trials' own quantiles leaves out just those trials that make the tail. Here
//! each trial has the same weight, however many values it has, and a quantile is that of all values
//! together. Its interval inverts a test (Woodruff, "Confidence intervals for medians and other position
//! measures", Journal of the American Statistical Association 47, 1952): it holds each value for which
//! the share of larger values does not differ from the quantile's (0.01 for the 99th percentile) by more
//! than its variation between blocks explains.

use crate::distribution::{t_quantile, t_two_sided_p};
use crate::halving::halved;
use crate::location::{BetweenRounds, Interval, Location, student_mean};
use crate::spread::mean;

/// The width of a bin of recorded values, as a share of the value: they have three digits.
const STEP: f64 = 1e-3;
/// Halvings of a range in a bisection: to less than 10⁻¹² of its width.
const HALVES: usize = 40;

/// The cumulative distribution of a trial's values: each value with the share of values up to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution(Vec<(f64, f64)>);

impl Distribution {
    /// Builds a distribution from rising values above zero, each with the number of its occurrences.
    ///
    /// `None` without values, and for values that are not finite, not above zero or do not rise.
    pub fn from_counts(counts: impl IntoIterator<Item = (f64, u64)>) -> Option<Distribution> {
        let mut all = 0.0;
        let mut steps = Vec::new();
        for (value, count) in counts {
            let rises = steps.last().is_none_or(|(last, _)| *last < value);
            if !rises || !value.is_finite() || value <= 0.0 {
                return None;
            }
            all += count as f64;
            steps.push((value, all));
        }
        steps.iter_mut().for_each(|(_, sum)| *sum /= all);
        (all > 0.0).then_some(Distribution(steps))
    }

    /// The share of the values that are larger than `value`. Those that are recorded as one value are
    /// taken to lie evenly in a bin that ends at it.
    fn beyond(&self, value: f64) -> f64 {
        let at = self.0.partition_point(|(v, _)| *v <= value);
        let (before, below) = at.checked_sub(1).map_or((0.0, 0.0), |last| self.0[last]);
        let Some((next, up_to)) = self.0.get(at) else {
            return 0.0;
        };
        let begins = before.max(next * (1.0 - STEP));
        let part = ((next - value) / (next - begins)).min(1.0);
        1.0 - up_to + part * (up_to - below)
    }

    /// The least and the greatest value.
    fn ends(&self) -> (f64, f64) {
        let value_of = |step: Option<&(f64, f64)>| step.map_or(1.0, |(value, _)| *value);
        (value_of(self.0.first()), value_of(self.0.last()))
    }
}

/// The trials of one way in one block: usually one.
pub type BlockTrials<'d> = Vec<&'d Distribution>;

/// The mean of the trials' shares beyond a value.
fn beyond(trials: &[&Distribution], value: f64) -> f64 {
    trials.iter().map(|t| t.beyond(value)).sum::<f64>() / trials.len().max(1) as f64
}

/// The logarithms of the least and the greatest of all values.
fn range<'d>(trials: impl Iterator<Item = &'d &'d Distribution>) -> Option<(f64, f64)> {
    let ends = trials.map(|t| t.ends());
    let (low, high) = ends.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))?;
    // A little beyond, so that each end has all values on one side.
    Some((low.ln() - 2.0 * STEP, high.ln() + STEP))
}

/// The point of a range up to which a condition holds.
fn bisect(range: (f64, f64), holds: impl Fn(f64) -> bool) -> f64 {
    let (low, high) = halved(range, HALVES, holds);
    (low + high) / 2.0
}

/// Student's t statistic of differences: the distance of their mean from zero, in standard errors.
fn statistic(differences: &[f64]) -> f64 {
    match student_mean(differences) {
        Some(l) if l.standard_error > 0.0 => l.value / l.standard_error,
        Some(l) if l.value != 0.0 => f64::INFINITY.copysign(l.value),
        _ => 0.0,
    }
}

/// The logarithm of a quantile of all values of some blocks, with its interval.
///
/// `share` is 0.99 for the 99th percentile, and `level` 0.95 for a 95 % interval. `None` for fewer than
/// three blocks, a block without trials, a share or a level that is not between 0 and 1.
pub fn tail_quantile(
    blocks: &[BlockTrials<'_>],
    share: f64,
    level: f64,
) -> Option<(Location, Interval)> {
    let critical = critical(blocks.len(), share, level)?;
    if blocks.iter().any(Vec::is_empty) {
        return None;
    }
    let all = range(blocks.iter().flatten())?;
    let excess = |log: f64| -> Vec<f64> {
        let value = log.exp();
        let block_excess = |trials: &BlockTrials<'_>| beyond(trials, value) - (1.0 - share);
        blocks.iter().map(block_excess).collect()
    };
    let value = bisect(all, |log| mean(&excess(log)).is_some_and(|m| m > 0.0));
    let interval = Interval {
        low: bisect((all.0, value), |log| statistic(&excess(log)) > critical),
        high: bisect((value, all.1), |log| statistic(&excess(log)) >= -critical),
    };
    Some((located(value, interval, blocks.len(), critical), interval))
}

/// A location with its interval, and the two-sided p value of the hypothesis that it is zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TestedLocation {
    /// The location.
    pub location: Location,
    /// Its interval.
    pub interval: Interval,
    /// The p value.
    pub p: f64,
}

/// The logarithm of the ratio of two ways' quantiles, with its interval and the two-sided p value of the
/// hypothesis that the quantiles are equal.
///
/// A block has the trials of a way, then those of the baseline. The test compares the shares of both
/// ways' values beyond the quantile of both together. The interval holds each ratio for which these
/// shares do not differ once the way's values are divided by it; its ends are no larger and no smaller
/// than ratios between single values. `None` as for [`tail_quantile`].
pub fn tail_ratio(
    blocks: &[[BlockTrials<'_>; 2]],
    share: f64,
    level: f64,
) -> Option<TestedLocation> {
    let critical = critical(blocks.len(), share, level)?;
    if blocks.iter().flatten().any(Vec::is_empty) {
        return None;
    }
    let [other, base] = [0, 1].map(|way| range(blocks.iter().flat_map(move |b| &b[way])));
    let (other, base) = (other?, base?);
    // For each block, the difference of the shares beyond the common quantile, once the way's values are
    // divided by the ratio.
    let deltas = |log_ratio: f64| -> Vec<f64> {
        let both = (
            base.0.min(other.0 - log_ratio),
            base.1.max(other.1 - log_ratio),
        );
        let shares = |log: f64| {
            let (at_other, at_base) = ((log + log_ratio).exp(), log.exp());
            let both_shares =
                move |b: &[BlockTrials<'_>; 2]| [beyond(&b[0], at_other), beyond(&b[1], at_base)];
            blocks.iter().map(both_shares)
        };
        let most = 2.0 * (1.0 - share) * blocks.len() as f64;
        let at = bisect(both, |log| shares(log).flatten().sum::<f64>() > most);
        shares(at)
            .map(|[of_other, of_base]| of_other - of_base)
            .collect()
    };
    let quantile = |way: usize, all| {
        let most = (1.0 - share) * blocks.len() as f64;
        let sum = |log: f64| -> f64 { blocks.iter().map(|b| beyond(&b[way], log.exp())).sum() };
        bisect(all, |log| sum(log) > most)
    };
    let value = quantile(0, other) - quantile(1, base);
    let widest = (other.0 - base.1, other.1 - base.0);
    let interval = Interval {
        low: bisect((widest.0, value), |log| statistic(&deltas(log)) > critical),
        high: bisect((value, widest.1), |log| {
            statistic(&deltas(log)) >= -critical
        }),
    };
    let p = t_two_sided_p(statistic(&deltas(0.0)), (blocks.len() - 1) as f64)?;
    Some(TestedLocation {
        location: located(value, interval, blocks.len(), critical),
        interval,
        p,
    })
}

/// The result of [`tail_ratio`] as it holds at other times too: widened by a variance between rounds,
/// divided by the number of rounds. Each side of the interval is widened separately.
pub fn tail_with_rounds(
    within: TestedLocation,
    (between, rounds): (BetweenRounds, usize),
    level: f64,
) -> Option<TestedLocation> {
    let TestedLocation {
        location,
        interval,
        p,
    } = within;
    let wide = location.with_rounds(between, rounds);
    if wide == location {
        return Some(within);
    }
    let critical_within = t_quantile(0.5 + level / 2.0, location.degrees)?;
    let critical = t_quantile(0.5 + level / 2.0, wide.degrees)?;
    let extra = between.variance / rounds.max(1) as f64;
    // More degrees of freedom could make a long side shorter: it stays as it is.
    let widened =
        |side: f64| side.max(critical * ((side / critical_within).powi(2) + extra).sqrt());
    let low = location.value - widened(location.value - interval.low);
    let high = location.value + widened(interval.high - location.value);
    // The standard error with which Student's t gives the p value of the test.
    let distance = location.value.abs();
    let statistic = t_quantile(1.0 - p / 2.0, location.degrees);
    let error = statistic.map_or(0.0, |t| distance / t);
    let wide_p = t_two_sided_p(distance / (error.powi(2) + extra).sqrt(), wide.degrees);
    Some(TestedLocation {
        location: wide,
        interval: Interval { low, high },
        p: wide_p.unwrap_or(1.0),
    })
}

/// The critical value of Student's t for an interval; none where the arguments are out of bounds.
fn critical(blocks: usize, share: f64, level: f64) -> Option<f64> {
    let fits = blocks >= 3 && share > 0.0 && share < 1.0 && level > 0.0;
    fits.then(|| t_quantile(0.5 + level / 2.0, (blocks - 1) as f64))?
}

/// The location whose standard error gives a Student's t interval of the same width.
fn located(value: f64, interval: Interval, count: usize, critical: f64) -> Location {
    Location {
        value,
        standard_error: interval.half_width() / critical,
        degrees: (count - 1) as f64,
        count,
        lent: 0.0,
    }
}
