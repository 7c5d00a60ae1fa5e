//! Comparisons to findings: ratios, intervals, the error rates of their families, verdicts.

use std::collections::BTreeMap;

use bytecost_spec::Manifest;
use bytecost_stats::{BetweenRounds, RatioVariation};

use crate::caveats::{self, Permitted};
use crate::comparison::{Comparison, PairContrast};
use crate::confidence::LEVEL;
use crate::families::{Correction, corrections, verdict};
use crate::logs::{as_share, exp};
use crate::result::{Caveat, Finding, Verdict};
use crate::stages::Measured;

/// Blocks beyond which it is no help to say how many it would take.
const MOST_BLOCKS: usize = 10_000;

/// The findings of a run's comparisons: each is corrected within its family over what the caveats
/// leave, so that no false verdict is more likely to be shown for their sake.
pub(crate) fn judged(run: &Measured<'_>, caveats: &[Caveat]) -> Vec<Finding> {
    let (manifest, comparisons) = (run.input.manifest, &run.comparisons.of_study);
    let permit = |c: &Comparison<'_>| {
        let (metric, pairing) = (c.asked.metric, &c.asked.pairing);
        caveats::permitted(caveats, metric, pairing, c.confirmed_sign())
    };
    let permits: Vec<Permitted> = comparisons.iter().map(permit).collect();
    let each = || comparisons.iter().zip(&permits);
    let tested = each().filter_map(|(c, permitted)| Some((c.asked, c.p(*permitted)?)));
    let tested: Vec<_> = tested.collect();
    let mut corrections = corrections(&tested, manifest.rate_share()).into_iter();
    let mut detectable = Detectable::default();
    let findings = each().enumerate().map(|(number, (comparison, permitted))| {
        let correction = match permitted {
            Permitted::Nothing(_) => None,
            _ => corrections.next(),
        };
        let corrected = correction.filter(|c| c.p.is_some());
        let level = corrected.map_or(1.0 - LEVEL, |c| c.level);
        let detectable = as_share(detectable.at(&comparison.contrast, level));
        comparison.finding(number, manifest, *permitted, correction, detectable)
    });
    findings.collect()
}

/// Smallest detectable differences in standard errors, by degrees of freedom and level.
#[derive(Default)]
struct Detectable(BTreeMap<(i64, i64, u64), f64>);

impl Detectable {
    /// The smallest difference of log ratios that a comparison finds 80 % of the time at a level.
    fn at(&mut self, contrast: &PairContrast, level: f64) -> f64 {
        // In steps of 3 %, which makes a tenth of that in the difference.
        let step = |degrees: f64| (32.0 * degrees.ln()).floor() as i64;
        let (noise, error) = (contrast.noise(), contrast.location.standard_error);
        let parts = step(contrast.within.degrees * error / contrast.within.standard_error);
        let key = (step(contrast.location.degrees), parts, level.to_bits());
        let times = self.0.entry(key).or_insert_with(|| {
            let least = noise.smallest_detectable(level);
            least.map_or(f64::INFINITY, |least| least / error)
        });
        if error > 0.0 { *times * error } else { 0.0 }
    }
}

/// The blocks that it takes to decide a comparison.
#[derive(Default)]
struct BlocksNeeded {
    blocks: Option<u32>,
    /// True if more blocks would decide it but for the variance from round to round.
    rounds_prevent: bool,
}

impl Comparison<'_> {
    /// The p value that is corrected; none where nothing may be said.
    fn p(&self, permitted: Permitted) -> Option<f64> {
        match permitted {
            Permitted::Verdict => Some(self.contrast.p),
            Permitted::Sign { is_more, .. } => {
                let is_so = is_more == Some(self.contrast.location.value > 0.0);
                Some(if is_so { self.contrast.p } else { 1.0 })
            }
            Permitted::Nothing(_) => None,
        }
    }

    /// Returns true if the interval of the first attempts at the blocks shows that the other cell has
    /// more than the baseline, false if less; none where it holds 1.
    fn confirmed_sign(&self) -> Option<bool> {
        let ratio = self.by_first_attempts?.ratio();
        (ratio.low > 1.0 || ratio.high < 1.0).then_some(ratio.value > 1.0)
    }

    /// The finding by what caveats permit and by what its family makes of it.
    fn finding(
        &self,
        number: usize,
        manifest: &Manifest,
        permitted: Permitted,
        correction: Option<Correction>,
        detectable: f64,
    ) -> Finding {
        let (by, bound) = match permitted {
            Permitted::Verdict => (None, manifest.study.smallest_effect.ln_1p()),
            // Nothing lies within less than nothing.
            Permitted::Sign { by, .. } | Permitted::Nothing(by) => (Some(by), f64::NEG_INFINITY),
        };
        let p = correction.and_then(|correction| correction.p);
        let level = correction.map_or(1.0 - LEVEL, |correction| correction.level);
        let family = self.asked.family();
        let rate = family.rate().map(|rate| rate * manifest.rate_share());
        let PairContrast {
            metric,
            location,
            interval,
            within,
            within_interval,
            between,
            p: p_uncorrected,
        } = self.contrast;
        let verdict = match (correction, rate) {
            (Some(_), _) => verdict(metric, (location.value, interval), p.zip(rate), bound),
            (None, Some(_)) => Verdict::NotDecided,
            (None, None) => Verdict::NotJudged,
        };
        let is_open = !matches!(verdict, Verdict::Better | Verdict::Worse);
        let withheld = by.filter(|_| is_open);
        let amount_withheld = match permitted {
            Permitted::Sign {
                has_amount: false,
                by: caveat,
                ..
            } if !is_open => Some(caveat),
            _ => None,
        };
        let is_undecided = verdict == Verdict::NotDecided && withheld.is_none();
        let needed = is_undecided.then(|| self.blocks_needed(bound, level));
        let BlocksNeeded {
            blocks: blocks_needed,
            rounds_prevent,
        } = needed.unwrap_or_default();
        let (pairing, ratio) = (self.asked.pairing, self.contrast.ratio());
        Finding {
            number,
            metric,
            axis: pairing.axis,
            baseline: pairing.baseline.id.clone(),
            baseline_value: pairing.baseline.cell.value(pairing.axis),
            cell: pairing.other.id.clone(),
            value: pairing.other.cell.value(pairing.axis),
            first: self.asked.is_in_main_metric(),
            family,
            ratio: ratio.value,
            low: ratio.low,
            high: ratio.high,
            within_low: exp(within_interval.low),
            within_high: exp(within_interval.high),
            between_deviation: between.variance.sqrt(),
            between_degrees: between.degrees,
            blocks: within.count,
            p: p_uncorrected,
            p_corrected: p,
            level: p.map(|_| level),
            verdict,
            withheld,
            amount_withheld,
            detectable,
            blocks_needed,
            rounds_prevent,
        }
    }

    fn blocks_needed(&self, bound: f64, level: f64) -> BlocksNeeded {
        let noise = self.contrast.noise();
        let within_rounds = RatioVariation {
            between: BetweenRounds::NONE,
            ..noise
        };
        let blocks = self.blocks_to_decide(noise, bound, level);
        BlocksNeeded {
            rounds_prevent: blocks.is_none()
                && self.blocks_to_decide(within_rounds, bound, level).is_some(),
            blocks,
        }
    }

    /// Blocks in which, if the estimate stays, the difference is found at the family's level or the
    /// interval fits within the smallest effect: either 80 % of the time.
    fn blocks_to_decide(&self, noise: RatioVariation, bound: f64, level: f64) -> Option<u32> {
        let distance = self.contrast.location.value.abs();
        let blocks_for = |room, alpha| noise.blocks_needed(room, alpha, MOST_BLOCKS);
        let apart = blocks_for(distance, level);
        let alike = blocks_for(bound - distance, 1.0 - LEVEL);
        let needed = apart.into_iter().chain(alike).min()?;
        u32::try_from(needed.max(self.contrast.within.count + 1)).ok()
    }
}
