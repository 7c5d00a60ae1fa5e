//! The false discovery rate: of all that is decided, the share that is false.

use crate::holm::ascending;

/// Corrects the p values of several families so that, where the corrected values below a rate are
/// decided, of the decided ones of a family a share of that rate is false at most: in the mean over
/// the families in which anything is decided. Where no difference is real, the chance that anything
/// is decided in any of them is that rate at most.
///
/// Benjamini and Bogomolov, "Selective inference on multiple families of hypotheses" (Journal of the
/// Royal Statistical Society B 76, 2014): families are chosen by Benjamini and Hochberg's procedure
/// (1995) over their Simes p values; within a chosen one the same procedure has the rate times the
/// share of families that are chosen. Results stand in the order of the arguments, are never below
/// them, keep their order within a family and are at most 1. What is no number counts as 1.
pub fn false_discovery(families: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let within: Vec<Vec<f64>> = families.iter().map(|f| stepped_up(f)).collect();
    let simes = |f: &Vec<f64>| f.iter().copied().fold(1.0, f64::min);
    let chosen = stepped_up(&within.iter().map(simes).collect::<Vec<f64>>());
    // At a rate, as many families are chosen as have no more than it.
    let at_rate = |rate: f64| {
        let count = chosen.iter().filter(|p| **p <= rate).count();
        (rate, families.len() as f64 / count.max(1) as f64)
    };
    let rates: Vec<(f64, f64)> = chosen.iter().map(|rate| at_rate(*rate)).collect();
    let corrected = |p: f64, own: f64| {
        rates
            .iter()
            .filter(|(rate, _)| *rate >= own)
            .map(|(rate, times)| rate.max(p * times))
            .fold(1.0, f64::min)
    };
    within
        .iter()
        .zip(&chosen)
        .map(|(all, own)| all.iter().map(|p| corrected(*p, *own)).collect())
        .collect()
}

/// Benjamini and Hochberg's corrected p values of one family.
fn stepped_up(p_values: &[f64]) -> Vec<f64> {
    let mut corrected = vec![1.0; p_values.len()];
    let mut least = 1.0_f64;
    for (rank, (i, p)) in ascending(p_values).into_iter().enumerate().rev() {
        // At least 1, so that rounding leaves nothing below its own p value.
        let times = p_values.len() as f64 / (rank + 1) as f64;
        least = least.min(p * times);
        corrected[i] = least;
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(families: &[&[f64]], expected: &[&[f64]]) {
        let owned: Vec<Vec<f64>> = families.iter().map(|f| f.to_vec()).collect();
        for (family, expected_family) in false_discovery(&owned).iter().zip(expected) {
            assert_eq!(family.len(), expected_family.len());
            for (q, expected_q) in family.iter().zip(*expected_family) {
                assert!((q - expected_q).abs() < 1e-12, "{q} {expected_q}");
            }
        }
    }

    #[test]
    fn one_family_is_benjamini_and_hochbergs() {
        let third = 0.16 / 3.0;
        check(&[&[0.01, 0.04, 0.03, 0.5]], &[&[0.04, third, third, 0.5]]);
        check(&[&[f64::NAN]], &[&[1.0]]);
        check(&[&[]], &[&[]]);
    }

    #[test]
    fn a_family_pays_for_those_that_are_not_chosen() {
        // The second is chosen at no small rate, so that the first has half of it.
        let alike = &[0.9, 0.9];
        check(&[&[0.001, 0.02], alike], &[&[0.004, 0.04], alike]);
        // Where all are chosen, each has the whole rate.
        check(&[&[0.001], &[0.002]], &[&[0.002], &[0.002]]);
    }
}
