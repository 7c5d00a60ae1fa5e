//! The one query: a metric over an axis, one value against another, at a place.
//!
//! It gives each pair of cells that differ in that axis alone its paired ratio, and the run's
//! finding, whose verdict is corrected within its family: a pair that is not judged has no verdict.

use std::collections::BTreeSet;

use bytecost_spec::{Axis, Better, Measure, Metric};
use bytecost_stats::{
    BetweenRounds, Interval, Location, Moderation, RatioVariation, RoundEstimate, mean_of_rounds,
    student_mean, tail_ratio, tail_with_rounds, trimmed_mean,
};

use crate::beside_sides::{holds_interrupts, log_of_one_more, with_error};
use crate::cells::exp;
use crate::confidence::{FEWEST, LEVEL};
use crate::grouping::by_key;
use crate::pairing::Pairing;
use crate::result::{Finding, Verdict};
use crate::trials::{CellTrials, Moderations, Trials};
use crate::value::{is_extreme, tail_share};
use crate::view::View;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Ratio {
    pub(crate) value: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// Two cells that differ in one axis, compared in a metric within blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PairContrast<'v> {
    pub(crate) pairing: Pairing<'v, 'v>,
    pub(crate) metric: Metric,
    /// Of the logarithms of the other's metric over the baseline's, with the variance between rounds.
    pub(crate) location: Location,
    pub(crate) interval: Interval,
    /// Two-sided and not corrected.
    pub(crate) p: f64,
    /// The same as far as this run's own rounds alone show it.
    pub(crate) within: Location,
    pub(crate) within_interval: Interval,
    /// What it has beyond that: of the mean of the run's rounds.
    pub(crate) between: BetweenRounds,
    finding: Option<&'v Finding>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing<'v> {
    /// The corrected verdict of the run's finding, as of the contrast's own value.
    Decided(Verdict),
    Withheld(&'v str),
    /// The study does not compare the two, or does not judge it, so that nothing corrects it.
    NotJudged,
}

impl Ratio {
    pub(crate) fn at(location: &Location, level: f64) -> Option<Ratio> {
        Some(Ratio::between(*location, location.interval(level)?))
    }

    fn between(location: Location, interval: Interval) -> Ratio {
        Ratio {
            value: exp(location.value),
            low: exp(interval.low),
            high: exp(interval.high),
        }
    }
}

/// Where log ratios lie within a run's rounds by an estimator, and by the variance that other
/// comparisons let expect.
pub(crate) fn located(
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

/// The estimator of a measure's log ratios: the mean of what is furthest out.
fn locator(measure: Measure) -> fn(&[f64]) -> Option<Location> {
    if is_extreme(measure) {
        student_mean
    } else {
        trimmed_mean
    }
}

/// The mean log ratio of some pairs with the errors of the interrupts on idle CPUs that are in the
/// costs of their cells: each is one number for all blocks, so that the blocks do not show it.
pub(crate) fn with_interrupts<'p, 'c: 'p>(
    location: Location,
    pairings: impl IntoIterator<Item = &'p Pairing<'c, 'c>, IntoIter: ExactSizeIterator>,
    metric: Metric,
) -> Location {
    let pairings = pairings.into_iter();
    let pairs = pairings.len() as f64;
    let cells = pairings.flat_map(|p| [p.baseline, p.other]);
    let charged = cells.filter_map(|c| c.beside.charged());
    let charged = charged.filter(|_| holds_interrupts(metric));
    charged.map(log_of_one_more).fold(location, |sum, share| {
        let standard_error = share.standard_error / pairs;
        with_error(
            sum,
            &Location {
                standard_error,
                ..share
            },
        )
    })
}

/// Whether a measure is located by the trimmed mean of its blocks.
pub(crate) fn is_trimmed(measure: Measure) -> bool {
    tail_share(measure).is_none() && !is_extreme(measure)
}

impl<'v> PairContrast<'v> {
    /// A pair in a metric as the run's own rounds alone show it, without a finding; none where fewer
    /// than three blocks have both. Its ratio is the trimmed mean over blocks, its variance moderated
    /// by the run's other comparisons in that metric; of a tail the quantiles of all trials together;
    /// of what is furthest out the mean, since there the trials at the ends are what is asked for.
    pub(crate) fn of(
        pairing: Pairing<'v, 'v>,
        metric: Metric,
        moderations: &Moderations,
    ) -> Option<PairContrast<'v>> {
        let measure = metric.measure;
        let (location, interval, p) = if let Some(share) = tail_share(measure) {
            let of_block =
                |block: &u32| [pairing.other, pairing.baseline].map(|c| c.spread(*block));
            let blocks = pairing.baseline.by_block.keys().map(of_block);
            let blocks: Vec<_> = blocks.filter(|b| b.iter().all(|t| !t.is_empty())).collect();
            tail_ratio(&blocks, share, LEVEL)?
        } else {
            let rounds = pairing.log_ratios_by_round(metric);
            let location = located(&rounds, locator(measure), moderations.get(&metric))?;
            let location = with_interrupts(location, [&pairing], metric);
            (location, location.interval(LEVEL)?, location.p_value(0.0)?)
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
            finding: None,
        })
    }

    /// The same as of any minute, with a variance between rounds.
    fn with_rounds(self, between: BetweenRounds) -> Option<PairContrast<'v>> {
        let rounds = self.pairing.rounds();
        let (location, interval, p) = if tail_share(self.metric.measure).is_some() {
            let within = (self.within, self.within_interval, self.p);
            tail_with_rounds(within, (between, rounds), LEVEL)?
        } else {
            let location = self.within.with_rounds(between, rounds);
            (location, location.interval(LEVEL)?, location.p_value(0.0)?)
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

    /// The same with the run's finding of the two, in either order.
    pub(crate) fn found(self, findings: &'v [Finding]) -> PairContrast<'v> {
        let [baseline, other] = [&self.pairing.baseline.id, &self.pairing.other.id];
        let is_own = |f: &&Finding| f.compares(self.metric, baseline, other);
        PairContrast {
            finding: findings.iter().find(is_own),
            ..self
        }
    }

    /// What makes its log ratios vary.
    pub(crate) fn noise(&self) -> RatioVariation {
        RatioVariation {
            deviation: self.within.deviation(),
            known: self.within.replicates(),
            between: self.between,
        }
    }

    /// Returns true if no rule withholds how large its ratio is.
    pub(crate) fn has_amount(&self) -> bool {
        let withheld = self.finding.and_then(|f| f.amount_withheld.as_ref());
        withheld.is_none()
    }

    pub(crate) fn ratio(&self) -> Ratio {
        Ratio::between(self.location, self.interval)
    }

    pub(crate) fn finding(&self) -> Option<&'v Finding> {
        self.finding
    }

    pub(crate) fn standing(&self) -> Standing<'v> {
        let judged = self.finding.filter(|f| f.verdict != Verdict::NotJudged);
        let Some(finding) = judged else {
            return Standing::NotJudged;
        };
        let is_turned = finding.baseline == self.pairing.other.id;
        match (&finding.withheld, finding.verdict, is_turned) {
            (Some(why), ..) => Standing::Withheld(why),
            (None, Verdict::Better, true) => Standing::Decided(Verdict::Worse),
            (None, Verdict::Worse, true) => Standing::Decided(Verdict::Better),
            (None, verdict, _) => Standing::Decided(verdict),
        }
    }

    pub(crate) fn is(&self, verdict: Verdict) -> bool {
        self.standing() == Standing::Decided(verdict)
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

/// What locations of log ratios say of each other's variance, metric by metric.
pub(crate) fn moderations(of: impl IntoIterator<Item = (Metric, Location)>) -> Moderations {
    let by_metric = by_key(of).into_iter();
    by_metric
        .filter_map(|(metric, all)| Some((metric, Moderation::of(&all)?)))
        .collect()
}

impl Trials<'_> {
    /// Two cells in a metric, without a finding: as of any minute.
    pub(crate) fn contrast<'t>(
        &self,
        pairing: Pairing<'t, 't>,
        metric: Metric,
    ) -> Option<PairContrast<'t>> {
        let within = PairContrast::of(pairing, metric, self.moderations())?;
        within.with_rounds(self.between_rounds(metric, &pairing))
    }

    /// From every comparison of the study that at least three blocks can speak to.
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

impl Pairing<'_, '_> {
    /// What each round of the run shows of a pair by itself; none of a tail.
    pub(crate) fn round_estimates(&self, metric: Metric) -> Option<Vec<RoundEstimate>> {
        let rounds = self.log_ratios_by_round(metric);
        let is_located = tail_share(metric.measure).is_none();
        is_located
            .then(|| mean_of_rounds(&rounds, locator(metric.measure)))?
            .map(|(_, estimates)| estimates)
    }
}

impl<'v> View<'v> {
    /// Two cells ([`crate::pairing`]) in a metric, with the run's finding; none of under 3 blocks.
    pub(crate) fn contrast(
        &'v self,
        pairing: Pairing<'v, 'v>,
        metric: Metric,
    ) -> Option<PairContrast<'v>> {
        Some(
            self.trials
                .contrast(pairing, metric)?
                .found(&self.known.findings),
        )
    }
}

/// Which of several cells that differ in one axis may be the best: none is shown to be worse than
/// another. Multiple comparisons with the best (Hsu, "Multiple Comparisons: Theory and Methods",
/// 1996, chapter 4), by paired contrasts within blocks: the truly best one is in the set in at
/// least `1 - rate` of all runs, whatever the noise of each (Bonferroni over its contrasts).
/// Whoever asks at several places gives each its part of the rate. Cells without the metric in
/// three blocks beside any other are left out; the order is that of `cells`.
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
    let stands = not_worse(cells.len(), rate, p_of_worse);
    let all = cells.iter().zip(stands);
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
            for (times, stands) in times.iter_mut().zip(found) {
                *times += usize::from(stands);
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
        // Blocks differ three times as much as ways do within them: pairing tells apart what
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
