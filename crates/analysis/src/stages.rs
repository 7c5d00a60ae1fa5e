//! The stages of an analysis: what was measured, what is judged of it, and why. Each knows all that
//! the one before it does.

use std::ops::Deref;

use bytecost_spec::{Axis, Measure, Metric};

use crate::confidence::ERROR_RATE;
use crate::contrast::Comparison;
use crate::copies::Evidence;
use crate::judged_pair::JudgedPair;
use crate::pairing::Pairing;
use crate::result::{
    Caveat, CellBooks, CellFootprint, CellResult, CellTime, Finding, FindingCauses, Gap, Input,
    NoiseFloor, Point, StudyFacts, Twin,
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
    pub(crate) evidence: Evidence,
    pub(crate) cpu_time: Vec<CellTime>,
    pub(crate) books: Vec<CellBooks>,
    pub(crate) footprints: Vec<CellFootprint>,
    pub(crate) twins: Vec<Twin>,
    pub(crate) noise_floor: Option<NoiseFloor>,
    /// Every comparison of the study that at least three blocks can speak to.
    pub(crate) comparisons: Vec<Comparison<'v>>,
}

/// The numbers with what weakens them, and the verdicts that this leaves.
pub(crate) struct Judged<'v> {
    pub(crate) measured: Measured<'v>,
    pub(crate) caveats: Vec<Caveat>,
    /// One for each comparison, in their order.
    pub(crate) findings: Vec<Finding>,
}

/// The verdicts with the causes of decided differences.
pub(crate) struct Explained<'v> {
    pub(crate) judged: Judged<'v>,
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

    /// Axes that take several values in the run, in their order.
    pub(crate) fn varied(&self) -> &[Axis] {
        &self.study.varied
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

    /// Cells with another end and at least one trial that counts.
    pub(crate) fn measured(&self) -> impl Iterator<Item = &'v CellTrials<'v>> {
        self.trials.measured()
    }

    /// The same without those that have a server: what moves bytes by a mover.
    pub(crate) fn moved(&self) -> impl Iterator<Item = &'v CellTrials<'v>> {
        self.measured().filter(|c| !c.cell.is_served())
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
        let each = self.comparisons.iter().zip(&self.findings);
        each.map(|(comparison, finding)| JudgedPair::new(finding, *comparison.pairing()))
    }

    /// The comparison of two cells in a metric, if the study makes it, seen as they are given.
    pub(crate) fn pair(
        &'v self,
        pairing: Pairing<'v, 'v>,
        metric: Metric,
    ) -> Option<JudgedPair<'v>> {
        let [baseline, other] = [&pairing.baseline.id, &pairing.other.id];
        let mut findings = self.findings.iter();
        let finding = findings.find(|f| f.compares(metric, baseline, other))?;
        Some(JudgedPair::new(finding, pairing))
    }
}

impl<'v> Deref for Judged<'v> {
    type Target = Measured<'v>;

    fn deref(&self) -> &Measured<'v> {
        &self.measured
    }
}

impl<'v> Deref for Explained<'v> {
    type Target = Judged<'v>;

    fn deref(&self) -> &Judged<'v> {
        &self.judged
    }
}
