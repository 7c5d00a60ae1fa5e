//! Published claims compared with a run: each ruled on from its tests.

use bytecost_spec::claim::{Test, TestKind};

use crate::input::Grounds;
use crate::result::{
    AlsoMeasured, Audited, AuditedReason, AuditedTest, NotTested, Ruling, TestOutcome,
};
use crate::stages::Judged;

mod arithmetic;
mod cells;
mod context;
mod family;
mod pairs;

use context::ClaimContext;
pub use context::published_cells;
use family::{ClaimFamily, Wanted};
use pairs::ClaimedCrossover;

/// The rulings on claims by a run, in the order of the claims.
///
/// Comparisons that the run judges keep their verdict. All others are a family of their own (Holm), so that
/// many claims give no more false rulings than one. The first pass collects p values, the second decides.
pub(crate) fn rulings(run: &Judged<'_>, grounds: &Grounds) -> Vec<Audited> {
    let all = |family: &ClaimFamily| -> Vec<Audited> {
        let audited = |claim| {
            let context = ClaimContext {
                run,
                grounds,
                claim,
                family,
            };
            context.audited()
        };
        grounds.claims.iter().map(audited).collect()
    };
    let family = ClaimFamily::default();
    all(&family);
    all(&family.corrected(run.measured.error_rate()))
}

fn audited(test: &Test, context: &ClaimContext<'_>) -> AuditedTest {
    let place = &test.place;
    let wanted = |metric, expect| Wanted { metric, expect };
    let result = match &test.kind {
        TestKind::Ratio {
            contrast,
            metric,
            expect,
        } => pairs::ratio(context, place, contrast, wanted(*metric, *expect)),
        TestKind::Counter { contrast, metrics } => {
            pairs::counter(context, place, contrast, metrics)
        }
        TestKind::Scaling {
            metric,
            between,
            expect,
        } => pairs::scaling(context, place, *between, wanted(*metric, *expect)),
        TestKind::Crossover {
            contrast,
            metric,
            along,
            from,
            tolerance,
        } => {
            let claimed = ClaimedCrossover {
                contrast,
                metric: *metric,
                along: *along,
                from,
                tolerance: *tolerance,
            };
            pairs::crossover(context, place, claimed)
        }
        TestKind::Level { metric, expect } => {
            cells::level(context, place, wanted(*metric, *expect))
        }
        TestKind::Stall { caveat, present } => cells::caveat(context, place, caveat, *present),
        TestKind::Arithmetic(sum) => arithmetic::cases(context, sum),
        TestKind::NotInThisRun { study, .. } => Err(NotTested::OtherStudy {
            is_known: context.has_study(study),
        }),
    };
    AuditedTest {
        test: test.clone(),
        result,
    }
}

/// Returns true if a test looks at what was measured, rather than at published tables alone.
fn is_of_run(test: &Test) -> bool {
    !matches!(
        test.kind,
        TestKind::Arithmetic(_) | TestKind::NotInThisRun { .. }
    )
}

impl ClaimContext<'_> {
    fn audited(&self) -> Audited {
        let claim = self.claim;
        let mut tests: Vec<AuditedTest> = claim.tests.iter().map(|t| audited(t, self)).collect();
        // Tests without cells are left aside if another test has cells; else the first of them is kept,
        // with the study that it takes.
        let mut left_aside = tests.iter().any(|t| is_of_run(&t.test) && !t.is_missing());
        tests.retain(|t| {
            let aside = t.test.if_measured && t.is_missing();
            let keep = !(aside && left_aside);
            left_aside |= aside;
            keep
        });
        let reasons: Vec<AuditedReason> = claim
            .reasons
            .iter()
            .map(|reason| AuditedReason {
                otherwise: reason.otherwise.clone(),
                test: audited(&reason.test, self),
            })
            .filter(|reason| !(reason.test.test.if_measured && reason.test.is_missing()))
            .collect();
        let also = claim.beside.iter().map(|also| AlsoMeasured {
            says: also.says.clone(),
            test: audited(&also.test, self),
        });
        Audited {
            id: claim.id.clone(),
            source: claim.source.clone(),
            claim: claim.claim.clone(),
            published: claim.published.clone(),
            ruling: ruling(&tests, &reasons),
            of_study: claim.is_of_study(&self.run.measured.study.name),
            unit: self.run.measured.trials.unit,
            also: also.filter(|also| !also.test.is_missing()).collect(),
            tests,
            reasons,
        }
    }
}

/// The ruling by the tests of the effect, then by those of its reasons: without an effect no reason matters.
fn ruling(tests: &[AuditedTest], reasons: &[AuditedReason]) -> Ruling {
    use TestOutcome::{Fails, HoldsByLess, HoldsByStall, HoldsInPart, Open};
    let effect: Vec<TestOutcome> = tests.iter().map(AuditedTest::outcome).collect();
    let reason: Vec<TestOutcome> = reasons.iter().map(|r| r.test.outcome()).collect();
    let either = |outcome| effect.contains(&outcome) || reason.contains(&outcome);
    if effect.contains(&Fails) {
        Ruling::Refuted
    } else if effect.contains(&Open) {
        Ruling::Undecided
    } else if effect.contains(&HoldsByStall) || reason.contains(&Fails) {
        Ruling::ConfirmedForAnotherReason
    } else if reason.contains(&Open) {
        Ruling::Undecided
    } else if either(HoldsInPart) {
        Ruling::ConfirmedInPart
    } else if either(HoldsByLess) {
        Ruling::ConfirmedByLessThanMatters
    } else {
        Ruling::Confirmed
    }
}
