//! Holm's correction: one error rate for a family of tests.

/// Corrects p values so that, when all differences are nil, the chance of even one false alarm
/// over the whole family stays at the level that the corrected values are held against.
///
/// Holm, "A simple sequentially rejective multiple test procedure" (Scandinavian Journal of
/// Statistics 6, 1979). Results stand in the order of the arguments, are never below them, keep
/// their order and are at most 1. What is no number counts as 1.
#[must_use]
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let p = |i: usize| {
        let p = p_values[i];
        if p.is_nan() { 1.0 } else { p.clamp(0.0, 1.0) }
    };
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|&a, &b| p(a).total_cmp(&p(b)));
    let mut corrected = vec![1.0; p_values.len()];
    let mut highest = 0.0_f64;
    for (rank, &i) in order.iter().enumerate() {
        highest = highest.max(p(i) * (p_values.len() - rank) as f64).min(1.0);
        corrected[i] = highest;
    }
    corrected
}
