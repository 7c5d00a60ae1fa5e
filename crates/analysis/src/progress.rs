//! How precise a running study is so far, for the bar and for the rule that ends it.

use std::collections::BTreeMap;

use bytecost_spec::{Cell, Manifest, Metric, Sample};

use crate::confidence::FEWEST;
use crate::contrast::{PairContrast, is_trimmed};
use crate::pairing::compared;
use crate::trials::Trials;

/// The state of a running study: its least precise comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// Half the width of the widest interval as a share: 0.03 is a ratio known to ± 3 %.
    pub half_width: f64,
    /// The metric that it belongs to: the first of its comparison.
    pub metric: Metric,
    /// [`Cell::id`] of the cell.
    pub cell: String,
    /// [`Cell::id`] of the baseline that the cell is held against.
    pub baseline: String,
    /// Blocks that this comparison has so far.
    pub blocks: usize,
    /// Comparisons that were looked at.
    pub comparisons: usize,
}

/// The widest 95 % interval over the first metric of every comparison of the study.
///
/// Takes the samples so far in their order, and looks at comparisons with at least three blocks;
/// `None` while there is none. It never looks at what a comparison says, only at how precisely:
/// whoever stops by it stops when precise, not when significant.
#[must_use]
pub fn widest_interval(
    manifest: &Manifest,
    cells: &[Cell],
    samples: &[Sample],
) -> Option<Progress> {
    let trials = Trials::of(manifest, cells, samples, &[], &[]);
    let mut widest: Option<Progress> = None;
    let mut comparisons = 0;
    for compare in &manifest.study.compare {
        let Some(&metric) = compare.metrics.first() else {
            continue;
        };
        for pairing in compared(&manifest.study, &trials, compare) {
            let Some(contrast) = PairContrast::of(pairing, metric, &trials.moderations) else {
                continue;
            };
            let half_width = as_share(contrast.interval.half_width());
            let blocks = contrast.location.count;
            comparisons += 1;
            if widest.as_ref().is_none_or(|w| half_width > w.half_width) {
                widest = Some(Progress {
                    half_width,
                    metric,
                    cell: pairing.other.id.clone(),
                    baseline: pairing.baseline.id.clone(),
                    blocks,
                    comparisons: 0,
                });
            }
        }
    }
    widest.map(|w| Progress { comparisons, ..w })
}

/// The log ratios of every comparison of the study that its interval is made of by the trimmed
/// mean: each with what is compared, in the order of metrics, and by block.
///
/// For who checks intervals by resampling a run.
#[must_use]
pub fn log_ratios(
    manifest: &Manifest,
    cells: &[Cell],
    samples: &[Sample],
) -> Vec<(Metric, BTreeMap<u32, f64>)> {
    let trials = Trials::of(manifest, cells, samples, &[], &[]);
    let mut found = Vec::new();
    for compare in &manifest.study.compare {
        let metrics = compare.metrics.iter().copied();
        for metric in metrics.filter(|m| is_trimmed(m.measure)) {
            for pairing in compared(&manifest.study, &trials, compare) {
                let logs = pairing.log_ratios_by_block(metric).into_iter().collect();
                found.push((metric, logs));
            }
        }
    }
    found.retain(|(_, logs): &(Metric, BTreeMap<u32, f64>)| logs.len() >= FEWEST);
    found.sort_by_key(|(metric, _)| *metric);
    found
}

/// Half the width of an interval of log ratios, as a share of the ratio.
pub(crate) fn as_share(half_width_of_logs: f64) -> f64 {
    crate::cells::exp(half_width_of_logs) - 1.0
}
