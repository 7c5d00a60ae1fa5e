//! Comparisons to findings: ratios, intervals, one error rate, verdicts.

use std::collections::HashSet;

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
                let Some(raw) = Raw::of(*pairing, metric, place == 0) else {
                    continue;
                };
                if seen.insert(raw.id.clone()) {
                    raws.push(raw);
                }
            }
        }
    }
    let corrected = holm(&raws.iter().map(|r| r.contrast.p).collect::<Vec<f64>>());
    let family = raws.len();
    raws.iter()
        .zip(corrected)
        .map(|(raw, p_holm)| raw.finding(study, p_holm, family, varied))
        .collect()
}

impl<'t> Raw<'t> {
    fn of(pairing: Pairing<'t, 't>, metric: Metric, primary: bool) -> Option<Raw<'t>> {
        let against = pairing.baseline.cell.value(pairing.axis);
        Some(Raw {
            contrast: PairContrast::of(pairing, metric)?,
            primary,
            id: format!("{metric}: {} against {against}", pairing.other.id),
        })
    }

    fn finding(&self, study: &Study, p_holm: f64, family: usize, varied: &[Axis]) -> Finding {
        let bound = study.smallest_effect.ln_1p();
        let verdict = self.verdict(p_holm, bound);
        let PairContrast {
            pairing, location, ..
        } = self.contrast;
        let detectable = smallest_detectable(location.deviation(), location.count);
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
            detectable: as_share(detectable.unwrap_or(f64::INFINITY)),
            blocks_needed: (verdict == Verdict::NotDecided)
                .then(|| self.blocks_to_decide(bound, family))
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

    /// Blocks until either the interval fits within the smallest effect or it leaves out 1 at
    /// the level that the correction asks of the first of the family, if the estimate stays.
    fn blocks_to_decide(&self, bound: f64, family: usize) -> Option<u32> {
        let location = self.contrast.location;
        let deviation = location.deviation();
        let distance = location.value.abs();
        let strict = 1.0 - ERROR_RATE / family.max(1) as f64;
        let apart = blocks_needed(deviation, distance, strict, MOST_BLOCKS);
        let alike = blocks_needed(deviation, bound - distance, LEVEL, MOST_BLOCKS);
        let needed = apart.into_iter().chain(alike).min()?;
        u32::try_from(needed.max(location.count + 1)).ok()
    }
}

/// Half the width of a finding's interval, as a share of its ratio.
pub(crate) fn half_width(finding: &Finding) -> f64 {
    as_share((finding.high.ln() - finding.low.ln()) / 2.0)
}
