//! Two cells in a metric, with what is decided of their ratio.

use bytecost_spec::{Better, Metric};
use bytecost_stats::Interval;

use crate::pairing::Pairing;
use crate::result::{Finding, PairSeen, Uncertain, Verdict};

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

    /// The finding, and the direction in which its cells are compared.
    pub(crate) fn seen(&self) -> PairSeen {
        PairSeen {
            finding: self.finding.number,
            is_turned: self.is_turned,
        }
    }

    /// The other cell's metric over the baseline's.
    pub(crate) fn ratio(&self) -> Uncertain {
        let Finding {
            ratio, low, high, ..
        } = *self.finding;
        if self.is_turned {
            Uncertain {
                value: 1.0 / ratio,
                low: 1.0 / high,
                high: 1.0 / low,
            }
        } else {
            Uncertain {
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

/// The verdict on a log ratio: better or worse by its corrected p value at an error rate; no difference
/// that matters if its interval lies within `bound`, even one that excludes 1.
pub(crate) fn verdict(
    metric: Metric,
    (value, interval): (f64, Interval),
    corrected: Option<(f64, f64)>,
    bound: f64,
) -> Verdict {
    let Some((p, rate)) = corrected else {
        return Verdict::NotJudged;
    };
    if interval.low >= -bound && interval.high <= bound {
        return Verdict::NoDifferenceThatMatters;
    }
    if p >= rate {
        return Verdict::NotDecided;
    }
    match (metric.better(), value > 0.0) {
        (Better::Higher, true) | (Better::Lower, false) => Verdict::Better,
        (Better::Higher, false) | (Better::Lower, true) => Verdict::Worse,
    }
}
