//! The test of Mann and Kendall for values that rise or fall with time.

use statrs::distribution::{ContinuousCDF, Normal};

use crate::spread::{median, sorted, usable};

const MOST_EXACT: usize = 50;
const MOST_VALUES: usize = 2_000;

/// A trend over a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trend {
    /// Two-sided p value of no trend.
    pub p: f64,
    /// Theil and Sen's slope: the median of all slopes, per step.
    pub slope: f64,
}

/// The Mann–Kendall test for a trend over equally spaced values (Mann, Econometrica 13, 1945).
///
/// The p value is exact for up to 50 values without ties, else from the normal distribution with
/// the variance corrected for ties. `None` for fewer than four values, a constant series, what is
/// not finite, and more than 2,000 values.
pub fn mann_kendall(values: &[f64]) -> Option<Trend> {
    let n = values.len();
    if !(4..=MOST_VALUES).contains(&n) || !usable(values) {
        return None;
    }
    let mut score = 0_i64;
    let mut tied_pairs = 0_i64;
    let mut slopes = Vec::with_capacity(n * (n - 1) / 2);
    for (i, a) in values.iter().enumerate() {
        for (step, b) in values[i + 1..].iter().enumerate() {
            score += i64::from(b > a) - i64::from(b < a);
            tied_pairs += i64::from(a == b);
            slopes.push((b - a) / (step + 1) as f64);
        }
    }
    if tied_pairs == slopes.len() as i64 {
        return None;
    }
    let p = if tied_pairs == 0 && n <= MOST_EXACT {
        exact_p(n, score)
    } else {
        normal_p(values, score)?
    };
    Some(Trend {
        p,
        slope: median(&slopes)?,
    })
}

/// From the number of orders of `n` values with a given number of inversions.
fn exact_p(n: usize, score: i64) -> f64 {
    let pairs = n * (n - 1) / 2;
    let inversions = ((pairs as i64 - score.abs()) / 2) as usize;
    let mut chance = vec![0.0_f64; pairs + 1];
    chance[0] = 1.0;
    for k in 2..=n {
        let mut next = vec![0.0_f64; pairs + 1];
        let mut window = 0.0;
        for (i, slot) in next.iter_mut().enumerate() {
            window += chance[i];
            if i >= k {
                window -= chance[i - k];
            }
            *slot = window.max(0.0) / k as f64;
        }
        chance = next;
    }
    let tail: f64 = chance[..=inversions].iter().sum();
    (2.0 * tail).min(1.0)
}

fn normal_p(values: &[f64], score: i64) -> Option<f64> {
    let weight = |m: usize| {
        let m = m as f64;
        m * (m - 1.0) * (2.0 * m + 5.0)
    };
    let sorted = sorted(values);
    let ties = sorted.chunk_by(|a, b| a == b).map(|tie| weight(tie.len()));
    let variance = (weight(values.len()) - ties.sum::<f64>()) / 18.0;
    if variance <= 0.0 {
        return None;
    }
    let z = (score as f64).abs() / variance.sqrt();
    let normal = Normal::new(0.0, 1.0).ok()?;
    Some((2.0 * normal.sf(z)).min(1.0))
}
