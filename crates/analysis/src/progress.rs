//! The precision of a running study, for the progress bar and for the stopping rule.
//!
//! Stopping at a verdict raises the rate of false ones above the error rate. Stopping at the width of
//! an interval does not.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use bytecost_spec::manifest::RatioNoise;
use bytecost_spec::study::Family;
use bytecost_spec::{Axis, Cell, Manifest, Metric, Sample, Unit, Value};
use bytecost_stats::{median, quantile};
use itertools::Itertools as _;

use crate::confidence::FEWEST;
use crate::contrast::{PairContrast, is_trimmed};
use crate::grouping::grouped;
use crate::logs::as_share;
use crate::pairing::compared;
use crate::result::Input;
use crate::trials::Trials;

/// The share of comparisons that have no more noise than what is taken for that of a run.
const NOISE_SHARE: f64 = 0.75;
/// Comparisons and blocks of each that are the fewest to take a run's noise from.
const NOISE_COMPARISONS: usize = 3;
const NOISE_BLOCKS: usize = 6;

/// The most ways that are shown.
const MOST_WAYS: usize = 6;

/// The first metric of a study's first comparison, so far.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveEstimates {
    /// The metric.
    pub metric: Metric,
    /// The word for one message.
    pub unit: Unit,
    /// The axis in which the ways differ.
    pub axis: Axis,
    /// The cell that they are compared with.
    pub baseline: Cell,
    /// One way each, in the order of the plan.
    pub ways: Vec<LiveEstimate>,
}

/// One way compared with the baseline, so far.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveEstimate {
    /// Its value of the axis.
    pub value: Value,
    /// Its metric over the baseline's.
    pub ratio: f64,
    /// Half the width of the 95 % interval, as a share: 0.03 is a ratio known to ± 3 %.
    pub half_width: f64,
}

/// The state of a running study: its least precise comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// Half the width of the widest interval as a share: 0.03 is a ratio known to ± 3 %.
    pub half_width: f64,
    /// The metric that it belongs to.
    pub metric: Metric,
    /// [`Cell::id`] of the cell.
    pub cell: String,
    /// [`Cell::id`] of the baseline that the cell is compared with.
    pub baseline: String,
    /// Blocks that this comparison has so far.
    pub blocks: usize,
    /// The number of comparisons.
    pub comparisons: usize,
}

/// A running study. Its samples are sorted once, at the first use.
#[derive(Debug)]
pub struct Interim<'a> {
    input: Input<'a>,
    trials: OnceCell<Trials<'a>>,
}

impl<'a> Interim<'a> {
    /// A running study with the log so far.
    pub fn new(input: Input<'a>) -> Interim<'a> {
        Interim {
            input,
            trials: OnceCell::new(),
        }
    }

    /// The widest 95 % interval over the primary comparisons of the study that have at least three
    /// blocks; `None` while there is none. It uses the width of intervals alone: a
    /// rule that stops by it stops when precise, not when significant.
    pub fn widest_interval(&self) -> Option<Progress> {
        let all = primaries(self.trials());
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

    /// The noise of ratios from block to block: its upper quartile over the primary comparisons. None
    /// where too few of them have enough blocks.
    pub fn noise(&self) -> Option<RatioNoise> {
        noise_of(self.input.manifest, self.trials())
    }

    /// The estimates for a display: of the baselines that most ways are compared with, the one in the
    /// middle. None while no way has three blocks.
    pub fn estimates(&self) -> Option<LiveEstimates> {
        let trials = self.trials();
        let compare = trials.study.compare.first()?;
        let metric = *compare.metrics.first()?;
        let pairings = compared(trials, compare).into_iter();
        let groups = grouped(pairings.map(|p| (&p.baseline.id, p)));
        let most = groups.iter().map(|(_, ways)| ways.len()).max()?;
        let fullest = groups
            .iter()
            .filter(|(_, ways)| ways.len() == most)
            .collect_vec();
        let (_, chosen) = fullest[fullest.len() / 2];
        let contrasts = chosen
            .iter()
            .filter_map(|p| PairContrast::new(*p, metric, trials.moderations()));
        let way = |contrast: PairContrast<'_>| {
            let ratio = contrast.ratio();
            LiveEstimate {
                value: contrast.pairing.other.cell.value(compare.axis),
                ratio: ratio.value,
                half_width: (ratio.high / ratio.low).sqrt() - 1.0,
            }
        };
        let ways: Vec<LiveEstimate> = contrasts.take(MOST_WAYS).map(way).collect();
        (!ways.is_empty()).then(|| LiveEstimates {
            metric,
            unit: trials.unit,
            axis: compare.axis,
            baseline: chosen[0].baseline.cell.clone(),
            ways,
        })
    }

    fn trials(&self) -> &Trials<'a> {
        self.trials.get_or_init(|| Trials::of_run(&self.input))
    }
}

pub(crate) fn noise_of(manifest: &Manifest, trials: &Trials<'_>) -> Option<RatioNoise> {
    let mut all = primaries(trials);
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
        between: None,
    })
}

/// The primary comparisons with at least three blocks.
fn primaries<'t>(trials: &'t Trials<'t>) -> Vec<PairContrast<'t>> {
    let primary = trials.asked().filter(|a| a.family() == Family::Primary);
    let contrast =
        primary.filter_map(|a| PairContrast::new(a.pairing, a.metric, trials.moderations()));
    contrast.collect()
}

fn half_width(contrast: &PairContrast<'_>) -> f64 {
    as_share(contrast.interval.half_width())
}

/// The log ratios of every comparison of the study whose interval the trimmed mean makes, to check
/// it by resampling: each with what is compared, in the order of metrics, and by block.
pub fn log_ratios(
    manifest: &Manifest,
    cells: &[Cell],
    samples: &[Sample],
) -> Vec<(Metric, BTreeMap<u32, f64>)> {
    let trials = Trials::of_run(&Input::of(manifest, cells, samples));
    trials
        .asked()
        .filter(|a| is_trimmed(a.metric.measure))
        .map(|a| {
            let logs = a.pairing.log_ratios_by_block(a.metric);
            (a.metric, logs.into_iter().collect::<BTreeMap<u32, f64>>())
        })
        .filter(|(_, logs)| logs.len() >= FEWEST)
        .sorted_by_key(|(metric, _)| *metric)
        .collect()
}
