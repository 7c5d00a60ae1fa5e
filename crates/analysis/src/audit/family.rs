//! The comparisons that claims ask for, judged together.

use bytecost_spec::claim::Expected;
use bytecost_stats::Location;

use crate::corrections::{TestFamily, corrected};
use crate::result::{Case, CaseState};

/// The comparisons that claims ask for and the run does not judge, with one error rate (Holm).
pub(super) struct ClaimFamily {
    /// The greatest p value that decides.
    most: Option<f64>,
}

impl ClaimFamily {
    pub(super) fn new(p_values: &[f64], rate: f64) -> ClaimFamily {
        let decided = corrected(TestFamily::Claims, p_values)
            .into_iter()
            .zip(p_values)
            .filter(|(corrected, _)| *corrected < rate);
        ClaimFamily {
            most: decided.map(|(_, p)| *p).reduce(f64::max),
        }
    }

    /// Returns true if a comparison of that p value is decided next to all others. One without a p value is
    /// decided by itself.
    pub(super) fn decides(&self, p: Option<f64>) -> bool {
        p.is_none_or(|p| self.most.is_some_and(|most| p <= most))
    }
}

/// The case of an estimate on some scale that is compared with an expectation. `scale` takes a bound to that
/// scale. Of two hypotheses that cannot both be true, no difference and one that matters, the less likely one is
/// tested.
pub(super) fn tested(location: &Location, expect: Expected, scale: impl Fn(f64) -> f64) -> Case {
    let p = |bound: f64| location.p_value(scale(bound)).unwrap_or(1.0);
    let value = location.value;
    let (met, p) = match expect {
        Expected::Above(bound) => (value > scale(bound), p(bound)),
        Expected::Below(bound) => (value < scale(bound), p(bound)),
        Expected::Within(low, _) if value < scale(low) => (false, p(low)),
        Expected::Within(_, high) if value > scale(high) => (false, p(high)),
        // Within both bounds: as sure as the less sure of the two.
        Expected::Within(low, high) => (true, p(low).max(p(high))),
        Expected::Alike | Expected::Among => (false, 1.0),
    };
    Case::new(CaseState::from_met(met)).by(p)
}
