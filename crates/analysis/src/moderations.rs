//! What the comparisons of a run say of the variance of each other, metric by metric.

use std::collections::BTreeMap;

use bytecost_spec::Metric;
use bytecost_stats::Moderation;

/// Of each metric that a study compares in, what its comparisons have in common.
#[derive(Clone, Debug, Default)]
pub(crate) struct Moderations(pub(crate) BTreeMap<Metric, Moderation>);

impl Moderations {
    /// That of a metric.
    pub(crate) fn of_metric(&self, metric: Metric) -> Option<&Moderation> {
        self.0.get(&metric)
    }
}
