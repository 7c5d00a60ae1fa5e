//! Published claims compared with a run: each ruled on from its tests, with the figures.

use bytecost_spec::claim::{Test, TestKind};
use itertools::Itertools as _;

use crate::phrases;
use crate::result::{AuditFigure, Audited, Grounds, Ruling};
use crate::stages::Judged;

mod arithmetic;
mod cells;
mod claim_test;
mod context;
mod crossover;
mod pairs;

use claim_test::{ClaimFamily, JudgedTest, TestOutcome};
use context::ClaimContext;
pub use context::beside;

/// What the figures are called that a claim gives in its own words.
pub const AS_PUBLISHED: &str = "as published";

/// Judges claims by a run and its analysis, in the order of the claims.
///
/// A comparison that the run judges keeps its verdict. All others are a family of their own (Holm):
/// many claims give no more false rulings than one. The first round collects, the second judges.
pub(crate) fn rulings(run: &Judged<'_>, grounds: &Grounds) -> Vec<Audited> {
    let all = |family: &ClaimFamily| -> Vec<Audited> {
        let of_claim = |claim| {
            let context = ClaimContext {
                run,
                grounds,
                claim,
                family,
            };
            context.audited()
        };
        grounds.claims.iter().map(of_claim).collect()
    };
    let family = ClaimFamily::default();
    all(&family);
    all(&family.corrected(run.error_rate()))
}

impl Audited {
    /// Whether the run says nothing of the claim: neither a figure nor a finding.
    pub fn is_silent(&self) -> bool {
        self.ruling == Ruling::Undecided && self.findings.is_empty() && !self.is_measured()
    }

    /// Whether the run has a figure for it.
    pub fn is_measured(&self) -> bool {
        self.figures.iter().any(|f| f.measured.is_some())
    }
}

fn judged(test: &Test, context: &ClaimContext<'_>) -> JudgedTest {
    let place = &test.place;
    let drafted = match &test.kind {
        TestKind::Ratio {
            contrast,
            metric,
            expect,
        } => pairs::ratio(context, place, contrast, (*metric, *expect)),
        TestKind::Counter { contrast, metrics } => {
            pairs::counter(context, place, contrast, metrics)
        }
        TestKind::Scaling {
            metric,
            between,
            expect,
        } => pairs::scaling(context, place, *between, (*metric, *expect)),
        TestKind::Crossover { .. } => crossover::draft(context, test),
        TestKind::Level { metric, expect } => cells::level(context, place, (*metric, *expect)),
        TestKind::Stall { caveat, present } => cells::caveat(context, place, caveat, *present),
        TestKind::Arithmetic(sum) => arithmetic::draft(context, sum),
        TestKind::NotInThisRun { study, why } => {
            Err(format!("it needs {}: {why}", context.study(study)))
        }
    };
    drafted.map_or_else(JudgedTest::missing, |drafted| drafted.judged(test.cells))
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
        let beside = claim.beside.iter();
        let beside = beside.map(|b| (&b.says, judged(&b.test, self)));
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
        let figures = all().flat_map(|told| told.figures.clone());
        let findings = all()
            .flat_map(|told| told.findings.iter().copied())
            .unique();
        Audited {
            id: claim.id.clone(),
            source: claim.source.clone(),
            claim: claim.claim.clone(),
            ruling,
            words,
            because: because.iter().unique().join(" "),
            of_study: claim.is_of_study(&self.run.study.name),
            figures: given.chain(figures).collect(),
            findings: findings.collect(),
        }
    }
}

type Ruled = (Ruling, String, Vec<String>);

fn told<'t>(
    tests: impl Iterator<Item = &'t JudgedTest>,
    wanted: impl Fn(TestOutcome) -> bool,
) -> Vec<String> {
    let of = tests.filter(|t| wanted(t.outcome));
    of.map(|t| t.sentence.clone()).collect()
}

/// The effect first: where it is not there, no reason matters. A reason that is refuted is told
/// also where the effect is open.
fn rule(tests: &[JudgedTest], reasons: &[(&str, JudgedTest)]) -> Ruled {
    use TestOutcome::{Fails, HoldsByLess, HoldsByStall, HoldsInPart, Open};
    let first = |wanted| tests.iter().find(|t| t.outcome == wanted);
    if first(Fails).is_some() {
        return refuted(tests);
    }
    let fallen = reasons.iter().filter(|(_, told)| told.outcome == Fails);
    let fallen = fallen.map(|(otherwise, told)| {
        let otherwise = phrases::capital(&phrases::sentence(otherwise));
        format!("{otherwise} {}", told.sentence)
    });
    let otherwise: Vec<String> = fallen.collect();
    let place = first(HoldsInPart).map_or_else(String::new, |t| t.tally.among(t.tally.met));
    let holds = told(tests.iter(), |o| o.is_there() && o != HoldsByStall);
    if let Some(open) = first(Open) {
        let mut because = told(tests.iter(), |o| o == Open);
        because.extend(told(tests.iter(), TestOutcome::is_there));
        if otherwise.is_empty() {
            let mut near = tests.iter().filter(|t| t.outcome == Open);
            let near = near.find_map(|t| t.near.clone());
            let words = near.unwrap_or_else(|| open.tally.undecided());
            return (Ruling::Undecided, words, because);
        }
        because.push("The reason given is refuted already.".to_owned());
        because.extend(otherwise);
        let words = "undecided; the reason given is refuted".to_owned();
        return (Ruling::Undecided, words, because);
    }
    let others = [told(tests.iter(), |o| o == HoldsByStall), otherwise].concat();
    if !others.is_empty() {
        let words = format!("confirmed{place} for another reason");
        let because = [others, holds].concat();
        return (Ruling::ConfirmedForAnotherReason, words, because);
    }
    let why = || reasons.iter().map(|(_, told)| told);
    let unknown = told(why(), |o| o == Open);
    if !unknown.is_empty() {
        if holds.is_empty() {
            return (Ruling::Undecided, "undecided".to_owned(), unknown);
        }
        let words = format!("undecided: the effect is confirmed{place}, the reason is not");
        let head = vec!["The effect is confirmed, the reason is not.".to_owned()];
        return (Ruling::Undecided, words, [head, unknown, holds].concat());
    }
    let because = [holds, told(why(), TestOutcome::is_there)].concat();
    let mut all = tests.iter().chain(why());
    if let Some(part) = all.clone().find(|t| t.outcome == HoldsInPart) {
        return (Ruling::ConfirmedInPart, part.tally.in_part(), because);
    }
    if all.clone().any(|t| t.outcome == HoldsByLess) {
        let words = "confirmed, by less than matters".to_owned();
        return (Ruling::ConfirmedByLessThanMatters, words, because);
    }
    let less = all.find(|t| t.tally.less > 0);
    let less = less.map_or_else(String::new, |t| {
        format!(",{} by less than matters", t.tally.among(t.tally.less))
    });
    (Ruling::Confirmed, format!("confirmed{less}"), because)
}

fn refuted(tests: &[JudgedTest]) -> Ruled {
    let fails = || tests.iter().filter(|t| t.outcome == TestOutcome::Fails);
    // The test that falls in most of its cells says how far the claim falls.
    let of_run = fails().filter(|t| !t.of_table).rev();
    let by_run = of_run.max_by(|a, b| a.tally.share_not().total_cmp(&b.tally.share_not()));
    let words = match (fails().any(|t| t.of_table), by_run) {
        (true, None) => "refuted by its own table".to_owned(),
        (true, Some(_)) => "refuted here and by its own table".to_owned(),
        (false, run) => run.map_or_else(String::new, |t| t.tally.refuted()),
    };
    let mut because = told(fails(), |_| true);
    let measured = tests.iter().filter(|t| !t.of_table);
    because.extend(told(measured, TestOutcome::is_there));
    (Ruling::Refuted, words, because)
}
