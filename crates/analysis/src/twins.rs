//! Baselines compared with their twins: the noise floor of a run, and a check on its intervals.

use bytecost_spec::Metric;
use bytecost_stats::at_least;
use itertools::Itertools as _;

use crate::confidence::{ERROR_RATE, LEVEL};
use crate::logs::exp;
use crate::result::{NoiseFloor, Twin};
use crate::trials::{CellTrials, Trials};

/// Every baseline that has a twin, in the first metric of each comparison. Twins are no findings, and
/// their p values are not corrected.
pub(crate) fn all(trials: &Trials<'_>) -> Vec<Twin> {
    let baselines = trials
        .asked()
        .filter(|asked| asked.is_in_main_metric())
        .map(|asked| (asked.pairing.baseline, asked.metric))
        .unique_by(|(cell, metric)| (&cell.id, *metric));
    let twin = |(cell, metric): (&CellTrials<'_>, Metric)| {
        let location = cell.twin_contrast(metric)?;
        let (interval, p) = (location.interval(LEVEL)?, location.p_value(0.0)?);
        Some(Twin {
            cell: cell.id.clone(),
            metric,
            ratio: exp(location.value),
            low: exp(interval.low),
            high: exp(interval.high),
            blocks: location.count,
            p,
            different: p < ERROR_RATE,
        })
    };
    baselines.filter_map(twin).collect()
}

/// The noise floor by the twin with the widest interval.
pub(crate) fn noise_floor(twins: &[Twin], trials: &Trials<'_>) -> Option<NoiseFloor> {
    let width = |t: &Twin| t.high / t.low;
    let widest = twins.iter().max_by(|a, b| width(a).total_cmp(&width(b)))?;
    let different = twins.iter().filter(|t| t.different).count();
    let axis = trials.study.compare.first()?.axis;
    let cell = trials.by_id(&widest.cell)?.cell;
    Some(NoiseFloor {
        widest: widest.clone(),
        twins: twins.len(),
        different,
        chance: at_least(different as u64, twins.len() as u64, ERROR_RATE),
        axis,
        value: cell.value(axis),
    })
}
