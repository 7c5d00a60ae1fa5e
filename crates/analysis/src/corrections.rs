//! Corrections for the number of tests that are made together, by family of tests.

use bytecost_stats::holm;

/// A family of tests whose p values are corrected together. The secondary comparisons of a study are
/// several, with one rate of false discoveries ([`crate::families`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TestFamily {
    /// The primary comparisons of the study.
    PrimaryComparisons,
    /// The main effects that the study asks for.
    MainEffects,
    /// The places of a main effect.
    PlacesOfAnEffect,
    /// The comparisons of published claims that the run does not judge.
    Claims,
    /// The cells whose interrupts on idle CPUs are tested.
    IdleInterrupts,
    /// The cells that are tested for a trend over the blocks.
    Drift,
    /// The cells that are tested for a trend within their windows.
    SteadyWindows,
}

impl TestFamily {
    /// Returns true if a test is corrected by its rank among the others (Holm), false if by their number
    /// alone (Bonferroni), which also gives simultaneous intervals.
    fn goes_by_rank(self) -> bool {
        !matches!(
            self,
            TestFamily::PlacesOfAnEffect | TestFamily::IdleInterrupts
        )
    }
}

/// The p values of a family, corrected for the number of its tests, in their order.
pub(crate) fn corrected(family: TestFamily, p_values: &[f64]) -> Vec<f64> {
    if family.goes_by_rank() {
        return holm(p_values);
    }
    let tests = p_values.len() as f64;
    p_values.iter().map(|p| (p * tests).min(1.0)).collect()
}

/// The uncorrected level of the first of so many tests of a family, which is that of each by Bonferroni.
pub(crate) fn level_of_each(rate: f64, tests: usize) -> f64 {
    rate / tests.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_corrected_by_rank_or_by_number() {
        let p_values = [0.01, 0.04, 0.5];
        let near = |found: Vec<f64>, expected: [f64; 3]| {
            for (p, is) in found.into_iter().zip(expected) {
                assert!((p - is).abs() < 1e-12, "{p} {is}");
            }
        };
        near(corrected(TestFamily::Claims, &p_values), [0.03, 0.08, 0.5]);
        near(
            corrected(TestFamily::IdleInterrupts, &p_values),
            [0.03, 0.12, 1.0],
        );
    }

    #[test]
    fn a_family_of_none_has_the_whole_level() {
        assert_eq!(corrected(TestFamily::Claims, &[]), [0.0; 0]);
        assert_eq!(level_of_each(0.05, 0), 0.05);
        assert_eq!(level_of_each(0.05, 5), 0.01);
    }
}
