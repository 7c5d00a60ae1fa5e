//! Published claims compared with a run: each ruled on from its tests, with the figures.

use bytecost_spec::claim::{Claim, Test, TestKind};
use bytecost_spec::{Published, Table};
use itertools::Itertools as _;

use crate::phrases;
use crate::result::{Analysis, AuditFigure, Audited, Input, Ruling};
use crate::trials::Trials;

mod arithmetic;
mod cells;
mod claim_test;
mod context;
mod crossover;
mod pairs;

use claim_test::{Family, JudgedTest, TestOutcome};
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
    /// Published cells by their source, to stand next to measured ones.
    pub published: &'a [Published],
    /// Names of studies that can be run.
    pub studies: &'a [&'a str],
}

/// Judges claims by a run and its analysis, in the order of the claims.
///
/// A comparison that is a finding of the run keeps its verdict. All others are corrected
/// together with the run's findings (Holm), so that judging many claims gives no more false
/// rulings than judging one: the first round collects what is compared, the second one judges.
#[must_use]
pub fn audit(input: Input<'_>, analysis: &Analysis, grounds: &Grounds<'_>) -> Vec<Audited> {
    let trials = Trials::of_run(&input);
    let all = |family: &Family| -> Vec<Audited> {
        let of_claim = |claim| {
            let context = ClaimContext {
                input: &input,
                analysis,
                trials: &trials,
                grounds,
                claim,
                family,
            };
            context.audited()
        };
        grounds.claims.iter().map(of_claim).collect()
    };
    let family = Family::of(&analysis.findings);
    all(&family);
    all(&family.corrected())
}

impl Audited {
    /// Whether the run says nothing of the claim: neither a figure nor a finding.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        self.ruling == Ruling::Undecided && self.findings.is_empty() && !self.is_measured()
    }

    /// Whether the run has a figure for it.
    #[must_use]
    pub fn is_measured(&self) -> bool {
        self.figures.iter().any(|f| f.measured.is_some())
    }
}

/// Looks a test up in the run.
fn judged(test: &Test, context: &ClaimContext<'_>) -> JudgedTest {
    let drafted = match &test.kind {
        TestKind::Ratio {
            contrast,
            metric,
            expect,
        } => pairs::ratio(context, test, contrast, *metric, *expect),
        TestKind::Counter { contrast, metrics } => pairs::counter(context, test, contrast, metrics),
        TestKind::Scaling {
            metric,
            between,
            expect,
        } => pairs::scaling(context, test, *metric, *between, *expect),
        TestKind::Crossover { .. } => crossover::draft(context, test),
        TestKind::Level { metric, expect } => cells::level(context, test, *metric, *expect),
        TestKind::Stall { caveat, present } => cells::caveat(context, test, caveat, *present),
        TestKind::Arithmetic(sum) => arithmetic::draft(context, test, sum),
        TestKind::NotInThisRun { study, why } => {
            Err(format!("it needs {}: {why}", context.study(study)))
        }
    };
    drafted.map_or_else(JudgedTest::missing, |test| test.judged())
}

/// Whether a test looks at what was measured, rather than at published tables alone.
fn of_run(test: &Test) -> bool {
    !matches!(
        test.kind,
        TestKind::Arithmetic(_) | TestKind::NotInThisRun { .. }
    )
}

impl ClaimContext<'_> {
    fn audited(&self) -> Audited {
        let claim = self.claim;
        let mut tests: Vec<(&Test, JudgedTest)> =
            claim.tests.iter().map(|t| (t, judged(t, self))).collect();
        // What the run has no cells for is left aside where it has some for another test; where
        // it has none, one of them says what it takes.
        let mut left_aside = tests.iter().any(|(t, j)| of_run(t) && !j.is_missing);
        tests.retain(|(test, judged)| {
            let aside = test.if_measured && judged.is_missing;
            let keep = !(aside && left_aside);
            left_aside |= aside;
            keep
        });
        let tests: Vec<JudgedTest> = tests.into_iter().map(|(_, judged)| judged).collect();
        let reasons = claim.reasons.iter().filter_map(|r| {
            let judged = judged(&r.test, self);
            let aside = r.test.if_measured && judged.is_missing;
            (!aside).then_some((r.otherwise.as_str(), judged))
        });
        let reasons: Vec<(&str, JudgedTest)> = reasons.collect();
        let beside = claim
            .beside
            .iter()
            .map(|b| (&b.says, judged(&b.test, self)));
        let beside: Vec<_> = beside.filter(|(_, judged)| !judged.is_missing).collect();
        let (ruling, words, mut because) = rule(&tests, &reasons);
        for (says, told) in &beside {
            because.extend([format!("Also measured: {}", told.sentence)]);
            because.extend(says.iter().filter(|_| told.outcome.is_there()).cloned());
        }
        let all = || {
            let reasons = reasons.iter().map(|(_, told)| told);
            let beside = beside.iter().map(|(_, told)| told);
            tests.iter().chain(reasons).chain(beside)
        };
        let given = claim.published.iter().map(|text| AuditFigure {
            what: AS_PUBLISHED.to_owned(),
            published: Some(text.clone()),
            measured: None,
        });
        let findings = all().flat_map(|told| &told.findings).unique();
        Audited {
            id: claim.id.clone(),
            source: claim.source.clone(),
            claim: claim.claim.clone(),
            ruling,
            words,
            because: because.iter().unique().join(" "),
            of_study: claim.is_of_study(&self.analysis.study.name),
            figures: given
                .chain(all().flat_map(|told| told.figures.clone()))
                .collect(),
            findings: findings.cloned().collect(),
        }
    }
}

/// The effect first: where it is not there, no reason matters. A reason that is refuted is told
/// also where the effect is open.
fn rule(tests: &[JudgedTest], reasons: &[(&str, JudgedTest)]) -> (Ruling, String, Vec<String>) {
    let told = |wanted: fn(TestOutcome) -> bool| -> Vec<String> {
        let of = tests.iter().filter(|t| wanted(t.outcome));
        of.map(|t| t.sentence.clone()).collect()
    };
    let there = told(TestOutcome::is_there);
    let fails: Vec<&JudgedTest> = tests
        .iter()
        .filter(|t| t.outcome == TestOutcome::Fails)
        .collect();
    if let Some(first) = fails.first() {
        let measured = tests.iter().filter(|t| !t.of_table && t.outcome.is_there());
        let sentences = fails.iter().copied().chain(measured);
        let words = match (
            fails.iter().any(|t| t.of_table),
            fails.iter().find(|t| !t.of_table),
        ) {
            (true, None) => "refuted by its own table".to_owned(),
            (true, Some(_)) => "refuted here and by its own table".to_owned(),
            (false, _) => first.tally.refuted(),
        };
        let sentences = sentences.map(|t| t.sentence.clone()).collect();
        return (Ruling::Refuted, words, sentences);
    }
    let otherwise = reasons
        .iter()
        .filter(|(_, told)| told.outcome == TestOutcome::Fails)
        .map(|(otherwise, told)| {
            let otherwise = phrases::capital(&phrases::sentence(otherwise));
            format!("{otherwise} {}", told.sentence)
        });
    let otherwise: Vec<String> = otherwise.collect();
    if let Some(open) = tests.iter().find(|t| t.outcome == TestOutcome::Open) {
        let mut because = [told(|o| o == TestOutcome::Open), there].concat();
        let mut words = open.tally.undecided();
        if !otherwise.is_empty() {
            words = "undecided; the reason given is refuted".to_owned();
            because.push("The reason given is refuted already.".to_owned());
            because.extend(otherwise);
        }
        return (Ruling::Undecided, words, because);
    }
    let others = [told(|o| o == TestOutcome::HoldsByStall), otherwise].concat();
    let holds = told(|o| o.is_there() && o != TestOutcome::HoldsByStall);
    let mut parts = tests.iter().map(|t| (t.outcome, &t.tally));
    let mut all = parts
        .clone()
        .chain(reasons.iter().map(|(_, t)| (t.outcome, &t.tally)));
    if !others.is_empty() {
        let place = parts
            .find(|(outcome, _)| *outcome == TestOutcome::HoldsInPart)
            .map_or_else(String::new, |(_, tally)| tally.among(tally.met));
        let words = format!("confirmed{place} for another reason");
        let because = [others, holds].concat();
        return (Ruling::ConfirmedForAnotherReason, words, because);
    }
    let why = |wanted: fn(TestOutcome) -> bool| {
        let of = reasons.iter().filter(move |(_, told)| wanted(told.outcome));
        of.map(|(_, told)| told.sentence.clone())
            .collect::<Vec<_>>()
    };
    let unknown = why(|o| o == TestOutcome::Open);
    if !unknown.is_empty() {
        let effect = (!holds.is_empty()).then_some("The effect is confirmed, the reason is not.");
        let words = match effect {
            Some(_) => "undecided: the effect is confirmed, the reason is not",
            None => "undecided",
        };
        let because = effect.into_iter().map(str::to_owned).chain(unknown);
        return (
            Ruling::Undecided,
            words.to_owned(),
            because.chain(holds).collect(),
        );
    }
    let because = [holds, why(TestOutcome::is_there)].concat();
    let found = |wanted| all.clone().find(|(outcome, _)| *outcome == wanted);
    if let Some((_, tally)) = found(TestOutcome::HoldsInPart) {
        return (Ruling::ConfirmedInPart, tally.in_part(), because);
    }
    if found(TestOutcome::HoldsByLess).is_some() {
        let words = "confirmed, by less than matters".to_owned();
        return (Ruling::ConfirmedByLessThanMatters, words, because);
    }
    let words = all
        .find(|(_, tally)| tally.less > 0)
        .map_or_else(String::new, |(_, tally)| {
            format!(",{} by less than matters", tally.among(tally.less))
        });
    (Ruling::Confirmed, format!("confirmed{words}"), because)
}
