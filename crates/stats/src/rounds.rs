//! The variance between rounds: random effects, comparison by comparison.
//!
//! Blocks of one round share what the machine is like in that minute, so that their scatter knows
//! nothing of how much a ratio differs in another minute.

use crate::location::{BetweenRounds, LEAST_DEGREES, Location, student_mean};
use crate::moderation::{MOST_LENT, Moderation};
use crate::spread::{mean, variance};

/// Fewest rounds of a comparison that have a variance of their own.
pub const FEWEST_ROUNDS: usize = 3;

/// Fewest comparisons that say what is typical of another one.
const FEWEST_COMPARISONS: usize = 4;

/// The most independent comparisons that those of one run are worth: they share the minute and
/// their baseline.
const MOST_INDEPENDENT: f64 = 1.0 + MOST_LENT;

/// A comparison in one round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoundEstimate {
    /// The logarithm of its ratio.
    pub value: f64,
    /// The squared standard error of that within the round.
    pub variance: f64,
    /// Degrees of freedom of that variance.
    pub degrees: f64,
}

impl From<Location> for RoundEstimate {
    fn from(location: Location) -> RoundEstimate {
        RoundEstimate {
            value: location.value,
            variance: location.standard_error.powi(2),
            degrees: location.degrees,
        }
    }
}

/// The variances between rounds of all comparisons of one metric.
#[derive(Clone, Debug, PartialEq)]
pub struct RoundVariances {
    /// The variance to expect of another comparison of the metric; none of fewer than four comparisons.
    pub typical: Option<BetweenRounds>,
    /// The variance of each comparison, in their order; none for one with fewer than three rounds.
    pub comparisons: Vec<Option<BetweenRounds>>,
}

/// The variance of the rounds of one comparison, before those of the others are taken into account.
#[derive(Clone, Copy)]
struct Spread {
    /// The location of the means of rounds, whose deviation has both parts: within and between rounds.
    total: Location,
    /// The mean of the squared standard errors within rounds.
    within: f64,
    /// The variance of that mean.
    within_error: f64,
}

/// The variances between rounds of all comparisons of a metric, each with its rounds.
///
/// Random effects by moments with equal weights (DerSimonian and Kacker, "Random-effects model for
/// meta-analysis of clinical trials: an update", Contemporary Clinical Trials 28, 2007): the variance
/// of the round means less the mean of the variances within. Weights by the latter, as DerSimonian
/// and Laird (Controlled Clinical Trials 7, 1986) have them, would follow the chance of variances
/// that have few degrees of freedom themselves.
///
/// The variance of the round means is shrunk, towards that which the typical τ² lets expect:
/// it varies like a chi square, and is never below zero as the difference is. Shrunk by the mean
/// logarithm of all, as variances within a run are, a family of 35 with three rounds raised a false
/// alarm in 20 % of runs where few comparisons vary much; by their mean in 0 to 4 %.
///
/// Of fewer than four comparisons nothing is typical. Their own variance has as few as one degree of
/// freedom, so that it is joined with the `assumed` one, which stands alone without earlier rounds: rounds
/// that are known never say less than none.
pub fn between_rounds(
    comparisons: &[Vec<RoundEstimate>],
    assumed: BetweenRounds,
) -> RoundVariances {
    let spreads: Vec<Option<Spread>> = comparisons.iter().map(|c| Spread::new(c)).collect();
    let known: Vec<Spread> = spreads.iter().flatten().copied().collect();
    let typical = typical(&known);
    let shrunk = |spread: Spread| match typical {
        Some(typical) => spread.between(spread.shrunk(typical)),
        None => spread.joined(assumed),
    };
    RoundVariances {
        typical,
        comparisons: spreads.into_iter().map(|s| s.map(shrunk)).collect(),
    }
}

impl Spread {
    fn new(rounds: &[RoundEstimate]) -> Option<Spread> {
        if rounds.len() < FEWEST_ROUNDS {
            return None;
        }
        let values: Vec<f64> = rounds.iter().map(|r| r.value).collect();
        let variances: Vec<f64> = rounds.iter().map(|r| r.variance).collect();
        let square = |r: &RoundEstimate| 2.0 * r.variance.powi(2) / r.degrees.max(1.0);
        let errors: f64 = rounds.iter().map(square).sum();
        Some(Spread {
            total: student_mean(&values)?,
            within: mean(&variances)?,
            within_error: errors / (rounds.len() as f64).powi(2),
        })
    }

    /// The round means with the total variance that they and what is typical give together.
    fn shrunk(&self, typical: BetweenRounds) -> Location {
        let expected = self.within + typical.variance;
        let degrees = typical.degrees * (expected / typical.variance).powi(2);
        let prior = Moderation {
            variance: expected,
            degrees: degrees.min(MOST_LENT * self.total.degrees),
        };
        prior.moderate(self.total)
    }

    /// The variance between rounds: a total variance less that within them, with the degrees of freedom of the
    /// difference.
    fn between(&self, total: Location) -> BetweenRounds {
        let whole = total.deviation().powi(2);
        let variance = (whole - self.within).max(0.0);
        let error = 2.0 * whole.powi(2) / total.degrees + self.within_error;
        BetweenRounds {
            variance,
            degrees: degrees(variance, error).min(total.degrees),
        }
    }

    /// The mean of the assumed variance between rounds and of that of these rounds, each weighted by its
    /// degrees of freedom: those that these rounds have where the assumed variance is the true one. Where they
    /// vary more than is assumed, the variance is their own: the mean holds too little on such machines.
    fn joined(&self, assumed: BetweenRounds) -> BetweenRounds {
        let whole = self.within + assumed.variance;
        let error = 2.0 * whole.powi(2) / self.total.degrees + self.within_error;
        let own = 2.0 * assumed.variance.powi(2) / error;
        let sum = assumed.degrees * assumed.variance + own * self.unclipped();
        let degrees = assumed.degrees + own;
        BetweenRounds {
            variance: (sum / degrees).max(self.unclipped()),
            degrees,
        }
    }

    /// The variance between rounds without a bias, so that it may be negative.
    fn unclipped(&self) -> f64 {
        self.total.deviation().powi(2) - self.within
    }

    /// The variance of that estimate.
    fn error(&self) -> f64 {
        2.0 * self.total.deviation().powi(4) / self.total.degrees + self.within_error
    }
}

/// The mean of all, with the degrees of freedom of one more comparison: it is known no better than
/// the mean is, and than comparisons are alike.
fn typical(known: &[Spread]) -> Option<BetweenRounds> {
    if known.len() < FEWEST_COMPARISONS {
        return None;
    }
    let each: Vec<f64> = known.iter().map(Spread::unclipped).collect();
    let middle = mean(&each)?.max(0.0);
    let chance = mean(&known.iter().map(Spread::error).collect::<Vec<f64>>())?;
    let apart = (variance(&each)? - chance).max(0.0);
    let independent = MOST_INDEPENDENT.min(known.len() as f64);
    let of_mean = degrees(middle, (apart + chance) / independent);
    // An inverse chi square that varies so much: 2 / (degrees - 4) is its relative variance.
    let of_one = 4.0 + degrees(middle, apart);
    Some(BetweenRounds {
        variance: middle,
        degrees: 1.0 / (1.0 / of_mean + 1.0 / of_one),
    })
}

/// The degrees of freedom of a chi square with this mean and so much variance.
fn degrees(mean: f64, variance: f64) -> f64 {
    let degrees = 2.0 * mean.powi(2) / variance;
    if degrees.is_nan() {
        LEAST_DEGREES
    } else {
        degrees.max(LEAST_DEGREES)
    }
}

/// The mean of several rounds, and each round by itself, from the values of their blocks.
///
/// The standard error is that within rounds: blocks are compared with their own round's location.
/// `None` without a round, for rounds of which none has two blocks, and for what is not finite.
pub fn mean_of_rounds(
    rounds: &[Vec<f64>],
    locate: fn(&[f64]) -> Option<Location>,
) -> Option<(Location, Vec<RoundEstimate>)> {
    let location_or_mean =
        |values: &Vec<f64>| locate(values).map(|l| l.value).or_else(|| mean(values));
    let middles: Vec<f64> = rounds.iter().map(location_or_mean).collect::<Option<_>>()?;
    let both = rounds.iter().zip(&middles);
    let left = both.flat_map(|(values, middle)| values.iter().map(move |v| v - middle));
    let left = locate(&left.collect::<Vec<f64>>()).filter(|l| l.count > rounds.len())?;
    // Each round has taken a degree of freedom for its own middle.
    let kept = (left.count - rounds.len()) as f64 / (left.count - 1) as f64;
    let variance = left.deviation().powi(2) / kept;
    let degrees = left.degrees * kept;
    let round = |(values, middle): (&Vec<f64>, &f64)| RoundEstimate {
        value: *middle,
        variance: variance / values.len() as f64,
        degrees,
    };
    let estimates: Vec<RoundEstimate> = rounds.iter().zip(&middles).map(round).collect();
    let variances: Vec<f64> = estimates.iter().map(|e| e.variance).collect();
    let location = Location {
        value: mean(&middles)?,
        standard_error: (mean(&variances)? / rounds.len() as f64).sqrt(),
        degrees,
        ..left
    };
    Some((location, estimates))
}
