//! From logarithms of ratios back to ratios.

/// Back from a log scale; held where the result is finite, since JSON has no infinity.
pub(crate) fn exp(log: f64) -> f64 {
    log.clamp(-690.0, 690.0).exp()
}

/// Half the width of an interval of log ratios, as a share of the ratio.
pub(crate) fn as_share(half_width_of_logs: f64) -> f64 {
    exp(half_width_of_logs) - 1.0
}
