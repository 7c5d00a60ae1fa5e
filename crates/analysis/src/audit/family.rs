//! The comparisons that claims ask for, judged together.

use std::cell::RefCell;

use bytecost_spec::Metric;
use bytecost_spec::claim::Expected;
use bytecost_stats::Location;

use crate::corrections::{TestFamily, corrected};
use crate::result::{CaseState, NotTested, TestCases};

/// The comparisons that claims ask for and the run does not judge, with one error rate.
#[derive(Default)]
pub(super) struct ClaimFamily {
    asked: RefCell<Vec<f64>>,
    /// The greatest p value that decides; none while comparisons are collected.
    most: Option<f64>,
}

impl ClaimFamily {
    /// Returns true if a comparison of that p value is decided next to all others. Of two hypotheses
    /// that cannot both be true, no difference and one that matters, the less likely one is asked.
    pub(super) fn decides(&self, p: f64) -> bool {
        self.asked.borrow_mut().push(p);
        self.most.is_some_and(|most| p <= most)
    }

    /// The same with all that was asked at an error rate, so that it decides.
    pub(super) fn corrected(self, rate: f64) -> ClaimFamily {
        let asked = self.asked.into_inner();
        let corrected = corrected(TestFamily::Claims, &asked)
            .into_iter()
            .zip(&asked);
        let decided = corrected.filter(|(corrected, _)| *corrected < rate);
        ClaimFamily {
            most: decided.map(|(_, p)| *p).reduce(f64::max),
            asked: RefCell::default(),
        }
    }

    /// Compares an estimate on some scale with an expectation. `scale` takes a bound to that scale.
    pub(super) fn state(
        &self,
        location: &Location,
        expect: Expected,
        scale: impl Fn(f64) -> f64,
    ) -> CaseState {
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
        CaseState::from_decision(self.decides(p), met)
    }
}

/// A metric with the number that a claim expects of it.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    pub(super) metric: Metric,
    pub(super) expect: Expected,
}

/// The cases that a run has for a test, or why it has none.
pub(super) type Cases = Result<TestCases, NotTested>;
