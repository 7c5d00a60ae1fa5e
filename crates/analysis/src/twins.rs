//! Baselines compared with their twins: the noise floor of a run, and a check on its intervals.

use std::collections::BTreeSet;

use bytecost_spec::Study;
use bytecost_stats::{at_least, trimmed_mean};

use crate::cells::exp;
use crate::confidence::ERROR_RATE;
use crate::confidence::{FEWEST, LEVEL};
use crate::pairing::compared;
use crate::phrases;
use crate::result::{NoiseFloor, Twin};
use crate::trials::Trials;

/// Every baseline that has a twin, in the first metric of each comparison: outside of the findings
/// and of their correction.
pub(crate) fn all(study: &Study, trials: &Trials<'_>) -> Vec<Twin> {
    let mut seen = BTreeSet::new();
    let mut twins = Vec::new();
    for compare in &study.compare {
        let Some(&metric) = compare.metrics.first() else {
            continue;
        };
        for pairing in compared(study, trials, compare) {
            let cell = pairing.baseline;
            if !seen.insert((&cell.id, metric)) {
                continue;
            }
            let both = cell.by_block.iter().filter_map(|(block, own)| {
                let twin = cell.twin.get(block)?.value(metric).known()?;
                Some((twin / own.value(metric).known()?).ln())
            });
            let logs: Vec<f64> = both.collect();
            // A zero on either side has no ratio, and leaving it out would bend the rest.
            let fits = logs.len() >= FEWEST && logs.iter().all(|l| l.is_finite());
            let found = trimmed_mean(&logs).filter(|_| fits).and_then(|location| {
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
            });
            twins.extend(found);
        }
    }
    twins
}

/// What the twins of a run come to.
pub(crate) fn floor(twins: &[Twin], study: &Study, trials: &Trials<'_>) -> Option<NoiseFloor> {
    let width = |t: &Twin| t.high.ln() - t.low.ln();
    let widest = twins
        .iter()
        .max_by(|a, b| width(a).total_cmp(&width(b)))?
        .clone();
    let different = twins.iter().filter(|t| t.different).count();
    let axis = study.compare.first()?.axis;
    let cell = trials.by_id(&widest.cell)?.cell;
    let floor = NoiseFloor {
        twins: twins.len(),
        different,
        chance: at_least(different as u64, twins.len() as u64, ERROR_RATE),
        sentence: format!(
            "Noise floor today: {} against itself {} in {}{}; {different} of {} came out different ({} would by chance).",
            axis.subject(&cell.value(axis)),
            phrases::ratio(widest.ratio, widest.low, widest.high),
            phrases::metric(widest.metric, trials.unit),
            if twins.len() > 1 {
                " at the widest"
            } else {
                ""
            },
            phrases::count(twins.len(), "twin"),
            phrases::percent(ERROR_RATE),
        ),
        widest,
    };
    Some(floor)
}
