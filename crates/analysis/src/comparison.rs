//! Every comparison of a study, once: two cells in a metric, before anything is decided of them.

use bytecost_spec::Metric;
use itertools::Itertools as _;

use crate::contrast::{PairContrast, Ratio};
use crate::logs::as_share;
use crate::pairing::{AskedPair, Pairing};
use crate::result::{Finding, PairSeen, Verdict};
use crate::trials::Trials;

/// A comparison of the study before anything is decided of it.
pub(crate) struct Comparison<'t> {
    pub(crate) asked: AskedPair<'t, 't>,
    pub(crate) contrast: PairContrast<'t>,
    pub(crate) id: String,
}

/// Every comparison of the study that at least three blocks can speak to, in its order.
pub(crate) fn all<'t>(trials: &'t Trials<'t>) -> Vec<Comparison<'t>> {
    let comparisons = trials.asked().filter_map(|asked| {
        let (pairing, metric) = (asked.pairing, asked.metric);
        let contrast = trials.contrast(pairing, metric)?;
        let against = pairing.baseline.cell.value(pairing.axis);
        Some(Comparison {
            id: format!("{metric}: {} against {against}", pairing.other.id),
            asked,
            contrast,
        })
    });
    comparisons.unique_by(|c| c.id.clone()).collect()
}

impl<'t> Comparison<'t> {
    pub(crate) fn metric(&self) -> Metric {
        self.asked.metric
    }

    pub(crate) fn pairing(&self) -> &Pairing<'t, 't> {
        &self.asked.pairing
    }

    /// Returns true if it is judged, in what the study asks for first.
    pub(crate) fn is_first(&self) -> bool {
        self.asked.is_first() && self.is_judged()
    }

    pub(crate) fn is_judged(&self) -> bool {
        self.asked.family().rate().is_some()
    }

    pub(crate) fn blocks(&self) -> usize {
        self.contrast.within.count
    }

    /// Half the width of its interval within the run's rounds, as a share.
    pub(crate) fn half_width(&self) -> f64 {
        as_share(self.contrast.within_interval.half_width())
    }
}

/// A comparison and what was decided of it, seen from either of its cells.
#[derive(Clone, Copy)]
pub(crate) struct JudgedPair<'v> {
    pub(crate) finding: &'v Finding,
    pub(crate) pairing: Pairing<'v, 'v>,
    is_turned: bool,
}

impl<'v> JudgedPair<'v> {
    pub(crate) fn new(finding: &'v Finding, pairing: Pairing<'v, 'v>) -> JudgedPair<'v> {
        JudgedPair {
            finding,
            pairing,
            is_turned: finding.baseline == pairing.other.id,
        }
    }

    /// The same with the other cell as the baseline.
    pub(crate) fn turned(self) -> JudgedPair<'v> {
        JudgedPair::new(self.finding, self.pairing.turned())
    }

    /// Which finding it is, and from which of its cells it is seen.
    pub(crate) fn seen(&self) -> PairSeen {
        PairSeen {
            finding: self.finding.id.clone(),
            is_turned: self.is_turned,
        }
    }

    /// The other cell's metric over the baseline's.
    pub(crate) fn ratio(&self) -> Ratio {
        let Finding {
            ratio, low, high, ..
        } = *self.finding;
        if self.is_turned {
            Ratio {
                value: 1.0 / ratio,
                low: 1.0 / high,
                high: 1.0 / low,
            }
        } else {
            Ratio {
                value: ratio,
                low,
                high,
            }
        }
    }

    /// The verdict on the other cell; none where it is withheld or the study does not judge.
    pub(crate) fn verdict(&self) -> Option<Verdict> {
        let verdict = match (self.finding.verdict, self.is_turned) {
            _ if self.finding.withheld.is_some() => return None,
            (Verdict::NotJudged, _) => return None,
            (Verdict::Better, true) => Verdict::Worse,
            (Verdict::Worse, true) => Verdict::Better,
            (verdict, _) => verdict,
        };
        Some(verdict)
    }

    /// Returns true if the two are decided to differ, or not to.
    pub(crate) fn is_decided(&self) -> bool {
        self.verdict().is_some_and(|v| v != Verdict::NotDecided)
    }

    /// Returns true if no rule withholds how large its ratio is.
    pub(crate) fn has_amount(&self) -> bool {
        self.finding.amount_withheld.is_none()
    }
}
