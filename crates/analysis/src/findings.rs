//! Comparisons to findings: ratios, intervals, the error rates of their families, verdicts.

use std::collections::{BTreeMap, HashSet};

use bytecost_spec::{Axis, Better, Manifest, Metric, Unit};
use bytecost_stats::{Interval, blocks_needed, smallest_detectable};

use crate::confidence::LEVEL;
use crate::contrast::PairContrast;
use crate::families::{Correction, corrected};
use crate::pairing::AskedPair;
use crate::phrases;
use crate::progress::as_share;
use crate::result::{Finding, Verdict};
use crate::trials::Trials;

/// Blocks beyond which it is no help to say how many it would take.
const MOST_BLOCKS: usize = 10_000;

struct Raw<'t> {
    asked: AskedPair<'t, 't>,
    contrast: PairContrast<'t>,
    id: String,
}

/// Every comparison of the study that at least three blocks can speak to, in its order.
pub(crate) fn all(manifest: &Manifest, trials: &Trials<'_>, varied: &[Axis]) -> Vec<Finding> {
    let mut seen = HashSet::new();
    let mut raws = Vec::new();
    for asked in trials.asked() {
        let (pairing, metric) = (asked.pairing, asked.metric);
        let Some(contrast) = PairContrast::of(pairing, metric, trials.moderations()) else {
            continue;
        };
        let against = pairing.baseline.cell.value(pairing.axis);
        let raw = Raw {
            asked,
            contrast,
            id: format!("{metric}: {} against {against}", pairing.other.id),
        };
        if seen.insert(raw.id.clone()) {
            raws.push(raw);
        }
    }
    let tested: Vec<_> = raws.iter().map(|r| (r.asked, r.contrast.p)).collect();
    let corrected = corrected(&tested, manifest.rate_share());
    let mut detectable: BTreeMap<(usize, u64, u64), f64> = BTreeMap::new();
    let told = raws.iter().zip(corrected).map(|(raw, correction)| {
        let (blocks, level) = (raw.contrast.location.replicates(), correction.level);
        let unit = detectable
            .entry((blocks.count, blocks.lent.to_bits(), level.to_bits()))
            .or_insert_with(|| smallest_detectable(1.0, blocks, level).unwrap_or(f64::INFINITY));
        raw.finding((manifest, trials.unit), correction, *unit, varied)
    });
    told.collect()
}

impl Raw<'_> {
    /// The finding, by what its family makes of it and the least difference that so many blocks of a
    /// deviation of 1 find at the level that the family asks.
    fn finding(
        &self,
        (manifest, noun): (&Manifest, Unit),
        correction: Correction,
        unit: f64,
        varied: &[Axis],
    ) -> Finding {
        let study = &manifest.study;
        let bound = study.smallest_effect.ln_1p();
        let family = self.asked.family();
        let rate = family.rate().map(|rate| rate * manifest.rate_share());
        let Correction { p, level } = correction;

        let PairContrast {
            pairing,
            metric,
            location,
            interval,
            ..
        } = self.contrast;
        let found = (location.value, interval);
        let verdict = verdict(metric, found, p.zip(rate), bound);
        let detectable = unit * location.deviation();
        let (axis, ratio) = (pairing.axis, self.contrast.ratio());
        let mut finding = Finding {
            id: self.id.clone(),
            metric,
            axis,
            baseline: pairing.baseline.id.clone(),
            baseline_value: pairing.baseline.cell.value(axis),
            cell: pairing.other.id.clone(),
            value: pairing.other.cell.value(axis),
            first: self.asked.is_first(),
            family,
            ratio: ratio.value,
            low: ratio.low,
            high: ratio.high,
            blocks: location.count,
            p: self.contrast.p,
            p_corrected: p,
            level: p.map(|_| level),
            verdict,
            withheld: None,
            amount_withheld: None,
            detectable: as_share(detectable),
            blocks_needed: (verdict == Verdict::NotDecided)
                .then(|| self.blocks_to_decide(bound, level))
                .flatten(),
            sentence: String::new(),
        };
        finding.sentence = phrases::finding(&finding, (pairing.other.cell, noun), study, varied);
        finding
    }

    /// Blocks in which, if the estimate stays, the difference is found at the family's level or the
    /// interval fits within the smallest effect: either 80 % of the time.
    fn blocks_to_decide(&self, bound: f64, level: f64) -> Option<u32> {
        let location = self.contrast.location;
        let (deviation, count) = (location.deviation(), location.count);
        let distance = location.value.abs();
        let known = location.replicates();
        let needed = |room, alpha| blocks_needed(deviation, known, room, alpha, MOST_BLOCKS);
        let apart = needed(distance, level);
        let alike = needed(bound - distance, 1.0 - LEVEL);
        let needed = apart.into_iter().chain(alike).min()?;
        u32::try_from(needed.max(count + 1)).ok()
    }
}

/// What is decided of a log ratio with its interval, by its corrected p value at a rate and the least
/// difference that matters: an interval within that is told as such even where it leaves out 1.
pub(crate) fn verdict(
    metric: Metric,
    (value, interval): (f64, Interval),
    corrected: Option<(f64, f64)>,
    bound: f64,
) -> Verdict {
    let Some((p, rate)) = corrected else {
        return Verdict::NotJudged;
    };
    if interval.low >= -bound && interval.high <= bound {
        return Verdict::NoDifferenceThatMatters;
    }
    if p >= rate {
        return Verdict::NotDecided;
    }
    match (metric.better(), value > 0.0) {
        (Better::Higher, true) | (Better::Lower, false) => Verdict::Better,
        (Better::Higher, false) | (Better::Lower, true) => Verdict::Worse,
    }
}

/// Half the width of a finding's interval, as a share of its ratio.
pub(crate) fn half_width(finding: &Finding) -> f64 {
    as_share((finding.high.ln() - finding.low.ln()) / 2.0)
}
