//! Which cells' rates something else sets than what is compared.

use std::collections::BTreeSet;

use bytecost_spec::Measure;

use crate::result::{Caveat, Finding};

/// The kind of the caveat that several ways have one rate.
pub(crate) const SAME_RATE: &str = "same-rate";

/// Kinds of caveats which say that something else than what is compared sets the rates.
const SET_RATES: [&str; 6] = [
    "path-limit",
    "quota-around",
    "pacing",
    "receive-window",
    SAME_RATE,
    "receiver-bound",
];

/// The cells whose rates something else sets, by their id.
#[derive(Debug, Default)]
pub(crate) struct RateLimits(BTreeSet<String>);

impl RateLimits {
    /// Those that some caveat names.
    pub(crate) fn of(caveats: &[Caveat]) -> RateLimits {
        let all = caveats
            .iter()
            .filter(|d| SET_RATES.contains(&d.kind.as_str()));
        RateLimits(all.flat_map(|d| d.cells.iter().cloned()).collect())
    }

    /// Whether a finding compares rates or times that are not those of what is compared.
    pub(crate) fn touch(&self, finding: &Finding) -> bool {
        is_of_time(finding.metric.measure)
            && (self.0.contains(&finding.cell) || self.0.contains(&finding.baseline))
    }
}

/// Whether a measure is a rate or a time that goes by.
pub(crate) fn is_of_time(measure: Measure) -> bool {
    matches!(
        measure,
        Measure::ThroughputGbitPerS
            | Measure::MessagesPerS
            | Measure::MsPerMessage
            | Measure::LatencyUsP50
            | Measure::LatencyUsP90
            | Measure::LatencyUsP99
            | Measure::LatencyUsP999
            | Measure::LatencyUsMax
    )
}
