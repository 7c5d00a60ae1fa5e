//! Confidence and error rates.

pub(crate) use bytecost_spec::study::{ERROR_RATE, FALSE_DISCOVERY_RATE};

/// Confidence level of every interval.
pub(crate) const LEVEL: f64 = 0.95;

/// Fewest trials, or pairs of trials, that an interval is made of.
pub(crate) const FEWEST: usize = 3;
