//! Kinds of measures: costs, rates, times and counts.

use bytecost_spec::Measure;

use crate::value::QUANTILES;

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
