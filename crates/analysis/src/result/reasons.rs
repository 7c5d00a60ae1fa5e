//! What is absent, grouped by the reason, as findings.json has it: one reason often holds for every
//! hardware counter of a cell.

use std::collections::BTreeMap;

use bytecost_spec::Metric;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::grouping::grouped;

/// Metrics that a cell has not, for one reason.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct AbsentMetrics {
    /// Why, and what to do about it where something can be done.
    why: String,
    /// The metrics.
    metrics: Vec<Metric>,
}

pub(crate) mod absent {
    use super::grouped;
    use super::{
        AbsentMetrics, BTreeMap, Deserialize, Deserializer, Metric, Serialize, Serializer,
    };

    pub fn serialize<S: Serializer>(
        absent: &BTreeMap<Metric, String>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let by_reason = grouped(absent.iter().map(|(metric, why)| (why, *metric)));
        let groups = by_reason.into_iter().map(|(why, metrics)| AbsentMetrics {
            why: why.clone(),
            metrics,
        });
        groups.collect::<Vec<_>>().serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<Metric, String>, D::Error> {
        let groups: Vec<AbsentMetrics> = Vec::deserialize(deserializer)?;
        let metrics = groups.into_iter().flat_map(|group| {
            let why = group.why;
            let metrics = group.metrics.into_iter();
            metrics.map(move |metric| (metric, why.clone()))
        });
        Ok(metrics.collect())
    }
}
