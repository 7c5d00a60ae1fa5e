//! How sure a statement must be.

/// Confidence level of every interval.
pub(crate) const LEVEL: f64 = 0.95;

/// Fewest trials, or pairs of trials, that an interval is made of.
pub(crate) const FEWEST: usize = 3;

/// The error rate of all primary comparisons of a study together: the chance of even one false better
/// or worse.
pub(crate) const ERROR_RATE: f64 = 0.05;

/// The share of false verdicts among those of secondary comparisons: the mean over the tables in which
/// anything is decided.
pub(crate) const FALSE_DISCOVERY_RATE: f64 = 0.05;
