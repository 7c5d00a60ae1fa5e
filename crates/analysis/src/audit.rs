//! Claims of others, held against a run: each ruled on from its tests, with the figures.

use bytecost_spec::claim::{Claim, Test};
use bytecost_spec::{Published, Table};
use itertools::Itertools as _;

use crate::phrases;
use crate::result::{Analysis, AuditFigure, Audited, Input, Ruling};
use crate::trials::Trials;

mod arithmetic;
mod claim_test;
mod context;
mod copies;
mod counter;
mod crossover;
mod level;
mod ratio;
mod scaling;
mod stall;

use claim_test::{ClaimTest, Family, JudgedTest, TestOutcome};
use context::ClaimContext;
pub use context::beside;

/// What the figures are called that a claim gives in its own words.
pub const AS_PUBLISHED: &str = "as published";

/// What claims are judged by besides the run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Grounds<'a> {
    /// The claims.
    pub claims: &'a [Claim],
    /// Published tables, for calculations on them.
    pub tables: &'a [Table],
    /// Published cells by their source, to stand beside measured ones.
    pub published: &'a [Published],
    /// Names of studies that can be run.
    pub studies: &'a [&'a str],
}

/// A claim's tests and reasons before the correction over all comparisons.
struct Case<'c> {
    claim: &'c Claim,
    tests: Vec<ClaimTest>,
    reasons: Vec<(&'c str, ClaimTest)>,
    beside: Vec<ClaimTest>,
}

/// Judges claims by a run and its analysis, in the order of the claims.
///
/// A comparison that is a finding of the run keeps its verdict. All others are corrected
/// together with the run's findings (Holm), so that judging many claims gives no more false
/// rulings than judging one.
#[must_use]
pub fn audit(input: Input<'_>, analysis: &Analysis, grounds: &Grounds<'_>) -> Vec<Audited> {
    let trials = Trials::of_run(&input);
    let mut family = Family::of(&analysis.findings);
    let cases: Vec<Case<'_>> = grounds
        .claims
        .iter()
        .map(|claim| {
            let context = ClaimContext {
                input: &input,
                analysis,
                trials: &trials,
                grounds,
                claim,
            };
            Case::of(claim, &context, &mut family)
        })
        .collect();
    let corrected = family.corrected();
    cases.iter().map(|case| case.ruled(&corrected)).collect()
}

impl Audited {
    /// Whether the run says nothing of the claim: neither a figure nor a finding.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        self.ruling == Ruling::CannotBeSettled
            && self.findings.is_empty()
            && self.figures.iter().all(|f| f.measured.is_none())
    }
}

fn draft(test: &Test, context: &ClaimContext<'_>, family: &mut Family) -> ClaimTest {
    match test {
        Test::Ratio {
            contrast,
            metric,
            expect,
            cells,
        } => ratio::draft(context, contrast, *metric, *expect, *cells, family),
        Test::Crossover {
            contrast,
            metric,
            along,
            from,
            tolerance,
            cells,
        } => {
            let claimed = crossover::CrossoverClaim {
                metric: *metric,
                along: *along,
                from,
                tolerance: *tolerance,
            };
            crossover::draft(context, contrast, &claimed, *cells)
        }
        Test::Level {
            metric,
            place,
            expect,
            cells,
        } => level::draft(context, *metric, place, *expect, *cells, family),
        Test::Counter {
            contrast,
            metrics,
            cells,
        } => counter::draft(context, contrast, metrics, *cells),
        Test::Stall {
            caveat,
            place,
            present,
            cells,
        } => stall::draft(context, caveat, place, *present, *cells),
        Test::Scaling {
            metric,
            place,
            between,
            expect,
            cells,
        } => {
            let claimed = scaling::ScalingClaim {
                metric: *metric,
                between: *between,
                expect: *expect,
            };
            scaling::draft(context, place, &claimed, *cells, family)
        }
        Test::Arithmetic(sum) => arithmetic::draft(context, sum),
        Test::CopiesPerByte {
            metric,
            place,
            expect,
            cells,
        } => copies::draft(context, *metric, place, *expect, *cells),
        Test::NotInThisRun { study, why } => {
            ClaimTest::missing(format!("it needs {}: {why}", context.study(study)))
        }
    }
}

/// Whether a test may be left aside where the run has no cells for it.
fn if_measured(test: &Test) -> bool {
    matches!(test, Test::Ratio { contrast, .. } if contrast.if_measured)
}

/// Whether a test looks at what was measured, rather than at published tables alone.
fn of_run(test: &Test) -> bool {
    !matches!(test, Test::Arithmetic(_) | Test::NotInThisRun { .. })
}

impl<'c> Case<'c> {
    fn of(claim: &'c Claim, context: &ClaimContext<'_>, family: &mut Family) -> Case<'c> {
        let tests = claim.tests.iter().map(|t| draft(t, context, family));
        let mut tests: Vec<ClaimTest> = tests.collect();
        let reasons = claim
            .reasons
            .iter()
            .map(|r| (r.otherwise.as_str(), draft(&r.test, context, family)));
        let mut reasons: Vec<(&str, ClaimTest)> = reasons.collect();
        // What the run has no cells for is left aside where it has some for another test; where
        // it has none, one of them says what it takes.
        let pairs = || claim.tests.iter().zip(&tests);
        let is_measured =
            |(test, draft): (&Test, &ClaimTest)| of_run(test) && draft.missing.is_none();
        let mut left_aside = pairs().any(is_measured);
        let mut kept = claim.tests.iter();
        tests.retain(|draft| {
            let optional = kept.next().is_some_and(if_measured);
            let aside = optional && draft.missing.is_some();
            let keep = !(aside && left_aside);
            left_aside |= aside;
            keep
        });
        let mut kept = claim.reasons.iter();
        reasons.retain(|(_, draft)| {
            let optional = kept.next().is_some_and(|r| if_measured(&r.test));
            !(optional && draft.missing.is_some())
        });
        let beside = claim.beside.iter().map(|t| draft(t, context, family));
        Case {
            claim,
            tests,
            reasons,
            beside: beside.filter(|d| d.missing.is_none()).collect(),
        }
    }

    fn ruled(&self, corrected: &[f64]) -> Audited {
        let tests: Vec<JudgedTest> = self.tests.iter().map(|d| d.told(corrected)).collect();
        let reasons: Vec<(&str, JudgedTest)> = self
            .reasons
            .iter()
            .map(|(otherwise, d)| (*otherwise, d.told(corrected)))
            .collect();
        let beside: Vec<JudgedTest> = self.beside.iter().map(|d| d.told(corrected)).collect();
        let (ruling, mut because) = rule(&tests, &reasons);
        for told in &beside {
            because.push_str(" Beside it: ");
            because.push_str(&told.sentence);
        }
        let all = || {
            let reasons = reasons.iter().map(|(_, told)| told);
            tests.iter().chain(reasons).chain(&beside)
        };
        let given = self.claim.published.iter().map(|text| AuditFigure {
            what: AS_PUBLISHED.to_owned(),
            published: Some(text.clone()),
            measured: None,
        });
        let findings = all().flat_map(|told| &told.findings).unique();
        let findings = findings.cloned().collect();
        Audited {
            id: self.claim.id.clone(),
            source: self.claim.source.clone(),
            claim: self.claim.claim.clone(),
            ruling,
            because,
            figures: given
                .chain(all().flat_map(|told| told.figures.clone()))
                .collect(),
            findings,
        }
    }
}

/// The effect first: where it is not there, no reason matters.
fn rule(tests: &[JudgedTest], reasons: &[(&str, JudgedTest)]) -> (Ruling, String) {
    let sentences = |outcome: TestOutcome| -> Vec<String> {
        let of = tests.iter().filter(|t| t.outcome == outcome);
        of.map(|t| t.sentence.clone()).collect()
    };
    let fails = sentences(TestOutcome::Fails);
    if !fails.is_empty() {
        return (Ruling::DoesNotHold, fails.join(" "));
    }
    let open = sentences(TestOutcome::Open);
    if !open.is_empty() {
        let seen = [
            sentences(TestOutcome::Holds),
            sentences(TestOutcome::HoldsByStall),
        ]
        .concat();
        return (Ruling::CannotBeSettled, [open, seen].concat().join(" "));
    }
    let mut others: Vec<String> = sentences(TestOutcome::HoldsByStall);
    let mut unknown = Vec::new();
    for (otherwise, told) in reasons {
        match told.outcome {
            TestOutcome::Fails => others.push(format!(
                "{} {}",
                phrases::capital(&phrases::sentence(otherwise)),
                told.sentence
            )),
            TestOutcome::Open => unknown.push(told.sentence.clone()),
            TestOutcome::Holds | TestOutcome::HoldsByStall => {}
        }
    }
    let holds = sentences(TestOutcome::Holds);
    if !others.is_empty() {
        return (
            Ruling::HoldsForAnotherReason,
            [others, holds].concat().join(" "),
        );
    }
    if !unknown.is_empty() {
        let mut all = unknown;
        if !holds.is_empty() {
            all.insert(
                0,
                "The effect is there, but whether for the reason given is open.".to_owned(),
            );
        }
        return (Ruling::CannotBeSettled, [all, holds].concat().join(" "));
    }
    let because = reasons.iter().map(|(_, told)| told.sentence.clone());
    (
        Ruling::Holds,
        holds
            .into_iter()
            .chain(because)
            .collect::<Vec<_>>()
            .join(" "),
    )
}
