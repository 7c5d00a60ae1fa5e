//! Baselines compared with their twins: the noise floor of a run, and a check on its intervals.

use std::collections::BTreeSet;

use bytecost_spec::Metric;
use bytecost_stats::at_least;

use crate::confidence::{ERROR_RATE, LEVEL};
use crate::logs::exp;
use crate::phrases;
use crate::result::{NoiseFloor, Twin};
use crate::trials::{CellTrials, Trials};

/// Every baseline that has a twin, in the first metric of each comparison: outside of the findings
/// and of their correction.
pub(crate) fn all(trials: &Trials<'_>) -> Vec<Twin> {
    let mut seen = BTreeSet::new();
    let first = trials.asked().filter(|asked| asked.is_first());
    let baselines = first.map(|asked| (asked.pairing.baseline, asked.metric));
    let once = baselines.filter(|(cell, metric)| seen.insert((&cell.id, *metric)));
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
    once.filter_map(twin).collect()
}

pub(crate) fn floor(twins: &[Twin], trials: &Trials<'_>) -> Option<NoiseFloor> {
    let width = |t: &Twin| t.high.ln() - t.low.ln();
    let widest = twins.iter().max_by(|a, b| width(a).total_cmp(&width(b)))?;
    let different = twins.iter().filter(|t| t.different).count();
    let axis = trials.study.compare.first()?.axis;
    let cell = trials.by_id(&widest.cell)?.cell;
    let at_the_widest = if twins.len() > 1 {
        " at the widest"
    } else {
        ""
    };
    Some(NoiseFloor {
        widest: widest.clone(),
        twins: twins.len(),
        different,
        chance: at_least(different as u64, twins.len() as u64, ERROR_RATE),
        sentence: format!(
            "Noise floor today: {} against itself {} in {}{at_the_widest}; {different} of {} came out different ({} would by chance).",
            axis.subject(&cell.value(axis)),
            phrases::ratio(widest.ratio, widest.low, widest.high),
            phrases::metric(widest.metric, trials.unit),
            phrases::count(twins.len(), "twin"),
            phrases::percent(ERROR_RATE),
        ),
    })
}
