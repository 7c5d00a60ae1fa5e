//! Multiple comparisons with the best.

use bytecost_spec::{Axis, Better, Metric};

use crate::comparison::{Comparisons, PairContrast, Pairing};
use crate::corrections::level_of_each;
use crate::trials::CellTrials;

/// The cells that may be the best of several that differ in one axis: none of them is shown to be worse
/// than another. Multiple comparisons with the best (Hsu, "Multiple Comparisons: Theory and Methods",
/// 1996, chapter 4), by paired contrasts within blocks: the truly best one is in the set in at least
/// `1 - rate` of all runs, whatever the noise of each (Bonferroni over its contrasts). For several
/// places each has a part of the rate. Cells without the metric in three blocks with any other are
/// left out; the order is that of `cells`.
pub(super) fn best_set<'v>(
    cells: &[&'v CellTrials<'v>],
    axis: Axis,
    metric: Metric,
    rate: f64,
    comparisons: &Comparisons<'_>,
) -> Vec<&'v CellTrials<'v>> {
    let p_of_pair = |other: usize, baseline: usize| {
        let pairing = Pairing {
            axis,
            baseline: cells[baseline],
            other: cells[other],
        };
        let contrast = comparisons.contrast(&pairing, metric)?;
        Some(p_of_worse(&contrast))
    };
    let standing = not_worse(cells.len(), rate, p_of_pair);
    let all = cells.iter().zip(standing);
    all.filter_map(|(cell, stands)| stands.then_some(*cell))
        .collect()
}

/// The p value of the other not being worse than the baseline: small where it is worse.
fn p_of_worse(contrast: &PairContrast) -> f64 {
    let is_worse = match contrast.metric.better() {
        Better::Higher => contrast.location.value < 0.0,
        Better::Lower => contrast.location.value > 0.0,
    };
    if is_worse { contrast.p / 2.0 } else { 1.0 }
}

/// For each of so many ways whether none is shown to be better, by the one-sided p values of being
/// worse than each other one; not so of a way that is in no contrast.
fn not_worse(
    count: usize,
    rate: f64,
    p_of_worse: impl Fn(usize, usize) -> Option<f64>,
) -> Vec<bool> {
    let level = level_of_each(rate, count.saturating_sub(1));
    let of_one = |one: usize| {
        let others = (0..count).filter(|other| *other != one);
        let least = others.filter_map(|other| p_of_worse(one, other));
        least.reduce(f64::min).is_some_and(|p| p >= level)
    };
    (0..count).map(of_one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytecost_stats::{Generator, trimmed_mean};

    /// Runs of so many blocks in which ways gain so much; in how many of them each is in the set.
    fn shares(gains: &[f64], blocks: usize, noise: f64, runs: usize) -> Vec<f64> {
        let mut g = Generator::new(13);
        let mut times = vec![0_usize; gains.len()];
        for _ in 0..runs {
            let mut row = || {
                let block = 3.0 * noise * g.normal();
                let ways = gains.iter().map(|v| v + block + noise * g.normal());
                ways.collect()
            };
            let rows: Vec<Vec<f64>> = (0..blocks).map(|_| row()).collect();
            let found = not_worse(gains.len(), 0.05, |one, other| {
                let logs: Vec<f64> = rows.iter().map(|r| r[one] - r[other]).collect();
                let location = trimmed_mean(&logs)?;
                let p = location.p_value(0.0)?;
                Some(if location.value < 0.0 { p / 2.0 } else { 1.0 })
            });
            for (count, stands) in times.iter_mut().zip(found) {
                *count += usize::from(stands);
            }
        }
        times.iter().map(|t| *t as f64 / runs as f64).collect()
    }

    #[test]
    fn the_best_is_in_the_set_at_the_promised_rate_and_what_is_clearly_worse_is_not() {
        // Alike ones are hardest: each of them is a best one.
        for blocks in [6, 12, 21] {
            for share in shares(&[0.0; 5], blocks, 0.05, 2000) {
                assert!(share >= 0.95 - 0.01, "{blocks} {share}");
            }
        }
        let check = |gains: &[f64], blocks, noise, runs, holds: fn(&[f64]) -> bool| {
            let found = shares(gains, blocks, noise, runs);
            assert!(holds(&found), "{gains:?} {found:?}");
        };
        check(&[0.02, 0.0, 0.0, -0.5], 12, 0.05, 2000, |s| s[0] > 0.95);
        check(&[0.0, -0.1, -0.3], 21, 0.03, 500, |s| s[0] == 1.0);
        check(&[0.0, -0.1, -0.3], 21, 0.03, 500, |s| {
            s[1] < 0.01 && s[2] == 0.0
        });
        // Blocks differ three times as much as ways do within them: pairing distinguishes what
        // overlapping intervals do not.
        check(&[0.0, -0.07], 21, 0.03, 500, |s| s[1] < 0.05);
    }

    #[test]
    fn a_way_in_no_contrast_is_not_in_the_set() {
        let only = |one: usize, other: usize| (one != 2 && other != 2).then_some(0.5);
        assert_eq!(not_worse(3, 0.05, only), [true, true, false]);
        assert_eq!(not_worse(1, 0.05, only), [false]);
    }
}
