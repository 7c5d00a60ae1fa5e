//! Holm's correction: one error rate for a family of tests.

/// Corrects p values so that, when all differences are nil, the chance of even one false alarm
/// over the whole family stays at the level that the corrected values are held against.
///
/// Holm, "A simple sequentially rejective multiple test procedure" (Scandinavian Journal of
/// Statistics 6, 1979). Results stand in the order of the arguments, are never below them, keep
/// their order and are at most 1. What is no number counts as 1.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut corrected = vec![1.0; p_values.len()];
    let mut highest = 0.0_f64;
    for (rank, (i, p)) in ascending(p_values).into_iter().enumerate() {
        highest = highest.max(p * (p_values.len() - rank) as f64).min(1.0);
        corrected[i] = highest;
    }
    corrected
}

/// p values with their places, the least first; what is no number counts as 1.
pub(crate) fn ascending(p_values: &[f64]) -> Vec<(usize, f64)> {
    let p = |p: &f64| if p.is_nan() { 1.0 } else { p.clamp(0.0, 1.0) };
    let mut all: Vec<(usize, f64)> = p_values.iter().map(p).enumerate().collect();
    all.sort_by(|a, b| a.1.total_cmp(&b.1));
    all
}
