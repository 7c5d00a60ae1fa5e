//! How precise a running study is so far: for the bar, for the cells that later blocks measure, and
//! for the rule that ends it.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use bytecost_spec::manifest::RatioNoise;
use bytecost_spec::study::Family;
use bytecost_spec::{Cell, Manifest, Metric, Sample};
use bytecost_stats::{median, quantile};

use crate::confidence::FEWEST;
use crate::contrast::{PairContrast, is_trimmed};
use crate::pairing::compared;
use crate::trials::Trials;
use crate::watched::{self, LiveEstimates};

/// The share of comparisons that have no more noise than what is taken for that of a run.
const NOISE_SHARE: f64 = 0.75;
/// Comparisons and blocks of each that are the fewest to take a run's noise from.
const NOISE_COMPARISONS: usize = 3;
const NOISE_BLOCKS: usize = 6;

/// The state of a running study: its least precise comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// Half the width of the widest interval as a share: 0.03 is a ratio known to ± 3 %.
    pub half_width: f64,
    /// The metric that it belongs to.
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

/// A run while it goes on: its samples are sorted when something is first asked of it, and once.
#[derive(Debug)]
pub struct Interim<'a> {
    manifest: &'a Manifest,
    cells: &'a [Cell],
    samples: &'a [Sample],
    trials: OnceCell<Trials<'a>>,
}

impl<'a> Interim<'a> {
    /// Of the samples so far in their order.
    pub fn of(manifest: &'a Manifest, cells: &'a [Cell], samples: &'a [Sample]) -> Interim<'a> {
        Interim {
            manifest,
            cells,
            samples,
            trials: OnceCell::new(),
        }
    }

    /// The widest 95 % interval over the primary comparisons of the study that have at least three
    /// blocks; `None` while there is none. It never looks at what a comparison says, only at how
    /// precisely: whoever stops by it stops when precise, not when significant.
    pub fn widest_interval(&self) -> Option<Progress> {
        let all = primaries(self.manifest, self.trials());
        let widest = (all.iter()).max_by(|a, b| half_width(a).total_cmp(&half_width(b)))?;
        Some(Progress {
            half_width: half_width(widest),
            metric: widest.metric,
            cell: widest.pairing.other.id.clone(),
            baseline: widest.pairing.baseline.id.clone(),
            blocks: widest.location.count,
            comparisons: all.len(),
        })
    }

    /// The places of the cells that need more blocks: those of primary comparisons whose intervals
    /// are wider than `precision`, with their baselines and the twins of these. In order; none where
    /// all are narrow enough.
    ///
    /// It looks at widths alone, decided or not. Choosing by what a comparison says would be
    /// stopping by significance.
    pub fn too_wide(&self, precision: f64) -> Vec<usize> {
        let mut all = primaries(self.manifest, self.trials());
        all.retain(|contrast| half_width(contrast) > precision);
        let is_needed = |cell: &Cell| {
            let mut pairs = all.iter().map(|contrast| contrast.pairing);
            match cell.twin {
                true => pairs.any(|p| *p.baseline.cell == cell.other_twin()),
                false => pairs.any(|p| [p.baseline.cell, p.other.cell].contains(&cell)),
            }
        };
        let places = 0..self.cells.len();
        places.filter(|&i| is_needed(&self.cells[i])).collect()
    }

    /// How much the ratios of a run's primary comparisons vary from block to block: three of four
    /// vary no more. None where too few have enough blocks.
    pub fn noise(&self) -> Option<RatioNoise> {
        noise_of(self.manifest, self.trials())
    }

    /// What there is to watch: of the baselines that most ways are compared with, the one in the
    /// middle. None while no way has three blocks.
    pub fn estimates(&self) -> Option<LiveEstimates> {
        watched::estimates(self.trials())
    }

    fn trials(&self) -> &Trials<'a> {
        self.trials
            .get_or_init(|| Trials::of(self.manifest, self.cells, self.samples, &[], &[]))
    }
}

pub(crate) fn noise_of(manifest: &Manifest, trials: &Trials<'_>) -> Option<RatioNoise> {
    let mut all = primaries(manifest, trials);
    all.retain(|c| is_trimmed(c.metric.measure) && c.location.count >= NOISE_BLOCKS);
    if all.len() < NOISE_COMPARISONS {
        return None;
    }
    let deviations: Vec<f64> = all.iter().map(|c| c.location.deviation()).collect();
    let lent: Vec<f64> = all.iter().map(|c| c.location.lent).collect();
    let deviation = quantile(&deviations, NOISE_SHARE)?;
    (deviation.is_finite() && deviation > 0.0).then_some(RatioNoise {
        deviation,
        lent: median(&lent)?,
        run: Some(manifest.id.clone()),
    })
}

/// The primary comparisons that at least three blocks can speak to.
fn primaries<'t>(manifest: &Manifest, trials: &'t Trials<'t>) -> Vec<PairContrast<'t>> {
    let mut all = Vec::new();
    for compare in &manifest.study.compare {
        let pairings = compared(&manifest.study, trials, compare);
        for &metric in &compare.metrics {
            let is_primary = |facts| compare.family_of(facts, metric) == Family::Primary;
            let primary = pairings.iter().filter(|p| is_primary(&p.other.facts));
            all.extend(primary.filter_map(|p| PairContrast::of(*p, metric, trials.moderations())));
        }
    }
    all
}

fn half_width(contrast: &PairContrast<'_>) -> f64 {
    as_share(contrast.interval.half_width())
}

/// The log ratios of every comparison of the study that its interval is made of by the trimmed
/// mean: each with what is compared, in the order of metrics, and by block.
///
/// For who checks intervals by resampling a run.
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
