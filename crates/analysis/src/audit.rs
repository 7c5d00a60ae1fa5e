//! Published claims compared with a run: each ruled on from its tests.

use bytecost_spec::claim::{Claim, Test, TestKind};
use itertools::Itertools as _;

use crate::input::Grounds;
use crate::result::{
    AlsoMeasured, Audited, AuditedReason, AuditedTest, Case, CaseState, MeasuredNumber, NotTested,
    OpenReason, Ruling, TestOutcome,
};
use crate::stages::Judged;

mod arithmetic;
mod cells;
mod context;
mod family;
mod pairs;

pub use context::published_cells;
use context::{ClaimContext, Wanted};
use family::ClaimFamily;

/// The rulings on claims by a run, in the order of the claims.
///
/// Comparisons that the run judges keep their verdict. All others are a family of their own (Holm), so that
/// many claims give no more false rulings than one.
pub(crate) fn rulings(run: &Judged<'_>, grounds: &Grounds) -> Vec<Audited> {
    let tested = grounds
        .claims
        .iter()
        .map(|claim| {
            let contexts = claim.all_tests().map(|test| ClaimContext {
                measured: run.measured,
                run,
                grounds,
                claim,
                test,
            });
            let tests = contexts.map(|context| context.tested());
            (claim, tests.collect_vec())
        })
        .collect_vec();
    let cases = tested
        .iter()
        .flat_map(|(_, tests)| tests)
        .flat_map(AuditedTest::cases);
    let family = ClaimFamily::new(
        &cases.flat_map(Case::p_values).collect_vec(),
        run.measured.error_rate(),
    );
    let ruled = tested.into_iter().map(|(claim, mut tests)| {
        for test in &mut tests {
            decide(test, &family);
        }
        audited(run, claim, tests)
    });
    ruled.collect()
}

/// Takes back from a test what its p values do not decide.
fn decide(test: &mut AuditedTest, family: &ClaimFamily) {
    for case in test.result.iter_mut().flat_map(|found| &mut found.cases) {
        match (&mut case.measured, &test.test.kind) {
            (Some(MeasuredNumber::Steps(_, steps)), TestKind::Crossover(claimed)) => {
                for step in steps.iter_mut().filter(|s| !family.decides(s.p)) {
                    step.is_better = None;
                }
                case.state = pairs::crossover_state(steps, claimed);
            }
            _ if !family.decides(case.p) => {
                case.state = CaseState::Open(OpenReason::Blocks(None));
            }
            _ => {}
        }
    }
}

impl ClaimContext<'_> {
    fn tested(&self) -> AuditedTest {
        let wanted = |metric, expect| Wanted { metric, expect };
        let result = match &self.test.kind {
            TestKind::Ratio {
                contrast,
                metric,
                expect,
            } => pairs::ratio(self, contrast, wanted(*metric, *expect)),
            TestKind::Counter { contrast, metrics } => pairs::counter(self, contrast, metrics),
            TestKind::Scaling {
                metric,
                between,
                expect,
            } => pairs::scaling(self, *between, wanted(*metric, *expect)),
            TestKind::Crossover(claimed) => pairs::crossover(self, claimed),
            TestKind::Level { metric, expect } => cells::level(self, wanted(*metric, *expect)),
            TestKind::Stall { caveat, present } => cells::caveat(self, caveat, *present),
            TestKind::Arithmetic(sum) => arithmetic::cases(self, sum),
            TestKind::NotInThisRun { study, why } => Err(NotTested::OtherStudy {
                study: study.clone(),
                why: why.clone(),
                is_known: self.has_study(study),
            }),
        };
        AuditedTest {
            test: self.test.clone(),
            result,
        }
    }
}

/// Returns true if a test looks at what was measured, rather than at published tables alone.
fn is_of_run(test: &Test) -> bool {
    !matches!(
        test.kind,
        TestKind::Arithmetic(_) | TestKind::NotInThisRun { .. }
    )
}

/// The ruling on a claim from its tests: those of the effect, of the reasons, and those that decide nothing.
fn audited(run: &Judged<'_>, claim: &Claim, all: Vec<AuditedTest>) -> Audited {
    let mut each = all.into_iter();
    let mut tests = each.by_ref().take(claim.tests.len()).collect_vec();
    // Tests without cells are left aside if another test has cells; else the first of them is kept,
    // with the study that it takes.
    let mut left_aside = tests.iter().any(|t| is_of_run(&t.test) && !t.is_missing());
    tests.retain(|t| {
        let aside = t.test.if_measured && t.is_missing();
        let keep = !(aside && left_aside);
        left_aside |= aside;
        keep
    });
    let reasons = (claim.reasons.iter().zip(each.by_ref()))
        .filter(|(_, test)| !(test.test.if_measured && test.is_missing()))
        .map(|(reason, test)| AuditedReason {
            otherwise: reason.otherwise.clone(),
            test,
        })
        .collect_vec();
    let also = (claim.beside.iter().zip(each))
        .filter(|(_, test)| !test.is_missing())
        .map(|(also, test)| AlsoMeasured {
            says: also.says.clone(),
            test,
        })
        .collect_vec();
    Audited {
        id: claim.id.clone(),
        source: claim.source.clone(),
        claim: claim.claim.clone(),
        published: claim.published.clone(),
        ruling: ruling(&tests, &reasons),
        of_study: claim.is_of_study(&run.measured.study.name),
        unit: run.measured.trials.unit,
        also,
        tests,
        reasons,
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
