//! What a question may look at, and what there is to say to it.

use bytecost_spec::evidence::{EvidenceAsked, Means};
use bytecost_spec::{Cell, Measure, Metric};

use crate::phrases;
use crate::result::Finding;
use crate::view::View;

/// Rows of numbers that are shown of one kind; the rest is in the tables.
pub(super) const MOST_ROWS: usize = 8;

/// What there is to say to a question.
pub(super) struct Explained {
    /// The answer, or what is missing for one in a short clause.
    pub(super) answer: Result<String, Missing>,
    pub(super) numbers: Vec<String>,
    pub(super) evidence: Vec<String>,
    pub(super) findings: Vec<String>,
}

/// Why a question has no answer.
pub(super) struct Missing {
    pub(super) why: String,
    /// Whether no run on this machine can answer it.
    pub(super) ever: bool,
}

impl<T: Into<String>> From<T> for Missing {
    fn from(why: T) -> Missing {
        Missing {
            why: why.into(),
            ever: false,
        }
    }
}

impl Explained {
    pub(super) fn of(answer: Result<String, Missing>) -> Explained {
        Explained {
            answer,
            numbers: Vec::new(),
            evidence: Vec::new(),
            findings: Vec::new(),
        }
    }
}

impl<'v> View<'v> {
    /// The first metric of the study, then CPU time per byte, then throughput.
    pub(super) fn metrics(&self) -> Vec<Metric> {
        let mut metrics = vec![self.main_metric()];
        for measure in [Measure::CpuSPerGb, Measure::ThroughputGbitPerS] {
            if metrics.iter().all(|m| m.measure != measure) {
                metrics.push(Metric::both(measure));
            }
        }
        metrics
    }

    /// Where a finding's cells are: `` at 64 KiB over loopback``, with a space in front.
    pub(super) fn place(&self, finding: &Finding) -> String {
        let place = self.result(&finding.cell).map_or_else(String::new, |c| {
            let others = self.varied.iter().filter(|a| **a != finding.axis);
            let values: Vec<_> = others.map(|a| (*a, c.cell.value(*a))).collect();
            phrases::circumstances(&values)
        });
        match place.is_empty() {
            true => place,
            false => format!(" {place}"),
        }
    }

    /// A metric in words.
    pub(super) fn words(&self, metric: Metric) -> String {
        phrases::metric(metric, self.trials.unit)
    }

    /// What became of a means of evidence; none where it was not looked for.
    pub(super) fn asked(&self, means: Means) -> Option<&'v EvidenceAsked> {
        let mut all = self.input.manifest.evidence.iter();
        all.find(|a| a.means == means)
    }

    /// Why the first cell that fits was refused.
    pub(super) fn refused(&self, fits: impl Fn(&Cell) -> bool) -> Option<String> {
        let mut all = self.input.refusals.iter();
        let own = all.find(|r| Cell::from_id(&r.what).is_some_and(|c| fits(&c)))?;
        Some(own.why.trim_end_matches('.').to_owned())
    }
}
