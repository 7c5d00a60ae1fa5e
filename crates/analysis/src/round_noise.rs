//! The variance between rounds in the interval of a comparison: that of the run's own rounds where there
//! are three, else that of the manifest.

use std::collections::BTreeMap;

use bytecost_spec::Metric;
use bytecost_spec::manifest::{ComparisonRounds, MetricRounds, RoundNoise, RoundVariance};
use bytecost_stats::{
    BetweenRounds, FEWEST_ROUNDS, Interval, Location, RoundEstimate, between_rounds,
};
use itertools::Itertools as _;

use crate::comparison::Pairing;
use crate::confidence::LEVEL;
use crate::trials::Trials;

/// Rounds of a comparison, with the ids of its baseline and its other cell.
pub(crate) type PairRounds<'t> = ([&'t str; 2], Vec<RoundEstimate>);

impl Trials<'_> {
    /// The variance between rounds of two cells in a metric.
    pub(crate) fn between_rounds(&self, metric: Metric, pair: &Pairing<'_>) -> BetweenRounds {
        let noise = self.round_noise();
        to_stats(noise.between(metric, &pair.baseline.id, &pair.other.id))
    }

    /// The variance between rounds of the mean ratio of several pairs. Pairs of one round are measured in the
    /// same minutes, so that their errors are not independent: the variance is the mean of theirs, not divided
    /// by their number, and the degrees of freedom are the fewest.
    pub(crate) fn between_rounds_of_mean(
        &self,
        metric: Metric,
        pairs: &[Pairing<'_>],
    ) -> BetweenRounds {
        let each = pairs
            .iter()
            .map(|p| self.between_rounds(metric, p))
            .collect_vec();
        let sum: f64 = each.iter().map(|b| b.variance).sum();
        let degrees = each.iter().map(|b| b.degrees);
        BetweenRounds {
            variance: sum / each.len() as f64,
            degrees: degrees.fold(f64::INFINITY, f64::min),
        }
    }

    /// The variance between rounds of the logarithm of a metric in a single cell. Manifests keep rounds of
    /// ratios alone, so that the typical variance of the metric's ratios stands in for it.
    pub(crate) fn between_rounds_of_any_cell(&self, metric: Metric) -> BetweenRounds {
        to_stats(self.round_noise().typical(metric))
    }

    fn round_noise(&self) -> &RoundNoise {
        self.round_noise.get_or_init(|| self.with_own_rounds())
    }

    pub(crate) fn rounds(&self) -> usize {
        let blocks = self.cells.iter().flat_map(|c| c.by_block.keys());
        blocks
            .map(|block| self.manifest.round_of(*block))
            .unique()
            .count()
            .max(1)
    }

    /// The noise by the run's own rounds, followed by the manifest's: a reader takes the first entry that fits,
    /// so that the run's own wins.
    fn with_own_rounds(&self) -> RoundNoise {
        let known = &self.manifest.rounds;
        if self.rounds() < FEWEST_ROUNDS {
            return known.clone();
        }
        let mut by_metric: BTreeMap<Metric, Vec<PairRounds<'_>>> = BTreeMap::new();
        let pair = |asked: &crate::comparison::AskedPair<'_>| {
            let (baseline, other) = (&asked.pairing.baseline.id, &asked.pairing.other.id);
            (asked.metric, baseline.clone(), other.clone())
        };
        for asked in self.asked().unique_by(pair) {
            let ids = [&*asked.pairing.baseline.id, &*asked.pairing.other.id];
            if let Some(rounds) = asked.pairing.round_estimates(asked.metric) {
                let pairs = by_metric.entry(asked.metric).or_default();
                pairs.push((ids, rounds));
            }
        }
        let mut noise = RoundNoise {
            comparisons: Vec::new(),
            metrics: Vec::new(),
            ..known.clone()
        };
        for (metric, pairs) in by_metric {
            let (typical, comparisons) = noise_of_metric(metric, pairs, known.assumed);
            noise.metrics.extend(typical);
            noise.comparisons.extend(comparisons);
        }
        noise.comparisons.extend(known.comparisons.iter().cloned());
        noise.metrics.extend(known.metrics.iter().copied());
        noise
    }
}

/// Half the width of the 95 % interval of the difference between a mean of so many rounds and the long-run
/// mean, on a log scale.
pub(crate) fn round_error(between: BetweenRounds, rounds: usize) -> f64 {
    let error = Location {
        value: 0.0,
        standard_error: (between.variance / rounds as f64).sqrt(),
        degrees: between.degrees,
        count: rounds,
        lent: 0.0,
    };
    error.interval(LEVEL).map_or(0.0, Interval::half_width)
}

/// The variance between rounds that is typical of a metric, and those of its comparisons, each with its
/// rounds.
pub(crate) fn noise_of_metric(
    metric: Metric,
    pairs: Vec<PairRounds<'_>>,
    assumed: RoundVariance,
) -> (Option<MetricRounds>, Vec<ComparisonRounds>) {
    let (ids, rounds): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
    let found = between_rounds(&rounds, to_stats(assumed));
    let typical = found.typical.map(|typical| MetricRounds {
        metric,
        between: to_manifest(typical),
    });
    let each = ids.into_iter().zip(&rounds).zip(found.comparisons);
    let comparisons = each.filter_map(|((cells, own_rounds), between)| {
        Some(ComparisonRounds {
            metric,
            baseline: cells[0].to_owned(),
            cell: cells[1].to_owned(),
            rounds: own_rounds.len() as u32,
            between: to_manifest(between?),
        })
    });
    (typical, comparisons.collect())
}

/// The variance in the type of the statistics.
fn to_stats(known: RoundVariance) -> BetweenRounds {
    BetweenRounds {
        variance: known.variance,
        degrees: known.degrees,
    }
}

/// The variance in the type of the manifest.
fn to_manifest(between: BetweenRounds) -> RoundVariance {
    RoundVariance {
        variance: between.variance,
        degrees: between.degrees,
    }
}
