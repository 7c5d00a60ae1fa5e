//! What a running study shows of itself: ratios with their precision at one place, and no verdict.
//!
//! Who looks at verdicts while blocks are added, and stops at one, is wrong more often than the
//! error rate says. A ratio that becomes more precise misleads nobody who has to wait for the end.

use bytecost_spec::{Axis, Cell, Metric, Unit};

use crate::contrast::PairContrast;
use crate::pairing::compared;
use crate::trials::Trials;

/// How many ways are shown at most.
const MOST_WAYS: usize = 6;

/// The first metric of a study's first comparison, so far.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveEstimates {
    /// What is measured.
    pub metric: Metric,
    /// What one message is called in words.
    pub unit: Unit,
    /// What the ways differ in.
    pub axis: Axis,
    /// What they are compared with.
    pub baseline: Cell,
    /// One way each, in the order of the plan.
    pub ways: Vec<LiveEstimate>,
}

/// One way compared with the baseline, so far.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveEstimate {
    /// Its value of the axis.
    pub value: String,
    /// Its metric over the baseline's.
    pub ratio: f64,
    /// Half the width of the 95 % interval, as a share: 0.03 is a ratio known to ± 3 %.
    pub half_width: f64,
}

/// Those of the baseline in the middle, of the baselines that most ways are compared with.
pub(crate) fn estimates(trials: &Trials<'_>) -> Option<LiveEstimates> {
    let compare = trials.study.compare.first()?;
    let metric = *compare.metrics.first()?;
    let pairings = compared(trials.study, trials, compare).into_iter();
    let groups = crate::grouped(pairings.map(|p| (&p.baseline.id, p)));
    let most = groups.iter().map(|(_, ways)| ways.len()).max()?;
    let fullest: Vec<_> = groups
        .iter()
        .filter(|(_, ways)| ways.len() == most)
        .collect();
    let (_, chosen) = fullest[fullest.len() / 2];
    let contrasts =
        (chosen.iter()).filter_map(|p| PairContrast::of(*p, metric, trials.moderations()));
    let ways = contrasts.take(MOST_WAYS).map(|contrast| {
        let ratio = contrast.ratio();
        LiveEstimate {
            value: contrast.pairing.other.cell.value(compare.axis),
            ratio: ratio.value,
            half_width: (ratio.high / ratio.low).sqrt() - 1.0,
        }
    });
    let ways: Vec<LiveEstimate> = ways.collect();
    let baseline = chosen.first()?.baseline.cell.clone();
    (!ways.is_empty()).then_some(LiveEstimates {
        metric,
        unit: trials.unit,
        axis: compare.axis,
        baseline,
        ways,
    })
}
