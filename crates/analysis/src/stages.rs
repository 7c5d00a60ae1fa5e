//! The stages of an analysis: what was measured, what is judged of it, and why. Each holds the one before it.

use bytecost_spec::{Measure, Metric};

use crate::comparison::{Comparisons, Pairing};
use crate::confidence::ERROR_RATE;
use crate::input::Input;
use crate::result::{
    Caveat, CellBooks, CellCopies, CellCounts, CellFootprint, CellResult, CellTime, CountingCost,
    Finding, FindingCauses, Gap, NoiseFloor, PairSeen, Point, StudyFacts, Twin, Uncertain, Verdict,
};
use crate::stalls::Stalls;
use crate::trials::{CellTrials, Trials};

/// The numbers of a run: nothing is decided of them.
pub(crate) struct Measured<'v> {
    pub(crate) input: &'v Input<'v>,
    pub(crate) trials: &'v Trials<'v>,
    pub(crate) study: StudyFacts,
    pub(crate) stalls: Stalls,
    pub(crate) cells: Vec<CellResult>,
    pub(crate) copies: Vec<CellCopies>,
    pub(crate) counts: Vec<CellCounts>,
    pub(crate) counting_cost: Option<CountingCost>,
    pub(crate) cpu_time: Vec<CellTime>,
    pub(crate) books: Vec<CellBooks>,
    pub(crate) footprints: Vec<CellFootprint>,
    pub(crate) twins: Vec<Twin>,
    pub(crate) noise_floor: Option<NoiseFloor>,
    pub(crate) comparisons: Comparisons<'v>,
}

/// The verdicts of a run, with the caveats that limit them.
pub(crate) struct Judged<'v> {
    pub(crate) measured: &'v Measured<'v>,
    pub(crate) caveats: Vec<Caveat>,
    /// One for each comparison of the study, in their order.
    pub(crate) findings: Vec<Finding>,
}

/// The verdicts with the causes of decided differences.
pub(crate) struct Explained<'v> {
    pub(crate) measured: &'v Measured<'v>,
    pub(crate) judged: &'v Judged<'v>,
    pub(crate) causes: Vec<FindingCauses>,
}

impl<'v> Measured<'v> {
    pub(crate) fn result(&self, id: &str) -> Option<&CellResult> {
        self.cells.iter().find(|c| c.id == id)
    }

    /// The error rate of verdicts that are promised together.
    pub(crate) fn error_rate(&self) -> f64 {
        ERROR_RATE * self.input.manifest.rate_share()
    }

    /// A metric in a cell of the plan: what was measured, or why nothing was.
    pub(crate) fn point(&self, cell: &CellResult, metric: Metric) -> Point {
        match cell.estimates.get(&metric) {
            Some(estimate) => Point::Measured(*estimate),
            None => Point::Gap(self.gap(self.trials.by_id(&cell.id).as_slice(), metric)),
        }
    }

    /// The reason for which a cell has no number in a metric, or two cells have no ratio.
    pub(crate) fn gap(&self, cells: &[&CellTrials<'_>], metric: Metric) -> Gap {
        let results = || cells.iter().filter_map(|c| self.result(&c.id));
        let is_without = |r: &CellResult| r.trials > 0 && !r.estimates.contains_key(&metric);
        let mut failures = cells.iter().filter_map(|c| c.failures.last());
        if let Some(gap) = results().find_map(|r| r.gap(metric)) {
            gap
        } else if results().any(is_without) {
            Gap::WithoutMeaning(metric)
        } else if let Some(failure) = failures.next() {
            Gap::Failed(failure.reason.clone())
        } else if let Some(why) = self.input.ended_early {
            Gap::EndedEarly(why.to_owned())
        } else if results().any(|r| r.trials == 0) {
            Gap::NotReached
        } else {
            Gap::FewBlocks
        }
    }

    /// The reason for which a cell of the study that works here is not in the plan.
    pub(crate) fn left_out(&self) -> Gap {
        Gap::LeftOut(match self.input.left_out {
            [one] => Some(one.why.clone()),
            _ => None,
        })
    }

    /// The first metric of the first comparison: what the answer speaks of.
    pub(crate) fn main_metric(&self) -> Metric {
        let first = self.input.manifest.study.compare.first();
        first
            .and_then(|c| c.metrics.first().copied())
            .unwrap_or(Metric::both(Measure::CpuSPerGb))
    }

    /// The CPUs that the run could use.
    pub(crate) fn cpus(&self) -> usize {
        self.input.manifest.host.usable_cpus()
    }
}

impl<'v> Judged<'v> {
    /// The comparisons of the study with their verdicts.
    pub(crate) fn pairs(&'v self) -> impl Iterator<Item = JudgedPair<'v>> {
        let each = self
            .measured
            .comparisons
            .of_study
            .iter()
            .zip(&self.findings);
        each.map(|(comparison, finding)| JudgedPair::new(finding, *comparison.pairing()))
    }

    /// The comparison of two cells in a metric, if the study makes it, seen as they are given.
    pub(crate) fn pair(&'v self, pairing: Pairing<'v>, metric: Metric) -> Option<JudgedPair<'v>> {
        let [baseline, other] = [&pairing.baseline.id, &pairing.other.id];
        let mut findings = self.findings.iter();
        let finding = findings.find(|f| f.compares(metric, baseline, other))?;
        Some(JudgedPair::new(finding, pairing))
    }
}

/// A comparison and what was decided of it, seen from either of its cells.
#[derive(Clone, Copy)]
pub(crate) struct JudgedPair<'v> {
    pub(crate) finding: &'v Finding,
    pub(crate) pairing: Pairing<'v>,
    is_turned: bool,
}

impl<'v> JudgedPair<'v> {
    pub(crate) fn new(finding: &'v Finding, pairing: Pairing<'v>) -> JudgedPair<'v> {
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
        let ratio = self.finding.uncertain_ratio();
        if self.is_turned {
            ratio.inverse()
        } else {
            ratio
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
