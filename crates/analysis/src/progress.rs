//! The precision of a running study, for the progress bar and for the stopping rule.
//!
//! Stopping at a verdict raises the rate of false ones above the error rate. Stopping at the width of
//! an interval does not.

use std::collections::BTreeMap;

use bytecost_spec::manifest::RatioNoise;
use bytecost_spec::study::Family;
use bytecost_spec::{Axis, Cell, Manifest, Metric, Sample, Unit, Value};
use bytecost_stats::{Location, median, quantile};
use itertools::Itertools as _;

use crate::comparison::{AskedPair, Comparison};
use crate::confidence::FEWEST;
use crate::grouping::grouped;
use crate::input::Input;
use crate::logs::exp;
use crate::measures::is_trimmed;
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

/// A running study with the log so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Interim {
    /// The widest 95 % interval over the primary comparisons of the study that have at least three
    /// blocks; none while there is none. It uses the width of intervals alone: a rule that stops by it
    /// stops when precise, not when significant.
    pub widest: Option<Progress>,
    /// The noise of ratios from block to block: its upper quartile over the primary comparisons. None
    /// where too few of them have enough blocks.
    pub noise: Option<RatioNoise>,
    /// The estimates for a display: of the baselines that most ways are compared with, the one in the
    /// middle. None while no way has three blocks.
    pub estimates: Option<LiveEstimates>,
}

impl Interim {
    /// The state of a run by its records so far.
    pub fn new(input: Input<'_>) -> Interim {
        let trials = Trials::of_run(&input);
        let is_primary = |asked: &AskedPair<'_>| asked.family() == Family::Primary;
        let comparisons =
            trials.comparisons(None, |asked| is_primary(asked) || is_displayed(asked));
        let primary = || comparisons.iter().filter(|c| is_primary(&c.asked));
        Interim {
            widest: widest(primary()),
            noise: noise(input.manifest, primary()),
            estimates: estimates(&trials, &comparisons),
        }
    }
}

fn widest<'c>(primary: impl Iterator<Item = &'c Comparison<'c>> + Clone) -> Option<Progress> {
    let half_width = |c: &&Comparison<'_>| c.half_width();
    let widest = primary
        .clone()
        .max_by(|a, b| half_width(a).total_cmp(&half_width(b)))?;
    Some(Progress {
        half_width: widest.half_width(),
        metric: widest.metric(),
        cell: widest.pairing().other.id.clone(),
        baseline: widest.pairing().baseline.id.clone(),
        blocks: widest.blocks(),
        comparisons: primary.count(),
    })
}

/// The noise of ratios from block to block over the primary comparisons of a run.
pub(crate) fn noise<'c>(
    manifest: &Manifest,
    primary: impl Iterator<Item = &'c Comparison<'c>>,
) -> Option<RatioNoise> {
    let within = primary
        .filter(|c| is_trimmed(c.metric().measure) && c.blocks() >= NOISE_BLOCKS)
        .map(|c| c.contrast.within)
        .collect_vec();
    if within.len() < NOISE_COMPARISONS {
        return None;
    }
    let deviations = within.iter().map(Location::deviation).collect_vec();
    let lent = within.iter().map(|l| l.lent).collect_vec();
    let deviation = quantile(&deviations, NOISE_SHARE)?;
    (deviation.is_finite() && deviation > 0.0).then_some(RatioNoise {
        deviation,
        lent: median(&lent)?,
        run: Some(manifest.id.clone()),
        between: None,
    })
}

/// Returns true if a display may show it: in the first metric of the study's first comparison.
fn is_displayed(asked: &AskedPair<'_>) -> bool {
    asked.number == 0 && asked.is_in_main_metric()
}

fn estimates(trials: &Trials<'_>, comparisons: &[Comparison<'_>]) -> Option<LiveEstimates> {
    let asked = trials.asked().filter(is_displayed);
    let groups = grouped(asked.map(|a| (&a.pairing.baseline.id, a)));
    let most = groups.iter().map(|(_, ways)| ways.len()).max()?;
    let fullest = groups
        .iter()
        .filter(|(_, ways)| ways.len() == most)
        .collect_vec();
    let (baseline, ways) = fullest[fullest.len() / 2];
    let AskedPair {
        metric, pairing, ..
    } = ways[0];
    let is_shown = |c: &&Comparison<'_>| {
        is_displayed(&c.asked) && c.pairing().baseline.id == **baseline && c.metric() == metric
    };
    let way = |c: &Comparison<'_>| LiveEstimate {
        value: c.pairing().other.cell.value(pairing.axis),
        ratio: exp(c.contrast.within.value),
        half_width: c.half_width(),
    };
    let shown = comparisons.iter().filter(is_shown).take(MOST_WAYS);
    let estimates: Vec<LiveEstimate> = shown.map(way).collect();
    (!estimates.is_empty()).then(|| LiveEstimates {
        metric,
        unit: trials.unit,
        axis: pairing.axis,
        baseline: pairing.baseline.cell.clone(),
        ways: estimates,
    })
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
