//! What the comparisons of a run say of the variance of each other, metric by metric.

use std::collections::{BTreeMap, BTreeSet};

use bytecost_spec::{Metric, Study};
use bytecost_stats::Moderation;

use crate::contrast::{PairContrast, is_trimmed};
use crate::pairing::compared;
use crate::trials::Trials;

/// Of each metric that a study compares in, what its comparisons have in common.
#[derive(Clone, Debug, Default)]
pub(crate) struct Moderations(BTreeMap<Metric, Moderation>);

impl Moderations {
    /// From every comparison of the study that at least three blocks can speak to.
    pub(crate) fn of(study: &Study, trials: &Trials<'_>) -> Moderations {
        let mut locations: BTreeMap<Metric, Vec<_>> = BTreeMap::new();
        let mut seen = BTreeSet::new();
        for compare in &study.compare {
            for pairing in compared(study, trials, compare) {
                let own = compare.metrics.iter().copied();
                for metric in own.filter(|m| is_trimmed(m.measure)) {
                    if seen.insert((&pairing.baseline.id, &pairing.other.id, metric)) {
                        let own = PairContrast::of(pairing, metric, &Moderations::default());
                        let all = locations.entry(metric).or_default();
                        all.extend(own.map(|c| c.location));
                    }
                }
            }
        }
        let fitted = locations.into_iter();
        Moderations(
            fitted
                .filter_map(|(metric, all)| Some((metric, Moderation::of(&all)?)))
                .collect(),
        )
    }

    /// That of a metric.
    pub(crate) fn of_metric(&self, metric: Metric) -> Option<&Moderation> {
        self.0.get(&metric)
    }
}
