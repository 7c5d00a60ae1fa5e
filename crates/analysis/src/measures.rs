//! Measures by the kind of quantity that they are, and by how they are estimated.

use bytecost_spec::{Measure, Metric};

/// The kind of quantity that a measure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeasureKind {
    /// CPU time for each byte or message.
    Cost,
    /// Bytes or messages in a time.
    Rate,
    /// The duration of a message or request.
    Time,
    /// A count or share that is no cost by itself: system calls, cache misses, memory.
    Number,
}

impl From<Measure> for MeasureKind {
    fn from(measure: Measure) -> MeasureKind {
        match measure {
            Measure::CpuSPerGb | Measure::CpuNsPerMessage => MeasureKind::Cost,
            Measure::ThroughputGbitPerS | Measure::MessagesPerS => MeasureKind::Rate,
            Measure::MsPerMessage | Measure::RoundTripNs => MeasureKind::Time,
            _ if QUANTILES.iter().any(|(quantile, _)| *quantile == measure) => MeasureKind::Time,
            _ => MeasureKind::Number,
        }
    }
}

pub(crate) const QUANTILES: [(Measure, f64); 5] = [
    (Measure::LatencyUsP50, 0.5),
    (Measure::LatencyUsP90, 0.9),
    (Measure::LatencyUsP99, 0.99),
    (Measure::LatencyUsP999, 0.999),
    (Measure::LatencyUsMax, 1.0),
];

/// The share of all values below a tail, where a measure is a quantile in one: there the trials that
/// make it are those that a trimmed mean leaves out, so that it is of all trials together.
pub(crate) fn tail_share(measure: Measure) -> Option<f64> {
    let tail = [Measure::LatencyUsP99, Measure::LatencyUsP999];
    let (_, share) = QUANTILES.iter().find(|(m, _)| *m == measure)?;
    tail.contains(&measure).then_some(*share)
}

/// Returns true for what is made of the CPU time of sides.
pub(crate) fn is_cpu_time(measure: Measure) -> bool {
    matches!(
        measure,
        Measure::CpuSPerGb | Measure::CpuNsPerMessage | Measure::CpuUtilization
    )
}

/// Returns true for a measure of the most extreme value of a trial, which is never trimmed.
pub(crate) fn is_extreme(measure: Measure) -> bool {
    measure == Measure::LatencyUsMax
}

/// Returns true if the estimate of a measure is the trimmed mean of its blocks.
pub(crate) fn is_trimmed(measure: Measure) -> bool {
    tail_share(measure).is_none() && !is_extreme(measure)
}

/// Returns true if a metric is a share that is at most 1, and that readers get in percent.
pub fn is_bounded_share(metric: Metric) -> bool {
    matches!(
        metric.measure,
        Measure::CopiedShare | Measure::SystemShare | Measure::NeighbourShare | Measure::StealShare
    )
}
