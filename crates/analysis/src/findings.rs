//! Comparisons to findings: ratios, intervals, one error rate, verdicts.

use std::collections::{BTreeMap, HashSet};

use bytecost_spec::{Axis, Better, Manifest, Metric, Study};
use bytecost_stats::{blocks_needed, holm, smallest_detectable};

use crate::confidence::{ERROR_RATE, LEVEL};
use crate::contrast::PairContrast;
use crate::pairing::{Pairing, compared};
use crate::phrases;
use crate::progress::as_share;
use crate::result::{Finding, Verdict};
use crate::trials::Trials;

/// Blocks beyond which it is no help to say how many it would take.
const MOST_BLOCKS: usize = 10_000;

/// A comparison before the correction over all of them.
struct Raw<'t> {
    contrast: PairContrast<'t>,
    primary: bool,
    id: String,
}

/// Every comparison of the study that at least three blocks can speak to: by comparison, then
/// metric, then the order of the plan.
pub(crate) fn all(manifest: &Manifest, trials: &Trials<'_>, varied: &[Axis]) -> Vec<Finding> {
    let study = &manifest.study;
    let mut seen = HashSet::new();
    let mut raws = Vec::new();
    for compare in &study.compare {
        let pairings = compared(study, trials, compare);
        for (place, &metric) in compare.metrics.iter().enumerate() {
            for pairing in &pairings {
                let Some(raw) = Raw::of(*pairing, metric, place == 0, trials) else {
                    continue;
                };
                if seen.insert(raw.id.clone()) {
                    raws.push(raw);
                }
            }
        }
    }
    let corrected = holm(&raws.iter().map(|r| r.contrast.p).collect::<Vec<f64>>());
    // The level that the correction asks of the first of the family.
    let strict = ERROR_RATE / raws.len().max(1) as f64;
    let mut detectable: BTreeMap<(usize, u64), f64> = BTreeMap::new();
    let told = raws.iter().zip(corrected).map(|(raw, p_holm)| {
        let blocks = raw.contrast.location.replicates();
        let unit = detectable
            .entry((blocks.count, blocks.lent.to_bits()))
            .or_insert_with(|| smallest_detectable(1.0, blocks, strict).unwrap_or(f64::INFINITY));
        raw.finding(study, p_holm, (strict, *unit), varied)
    });
    told.collect()
}

impl<'t> Raw<'t> {
    fn of(
        pairing: Pairing<'t, 't>,
        metric: Metric,
        primary: bool,
        trials: &Trials<'_>,
    ) -> Option<Raw<'t>> {
        let against = pairing.baseline.cell.value(pairing.axis);
        Some(Raw {
            contrast: PairContrast::of(pairing, metric, &trials.moderations)?,
            primary,
            id: format!("{metric}: {} against {against}", pairing.other.id),
        })
    }

    /// The finding, by the level that is asked of the first of the family and the least difference
    /// that so many blocks of a deviation of 1 find at it.
    fn finding(
        &self,
        study: &Study,
        p_holm: f64,
        (strict, unit): (f64, f64),
        varied: &[Axis],
    ) -> Finding {
        let bound = study.smallest_effect.ln_1p();
        let verdict = self.verdict(p_holm, bound);
        let PairContrast {
            pairing, location, ..
        } = self.contrast;
        let detectable = unit * location.deviation();
        let (axis, ratio) = (pairing.axis, self.contrast.ratio());
        let mut finding = Finding {
            id: self.id.clone(),
            metric: self.contrast.metric,
            axis,
            baseline: pairing.baseline.id.clone(),
            baseline_value: pairing.baseline.cell.value(axis),
            cell: pairing.other.id.clone(),
            value: pairing.other.cell.value(axis),
            primary: self.primary,
            ratio: ratio.value,
            low: ratio.low,
            high: ratio.high,
            blocks: location.count,
            p: self.contrast.p,
            p_holm,
            verdict,
            withheld: None,
            detectable: as_share(detectable),
            blocks_needed: (verdict == Verdict::NotDecided)
                .then(|| self.blocks_to_decide(bound, strict))
                .flatten(),
            sentence: String::new(),
        };
        finding.sentence = phrases::finding(&finding, pairing.other.cell, study, varied);
        finding
    }

    /// An interval within the smallest effect is told as such even where it leaves out 1: what
    /// is significant and tiny does not matter.
    fn verdict(&self, p_holm: f64, bound: f64) -> Verdict {
        let PairContrast {
            metric,
            location,
            interval,
            ..
        } = self.contrast;
        if interval.low >= -bound && interval.high <= bound {
            return Verdict::NoDifferenceThatMatters;
        }
        if p_holm >= ERROR_RATE {
            return Verdict::NotDecided;
        }
        match (metric.better(), location.value > 0.0) {
            (Better::Higher, true) | (Better::Lower, false) => Verdict::Better,
            (Better::Higher, false) | (Better::Lower, true) => Verdict::Worse,
        }
    }

    /// Blocks in which, if the estimate stays, the difference is found at the corrected level or the
    /// interval fits within the smallest effect: either 80 % of the time.
    fn blocks_to_decide(&self, bound: f64, strict: f64) -> Option<u32> {
        let location = self.contrast.location;
        let (deviation, count) = (location.deviation(), location.count);
        let distance = location.value.abs();
        let known = location.replicates();
        let needed = |room, alpha| blocks_needed(deviation, known, room, alpha, MOST_BLOCKS);
        let apart = needed(distance, strict);
        let alike = needed(bound - distance, 1.0 - LEVEL);
        let needed = apart.into_iter().chain(alike).min()?;
        u32::try_from(needed.max(count + 1)).ok()
    }
}

/// Half the width of a finding's interval, as a share of its ratio.
pub(crate) fn half_width(finding: &Finding) -> f64 {
    as_share((finding.high.ln() - finding.low.ln()) / 2.0)
}
