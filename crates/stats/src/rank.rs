//! Estimates and tests by ranks: Hodges and Lehmann's location, Wilcoxon's signed ranks.

use crate::spread::usable;

/// The most values that the rank functions take: their work grows with the square and the cube.
const MOST_VALUES: usize = 2_000;
const MOST_EXACT: usize = 200;

/// The Hodges–Lehmann estimate of location: the median of all means of two values, each value
/// with itself included (Annals of Mathematical Statistics 34, 1963).
///
/// `None` for nothing, for what is not finite, and for more than 2,000 values.
#[must_use]
pub fn hodges_lehmann(values: &[f64]) -> Option<f64> {
    if !usable(values) || values.len() > MOST_VALUES {
        return None;
    }
    let mut means = Vec::with_capacity(values.len() * (values.len() + 1) / 2);
    for (i, a) in values.iter().enumerate() {
        means.extend(values[i..].iter().map(|b| (a + b) / 2.0));
    }
    let middle = means.len() / 2;
    let even = means.len() % 2 == 0;
    let (below, &mut upper, _) = means.select_nth_unstable_by(middle, f64::total_cmp);
    if even {
        let lower = below.iter().copied().max_by(f64::total_cmp)?;
        Some((lower + upper) / 2.0)
    } else {
        Some(upper)
    }
}

/// The exact two-sided p value of Wilcoxon's signed-rank test that the values are symmetric
/// about 0 (Biometrics Bulletin 1, 1945).
///
/// Zeros are dropped; ties get their mean rank, and the distribution is the exact one given the
/// ties. `None` where nothing is left, for what is not finite, and for more than 200 values.
#[must_use]
pub fn wilcoxon_signed_rank_p(values: &[f64]) -> Option<f64> {
    if !usable(values) {
        return None;
    }
    let mut kept: Vec<f64> = values.iter().copied().filter(|v| *v != 0.0).collect();
    if kept.is_empty() || kept.len() > MOST_EXACT {
        return None;
    }
    kept.sort_unstable_by(|a, b| a.abs().total_cmp(&b.abs()));
    let ranks = doubled_ranks(&kept);
    let observed: usize = kept
        .iter()
        .zip(&ranks)
        .filter(|(v, _)| **v > 0.0)
        .map(|(_, r)| r)
        .sum();
    let total: usize = ranks.iter().sum();
    // Probability of each sum of doubled ranks, when every sign is the toss of a coin.
    let mut chance = vec![0.0_f64; total + 1];
    chance[0] = 1.0;
    let mut reached = 0;
    for &rank in &ranks {
        reached += rank;
        for sum in (0..=reached).rev() {
            let with = if sum >= rank { chance[sum - rank] } else { 0.0 };
            chance[sum] = 0.5 * (chance[sum] + with);
        }
    }
    let low = observed.min(total - observed);
    let tail: f64 = chance[..=low].iter().sum();
    Some((2.0 * tail).min(1.0))
}

/// Twice the rank of each absolute value, ties sharing their mean rank; whole numbers therefore.
fn doubled_ranks(sorted_by_size: &[f64]) -> Vec<usize> {
    let mut ranks = Vec::with_capacity(sorted_by_size.len());
    for tie in sorted_by_size.chunk_by(|a, b| a.abs() == b.abs()) {
        let first = ranks.len() + 1;
        let last = ranks.len() + tie.len();
        ranks.extend(std::iter::repeat_n(first + last, tie.len()));
    }
    ranks
}
