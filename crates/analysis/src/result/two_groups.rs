//! Two groups into which the trials of a cell fall, as findings.json has them.

use bytecost_spec::Metric;
use serde::{Deserialize, Serialize};

/// Factor between the means of two groups from which no single number describes both.
const FAR_APART: f64 = 1.5;

/// One of two groups of trials.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TrialGroup {
    /// Its share of the trials.
    pub share: f64,
    /// The mean of its trials on a log scale, in the metric's unit.
    pub value: f64,
    /// The 10 % quantile of its trials.
    pub low: f64,
    /// Their 90 % quantile.
    pub high: f64,
}

/// A reading of timed trials that can differ between two groups of trials.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum PartingReading {
    /// TCP segments with data, for each message.
    SegmentsPerMessage,
    /// Delayed acknowledgements, for each message.
    DelayedAcksPerMessage,
    /// Context switches, for each message.
    ContextSwitchesPerMessage,
    /// System calls, for each message.
    CallsPerMessage,
    /// Page faults, for each message.
    PageFaultsPerMessage,
    /// The share of zero-copy buffers that were copied.
    CopiedShare,
    /// The time of a message from core to core, in ns.
    CoreToCoreNs,
    /// Migrations of threads between CPUs, for each second.
    MigrationsPerS,
    /// The share of the machine's CPU time that other processes used.
    NeighbourShare,
    /// The share of the machine's CPU time that the hypervisor stole.
    StealShare,
}

/// The reading of timed trials that differs most clearly between two groups of trials.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PartedBy {
    /// The reading.
    pub reading: PartingReading,
    /// 10 % and 90 % quantile in the lower group.
    pub lower: [f64; 2],
    /// 10 % and 90 % quantile in the upper group.
    pub upper: [f64; 2],
}

/// Two groups into which the trials of a cell fall by a metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TwoGroups {
    /// The metric.
    pub metric: Metric,
    /// The group of the smaller values.
    pub lower: TrialGroup,
    /// The group of the larger values.
    pub upper: TrialGroup,
    /// The reading that differs between them; none where none does clearly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parted_by: Option<PartedBy>,
}

impl TwoGroups {
    /// Larger values as a factor of the smaller ones.
    pub(crate) fn factor(&self) -> f64 {
        self.upper.value / self.lower.value
    }

    /// Returns true if no single number stands for both groups.
    pub fn are_far_apart(&self) -> bool {
        self.factor() >= FAR_APART
    }
}
