//! All that is known of a run, as whoever says something of it asks for it.

use bytecost_spec::{Axis, Measure, Metric};

use crate::confidence::ERROR_RATE;
use crate::phrases;
use crate::result::{Analysis, CellResult, Finding, Input, Point};
use crate::stalls::Stalls;
use crate::trials::{CellTrials, Trials};

/// What caveats, answers, crossovers and explanations look at.
pub(crate) struct View<'v> {
    pub(crate) input: &'v Input<'v>,
    pub(crate) trials: &'v Trials<'v>,
    pub(crate) stalls: Stalls,
    /// The result as far as it is made: caveats that withhold verdicts are there before the findings
    /// have theirs, the others after, and causes last.
    pub(crate) known: Analysis,
}

impl<'v> View<'v> {
    /// The error rate of verdicts that are promised together.
    pub(crate) fn error_rate(&self) -> f64 {
        ERROR_RATE * self.input.manifest.rate_share()
    }

    /// Axes that take several values in the run, in their order.
    pub(crate) fn varied(&self) -> &[Axis] {
        &self.known.study.varied
    }

    pub(crate) fn words(&self, metric: Metric) -> String {
        phrases::metric(metric, self.trials.unit)
    }

    /// A metric in a cell of the plan: what was measured, or why nothing was.
    pub(crate) fn point(&self, cell: &CellResult, metric: Metric) -> Point {
        if let Some(estimate) = cell.estimates.get(&metric) {
            return Point::Measured(*estimate);
        }
        let failed = || self.trials.by_id(&cell.id)?.failures.last();
        Point::Gap(if let Some(why) = cell.absent.get(&metric) {
            why.clone()
        } else if cell.trials > 0 {
            format!("{} has no meaning here", self.words(metric))
        } else if let Some(failure) = failed() {
            format!("failed: {}", failure.reason)
        } else if let Some(why) = self.input.ended_early {
            format!("the run ended before its turn: {why}")
        } else {
            "no trial reached it".to_owned()
        })
    }

    /// Why a cell that the study spans is not in the plan, where nothing refuses it.
    pub(crate) fn left_out(&self) -> String {
        match self.input.left_out {
            [one] => format!("left out: {}", one.why),
            _ => "left out: the budget did not reach it".to_owned(),
        }
    }

    /// Cells with another end and at least one trial that counts.
    pub(crate) fn measured(&self) -> impl Iterator<Item = &'v CellTrials<'v>> {
        self.trials.moving().filter(|c| !c.by_block.is_empty())
    }

    /// The same without those that have a server: what moves bytes by a mover.
    pub(crate) fn moved(&self) -> impl Iterator<Item = &'v CellTrials<'v>> {
        self.measured().filter(|c| !c.cell.is_served())
    }

    /// The first metric of the first comparison: what the answer speaks of.
    /// A finding in a sentence.
    pub(crate) fn sentence(&self, finding: &Finding) -> String {
        let cell = self.known.result(&finding.cell);
        let cell = cell.map(|c| c.cell.clone()).unwrap_or_default();
        let study = &self.input.manifest.study;
        phrases::finding(finding, (&cell, self.trials.unit), study, self.varied())
    }

    pub(crate) fn main_metric(&self) -> Metric {
        let compare = self.input.manifest.study.compare.first();
        let metric = compare.and_then(|c| c.metrics.first().copied());
        metric.unwrap_or(Metric::both(Measure::CpuSPerGb))
    }

    pub(crate) fn cpus(&self) -> usize {
        cpus(self.input)
    }
}

pub(crate) fn cpus(input: &Input<'_>) -> usize {
    let host = &input.manifest.host;
    match host.cpus_allowed.len() {
        0 => host.cpus.len(),
        allowed => allowed,
    }
}
