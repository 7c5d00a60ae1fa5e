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
