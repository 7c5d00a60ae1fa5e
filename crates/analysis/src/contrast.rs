//! The one query: a metric over an axis, one value against another, at a place.
//!
//! Its result is the paired ratio of each two cells that differ in that axis alone. Verdicts are corrected
//! within families ([`crate::findings`]).

use std::collections::{BTreeMap, BTreeSet};

use bytecost_spec::{Axis, Better, Measure, Metric};
use bytecost_stats::{
    BetweenRounds, Interval, Location, Moderation, RatioVariation, RoundEstimate, TestedLocation,
    mean, mean_of_rounds, student_mean, tail_ratio, tail_with_rounds, trimmed_mean,
};

use itertools::Itertools as _;

use crate::confidence::{FEWEST, LEVEL};
use crate::grouping::by_key;
use crate::logs::{as_share, exp};
use crate::outside_time::{holds_interrupts, log_of_one_more, with_error};
use crate::pairing::{AskedPair, Pairing};
use crate::result::Uncertain;
use crate::trials::{CellTrials, Moderations, Trials, block_value};
use crate::value::{is_extreme, tail_share};

/// Two cells that differ in one axis, compared in a metric within blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PairContrast<'v> {
    pub(crate) pairing: Pairing<'v, 'v>,
    pub(crate) metric: Metric,
    /// The mean log ratio of the other cell to the baseline, with the variance between rounds.
    pub(crate) location: Location,
    pub(crate) interval: Interval,
    /// Two-sided and not corrected.
    pub(crate) p: f64,
    /// The same by this run's own rounds alone.
    pub(crate) within: Location,
    pub(crate) within_interval: Interval,
    /// The variance between rounds of that mean.
    pub(crate) between: BetweenRounds,
}

impl Uncertain {
    /// The ratio of which this is the logarithm.
    pub(crate) fn ratio_at(log: &Location, level: f64) -> Option<Uncertain> {
        Some(Uncertain::ratio(*log, log.interval(level)?))
    }

    pub(crate) fn from_location(location: Location, level: f64) -> Option<Uncertain> {
        let interval = location.interval(level)?;
        Some(Uncertain {
            value: location.value,
            low: interval.low,
            high: interval.high,
        })
    }

    fn ratio(log: Location, interval: Interval) -> Uncertain {
        Uncertain {
            value: exp(log.value),
            low: exp(interval.low),
            high: exp(interval.high),
        }
    }
}

/// A comparison of the study without a verdict.
pub(crate) struct Comparison<'t> {
    pub(crate) asked: AskedPair<'t, 't>,
    pub(crate) contrast: PairContrast<'t>,
}

/// Every comparison of the study with at least three blocks, in its order.
pub(crate) fn comparisons<'t>(trials: &'t Trials<'t>) -> Vec<Comparison<'t>> {
    let comparisons = trials.asked().filter_map(|asked| {
        let (pairing, metric) = (asked.pairing, asked.metric);
        let contrast = trials.contrast(pairing, metric)?;
        Some(Comparison { asked, contrast })
    });
    let key = |c: &Comparison<'t>| {
        let Pairing { axis, other, .. } = *c.pairing();
        (c.metric(), &other.id, c.pairing().baseline.cell.value(axis))
    };
    comparisons.unique_by(key).collect()
}

impl<'t> Comparison<'t> {
    pub(crate) fn metric(&self) -> Metric {
        self.asked.metric
    }

    pub(crate) fn pairing(&self) -> &Pairing<'t, 't> {
        &self.asked.pairing
    }

    /// Returns true if it is judged, in the first metric of its comparison.
    pub(crate) fn is_first(&self) -> bool {
        self.asked.is_in_main_metric() && self.is_judged()
    }

    pub(crate) fn is_judged(&self) -> bool {
        self.asked.family().rate().is_some()
    }

    pub(crate) fn blocks(&self) -> usize {
        self.contrast.within.count
    }

    /// Half the width of its interval within the run's rounds, as a share.
    pub(crate) fn half_width(&self) -> f64 {
        as_share(self.contrast.within_interval.half_width())
    }
}

/// The location of log ratios within a run's rounds, with a variance that is moderated by those of
/// other comparisons.
fn located(
    rounds: &[Vec<f64>],
    locate: fn(&[f64]) -> Option<Location>,
    by: Option<&Moderation>,
) -> Option<Location> {
    let own = match rounds {
        [one] => locate(one)?,
        several => mean_of_rounds(several, locate)?.0,
    };
    let enough = Some(own).filter(|l| l.count >= FEWEST)?;
    Some(by.map_or(enough, |by| by.moderate(enough)))
}

/// The estimator of a measure's log ratios: of the maximum the mean.
fn locator(measure: Measure) -> fn(&[f64]) -> Option<Location> {
    if is_extreme(measure) {
        student_mean
    } else {
        trimmed_mean
    }
}

/// The mean log ratio of some pairs with the errors of the interrupts on idle CPUs in the costs of their
/// cells. Each is one number for all blocks, so that the variance between blocks does not include it.
fn with_interrupts(location: Location, pairings: &[Pairing<'_, '_>], metric: Metric) -> Location {
    let charged = pairings
        .iter()
        .flat_map(|p| [p.baseline, p.other])
        .filter_map(|c| c.outside.charged())
        .filter(|_| holds_interrupts(metric));
    charged.map(log_of_one_more).fold(location, |sum, share| {
        let standard_error = share.standard_error / pairings.len() as f64;
        with_error(
            sum,
            &Location {
                standard_error,
                ..share
            },
        )
    })
}

/// Returns true if the estimate of a measure is the trimmed mean of its blocks.
pub(crate) fn is_trimmed(measure: Measure) -> bool {
    tail_share(measure).is_none() && !is_extreme(measure)
}

/// With the interval and the p value of Student's distribution.
fn tested(location: Location) -> Option<TestedLocation> {
    Some(TestedLocation {
        location,
        interval: location.interval(LEVEL)?,
        p: location.p_value(0.0)?,
    })
}

impl<'v> PairContrast<'v> {
    /// A pair in a metric by the run's own rounds alone; none where fewer than three blocks have both. Its
    /// ratio is the trimmed mean over blocks, with a variance that is moderated by the run's other
    /// comparisons in that metric; for a quantile of the tail the ratio of the quantiles of all trials; for
    /// the maximum the mean, since extreme trials are its subject.
    pub(crate) fn new(
        pairing: Pairing<'v, 'v>,
        metric: Metric,
        moderations: &Moderations,
    ) -> Option<PairContrast<'v>> {
        let measure = metric.measure;
        let TestedLocation {
            location,
            interval,
            p,
        } = if let Some(share) = tail_share(measure) {
            let of_block =
                |block: &u32| [pairing.other, pairing.baseline].map(|c| c.spread(*block));
            let blocks: Vec<_> = (pairing.baseline.by_block.keys().map(of_block))
                .filter(|b| b.iter().all(|t| !t.is_empty()))
                .collect();
            tail_ratio(&blocks, share, LEVEL)?
        } else {
            let rounds = pairing.log_ratios_by_round(metric);
            let location = located(&rounds, locator(measure), moderations.get(&metric))?;
            tested(with_interrupts(location, &[pairing], metric))?
        };
        Some(PairContrast {
            pairing,
            metric,
            location,
            interval,
            p,
            within: location,
            within_interval: interval,
            between: BetweenRounds::NONE,
        })
    }

    /// The same with a variance between rounds.
    fn with_rounds(self, between: BetweenRounds) -> Option<PairContrast<'v>> {
        let rounds = self.pairing.rounds();
        let TestedLocation {
            location,
            interval,
            p,
        } = if tail_share(self.metric.measure).is_some() {
            let within = TestedLocation {
                location: self.within,
                interval: self.within_interval,
                p: self.p,
            };
            tail_with_rounds(within, (between, rounds), LEVEL)?
        } else {
            tested(self.within.with_rounds(between, rounds))?
        };
        Some(PairContrast {
            location,
            interval,
            p,
            between: BetweenRounds {
                variance: between.variance / rounds as f64,
                ..between
            },
            ..self
        })
    }

    /// The variances of its log ratios.
    pub(crate) fn noise(&self) -> RatioVariation {
        RatioVariation {
            deviation: self.within.deviation(),
            known: self.within.replicates(),
            between: self.between,
        }
    }

    pub(crate) fn ratio(&self) -> Uncertain {
        Uncertain::ratio(self.location, self.interval)
    }

    /// The p value of the other not being worse than the baseline: small where it is worse.
    fn p_of_worse(&self) -> Option<f64> {
        let worse = match self.metric.better() {
            Better::Higher => self.location.value < 0.0,
            Better::Lower => self.location.value > 0.0,
        };
        worse.then_some(self.p / 2.0)
    }
}

/// The prior of the variance of log ratios, by metric.
pub(crate) fn moderations(of: impl IntoIterator<Item = (Metric, Location)>) -> Moderations {
    let by_metric = by_key(of).into_iter();
    by_metric
        .filter_map(|(metric, all)| Some((metric, Moderation::fit(&all)?)))
        .collect()
}

impl Trials<'_> {
    /// Two cells in a metric, with a variance between rounds; none of fewer than three blocks.
    pub(crate) fn contrast<'t>(
        &self,
        pairing: Pairing<'t, 't>,
        metric: Metric,
    ) -> Option<PairContrast<'t>> {
        let within = PairContrast::new(pairing, metric, self.moderations())?;
        within.with_rounds(self.between_rounds(metric, &pairing))
    }

    /// The priors of the variance by metric, from every comparison of the study with at least three blocks.
    pub(crate) fn moderations(&self) -> &Moderations {
        self.moderations.get_or_init(|| {
            let mut seen = BTreeSet::new();
            let mut locations = Vec::new();
            for asked in self.asked().filter(|a| is_trimmed(a.metric.measure)) {
                let (pairing, metric) = (asked.pairing, asked.metric);
                if seen.insert((&pairing.baseline.id, &pairing.other.id, metric)) {
                    let own = located(&pairing.log_ratios_by_round(metric), trimmed_mean, None);
                    locations.extend(own.map(|location| (metric, location)));
                }
            }
            moderations(locations)
        })
    }
}

/// Several pairs in a metric over the blocks that have them all, so that no pair weighs more in one
/// block than in another.
pub(crate) struct PairsContrast<'v> {
    pub(crate) pairings: Vec<Pairing<'v, 'v>>,
    metric: Metric,
    /// For each pair the log ratios of these blocks.
    logs: Vec<Vec<f64>>,
    /// The round of each of these blocks.
    rounds: Vec<u32>,
}

impl<'v> PairsContrast<'v> {
    /// None without a pair, or with fewer than three such blocks.
    pub(crate) fn new(pairings: Vec<Pairing<'v, 'v>>, metric: Metric) -> Option<PairsContrast<'v>> {
        let first = *pairings.first()?;
        let log_ratios = pairings.iter().flat_map(|p| p.log_ratios_by_block(metric));
        let mut by_block = by_key(log_ratios);
        by_block.retain(|_, logs| logs.len() == pairings.len());
        let of_pair = |pair: usize| by_block.values().map(|logs| logs[pair]).collect();
        (by_block.len() >= FEWEST).then(|| PairsContrast {
            metric,
            logs: (0..pairings.len()).map(of_pair).collect(),
            rounds: by_block.keys().map(|b| first.round_of(*b)).collect(),
            pairings,
        })
    }

    /// The location of the mean log ratio of all pairs within the run's rounds.
    pub(crate) fn within(&self) -> Option<Location> {
        self.located(&self.means())
    }

    /// The same with a variance between rounds, moderated by other such means.
    pub(crate) fn mean(&self, trials: &Trials<'_>, by: Option<&Moderation>) -> Option<Location> {
        let within = self.within()?;
        let within = by.map_or(within, |by| by.moderate(within));
        let mean = with_interrupts(within, &self.pairings, self.metric);
        let between = trials.between_rounds_of_mean(self.metric, &self.pairings);
        Some(mean.with_rounds(between, self.rounds()))
    }

    /// The deviation of a pair from the mean of all, with the variance between rounds.
    pub(crate) fn deviation(&self, trials: &Trials<'_>, pair: usize) -> Option<Location> {
        let means = self.means().into_iter();
        let own: Vec<f64> = self.logs[pair]
            .iter()
            .zip(means)
            .map(|(l, m)| l - m)
            .collect();
        let pairing = self.pairings[pair];
        let location = with_interrupts(self.located(&own)?, &[pairing], self.metric);
        let between = trials.between_rounds(self.metric, &pairing);
        Some(location.with_rounds(between, self.rounds()))
    }

    fn rounds(&self) -> usize {
        self.rounds.iter().unique().count()
    }

    fn means(&self) -> Vec<f64> {
        let of_block = |block: usize| {
            let logs: Vec<f64> = self.logs.iter().map(|logs| logs[block]).collect();
            mean(&logs).unwrap_or_default()
        };
        (0..self.rounds.len()).map(of_block).collect()
    }

    /// The location of values of the blocks.
    fn located(&self, values: &[f64]) -> Option<Location> {
        let in_rounds = self.rounds.iter().copied().zip(values.iter().copied());
        let by_round: Vec<Vec<f64>> = by_key(in_rounds).into_values().collect();
        located(&by_round, trimmed_mean, None)
    }
}

impl Trials<'_> {
    /// The log ratio of two cells in one metric less that in another, block by block, so that
    /// disturbances of both metrics cancel. It has the variances between rounds of both.
    pub(crate) fn relative_contrast(
        &self,
        pairing: &Pairing<'_, '_>,
        metrics: [Metric; 2],
    ) -> Option<Location> {
        let [first, second] = metrics.map(|m| pairing.log_ratios_by_block(m));
        let by_block: BTreeMap<u32, f64> = first.into_iter().collect();
        let logs = second
            .into_iter()
            .filter_map(|(block, log)| Some((block, by_block.get(&block)? - log)));
        let rounds = pairing.by_round(logs);
        let within = located(&rounds, trimmed_mean, None)?;
        let between_rounds = metrics.map(|m| self.between_rounds(m, pairing));
        let with = |l: Location, between| l.with_rounds(between, rounds.len());
        Some(between_rounds.into_iter().fold(within, with))
    }
}

impl CellTrials<'_> {
    /// The cell's twin over the cell itself, in the blocks of the run; none of fewer than three, or
    /// where one has a zero.
    pub(crate) fn twin_contrast(&self, metric: Metric) -> Option<Location> {
        let both = self.by_block.iter().filter_map(|(block, own)| {
            let twin = self.twin.get(block)?.value(metric)?;
            Some(log_ratio(twin, own.value(metric)?))
        });
        let logs: Vec<f64> = both.collect();
        // A zero on either side has no ratio, and leaving it out would bend the rest.
        if logs.len() < FEWEST || logs.iter().any(|l| !l.is_finite()) {
            return None;
        }
        trimmed_mean(&logs)
    }
}

fn log_ratio(above: f64, below: f64) -> f64 {
    (above / below).ln()
}

impl Pairing<'_, '_> {
    /// The estimates of a pair in each round of the run by itself; none for quantiles of the tail.
    pub(crate) fn round_estimates(&self, metric: Metric) -> Option<Vec<RoundEstimate>> {
        let rounds = self.log_ratios_by_round(metric);
        let is_located = tail_share(metric.measure).is_none();
        is_located
            .then(|| mean_of_rounds(&rounds, locator(metric.measure)))?
            .map(|(_, estimates)| estimates)
    }

    /// The log ratios of the other cell's metric to the baseline's, one for each block that has both. There
    /// are none if any value is zero: leaving out zeros would bias the others.
    ///
    /// The value of a cell with a twin is the mean of both on a log scale. They are the same measurement,
    /// so that with equal noise the variance of the ratio is smaller by a quarter (1 + 1/2 instead of
    /// 1 + 1). A disturbance of the whole block still cancels.
    pub(crate) fn log_ratios(&self, metric: Metric) -> Vec<f64> {
        let logs = self.log_ratios_by_block(metric);
        logs.into_iter().map(|(_, log)| log).collect()
    }

    /// The log ratios by round; a run without rounds has one.
    pub(crate) fn log_ratios_by_round(&self, metric: Metric) -> Vec<Vec<f64>> {
        self.by_round(self.log_ratios_by_block(metric))
    }

    pub(crate) fn by_round(&self, values: impl IntoIterator<Item = (u32, f64)>) -> Vec<Vec<f64>> {
        let in_rounds = values
            .into_iter()
            .map(|(block, value)| (self.round_of(block), value));
        by_key(in_rounds).into_values().collect()
    }

    /// The number of rounds in which both cells were measured.
    pub(crate) fn rounds(&self) -> usize {
        let has_other = |block: &&u32| self.other.by_block.contains_key(*block);
        let blocks = self.baseline.by_block.keys().filter(has_other);
        blocks.map(|b| self.round_of(*b)).unique().count().max(1)
    }

    fn round_of(&self, block: u32) -> u32 {
        self.baseline.manifest.round_of(block)
    }

    /// The same, each with the number of its block.
    pub(crate) fn log_ratios_by_block(&self, metric: Metric) -> Vec<(u32, f64)> {
        let mut logs = Vec::with_capacity(self.baseline.by_block.len());
        for block in self.baseline.by_block.keys() {
            let known = [self.baseline, self.other].map(|cell| cell.known(*block, metric));
            let [Some(below), Some(above)] = known.each_ref().map(|values| block_value(values))
            else {
                continue;
            };
            if known.iter().flatten().any(|v| *v <= 0.0) {
                return Vec::new();
            }
            logs.push((*block, log_ratio(above, below)));
        }
        logs.retain(|(_, l)| l.is_finite());
        logs
    }
}

/// The cells that may be the best of several that differ in one axis: none of them is shown to be worse
/// than another. Multiple comparisons with the best (Hsu, "Multiple Comparisons: Theory and Methods",
/// 1996, chapter 4), by paired contrasts within blocks: the truly best one is in the set in at least
/// `1 - rate` of all runs, whatever the noise of each (Bonferroni over its contrasts). For several
/// places each has a part of the rate. Cells without the metric in three blocks with any other are
/// left out; the order is that of `cells`.
pub(crate) fn best_set<'v>(
    cells: &[&'v CellTrials<'v>],
    axis: Axis,
    metric: Metric,
    rate: f64,
    trials: &Trials<'v>,
) -> Vec<&'v CellTrials<'v>> {
    let p_of_worse = |other: usize, baseline: usize| {
        let pairing = Pairing {
            axis,
            baseline: cells[baseline],
            other: cells[other],
        };
        let contrast = trials.contrast(pairing, metric)?;
        Some(contrast.p_of_worse().unwrap_or(1.0))
    };
    let standing = not_worse(cells.len(), rate, p_of_worse);
    let all = cells.iter().zip(standing);
    all.filter_map(|(cell, stands)| stands.then_some(*cell))
        .collect()
}

/// For each of so many ways whether none is shown to be better, by the one-sided p values of being
/// worse than each other one; not so of a way that is in no contrast.
fn not_worse(
    count: usize,
    rate: f64,
    p_of_worse: impl Fn(usize, usize) -> Option<f64>,
) -> Vec<bool> {
    let level = rate / count.saturating_sub(1).max(1) as f64;
    let of_one = |one: usize| {
        let others = (0..count).filter(|other| *other != one);
        let least = others.filter_map(|other| p_of_worse(one, other));
        least.reduce(f64::min).is_some_and(|p| p >= level)
    };
    (0..count).map(of_one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytecost_stats::Generator;

    /// Runs of so many blocks in which ways gain so much; in how many of them each is in the set.
    fn shares(gains: &[f64], blocks: usize, noise: f64, runs: usize) -> Vec<f64> {
        let mut g = Generator::new(13);
        let mut times = vec![0_usize; gains.len()];
        for _ in 0..runs {
            let mut row = || {
                let block = 3.0 * noise * g.normal();
                let ways = gains.iter().map(|v| v + block + noise * g.normal());
                ways.collect()
            };
            let rows: Vec<Vec<f64>> = (0..blocks).map(|_| row()).collect();
            let found = not_worse(gains.len(), 0.05, |one, other| {
                let logs: Vec<f64> = rows.iter().map(|r| r[one] - r[other]).collect();
                let location = trimmed_mean(&logs)?;
                let p = location.p_value(0.0)?;
                Some(if location.value < 0.0 { p / 2.0 } else { 1.0 })
            });
            for (count, stands) in times.iter_mut().zip(found) {
                *count += usize::from(stands);
            }
        }
        times.iter().map(|t| *t as f64 / runs as f64).collect()
    }

    #[test]
    fn the_best_is_in_the_set_at_the_promised_rate_and_what_is_clearly_worse_is_not() {
        // Alike ones are hardest: each of them is a best one.
        for blocks in [6, 12, 21] {
            for share in shares(&[0.0; 5], blocks, 0.05, 2000) {
                assert!(share >= 0.95 - 0.01, "{blocks} {share}");
            }
        }
        let check = |gains: &[f64], blocks, noise, runs, holds: fn(&[f64]) -> bool| {
            let found = shares(gains, blocks, noise, runs);
            assert!(holds(&found), "{gains:?} {found:?}");
        };
        check(&[0.02, 0.0, 0.0, -0.5], 12, 0.05, 2000, |s| s[0] > 0.95);
        check(&[0.0, -0.1, -0.3], 21, 0.03, 500, |s| s[0] == 1.0);
        check(&[0.0, -0.1, -0.3], 21, 0.03, 500, |s| {
            s[1] < 0.01 && s[2] == 0.0
        });
        // Blocks differ three times as much as ways do within them: pairing distinguishes what
        // overlapping intervals do not.
        check(&[0.0, -0.07], 21, 0.03, 500, |s| s[1] < 0.05);
    }

    #[test]
    fn a_way_in_no_contrast_is_not_in_the_set() {
        let only = |one: usize, other: usize| (one != 2 && other != 2).then_some(0.5);
        assert_eq!(not_worse(3, 0.05, only), [true, true, false]);
        assert_eq!(not_worse(1, 0.05, only), [false]);
    }
}
