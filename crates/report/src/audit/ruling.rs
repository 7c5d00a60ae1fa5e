//! A ruling in words, with the sentences of its tests.

use bytecost_analysis::{
    Audited, AuditedTest, Case, CaseState, CaseTally, MeasuredNumber, Ruling, TestOutcome,
};
use bytecost_spec::Unit;
use itertools::Itertools as _;

use super::book::{self, TestBook};
use super::text::{AuditFigure, AuditText, FigureSubject};
use crate::phrases;
use crate::text::joined;

/// A claim with its ruling in words.
pub fn text(audited: &Audited) -> AuditText {
    let sides = Sides::new(audited);
    let (words, mut because) = sides.ruling(audited.ruling);
    for also in &audited.also {
        let test = TestText::new(&also.test, audited.unit);
        because.push(format!("Also measured: {}", test.sentence));
        because.extend(also.says.iter().filter(|_| test.outcome.holds()).cloned());
    }
    let published = audited.published.iter().map(|text| AuditFigure {
        subject: FigureSubject::AsPublished,
        published: Some(text.clone()),
        measured: None,
    });
    let tests = audited.all_tests();
    let figures = tests.flat_map(|test| figures(test, audited.unit));
    AuditText {
        id: audited.id.clone(),
        source: audited.source.clone(),
        claim: audited.claim.clone(),
        ruling: audited.ruling,
        words,
        because: because.iter().unique().join(" "),
        of_study: audited.of_study,
        figures: published.chain(figures).collect(),
        findings: audited.findings(),
    }
}

fn figures(test: &AuditedTest, unit: Unit) -> Vec<AuditFigure> {
    let book = TestBook { test, unit };
    let subject = book.subject();
    let figure = |case: &Case| {
        let (published, measured) = (book.published(case), book.measured(case));
        let stalls = if case.one_side_stalls {
            book::STALLS
        } else {
            ""
        };
        (published.is_some() || measured.is_some()).then(|| AuditFigure {
            subject: FigureSubject::Quantity(joined([&subject, &book::place(&case.place)], ", ")),
            published,
            measured: measured.map(|number| format!("{number}{stalls}")),
        })
    };
    test.cases().filter_map(figure).collect()
}

struct TestText {
    outcome: TestOutcome,
    noun: &'static str,
    tally: CaseTally,
    is_of_tables: bool,
    sentence: String,
    /// The ruling where the test is open, and nothing differs by more than matters.
    near: Option<String>,
}

impl TestText {
    fn new(test: &AuditedTest, unit: Unit) -> TestText {
        let book = TestBook { test, unit };
        let weighed = test.weighed();
        let found = match &test.result {
            Ok(found) => found,
            Err(why) => {
                let why = phrases::sentence(&book.not_tested(why));
                return TestText {
                    outcome: weighed.outcome,
                    noun: "",
                    tally: CaseTally::default(),
                    is_of_tables: false,
                    sentence: phrases::capital(&why),
                    near: None,
                };
            }
        };
        let is_open = weighed.outcome == TestOutcome::Open;
        let mut open = found.cases.iter().filter(|case| case.state.is_open());
        let is_near = is_open && open.all(|case| case.is_same);
        let is_timed = |case: &Case| matches!(case.measured, Some(MeasuredNumber::Timed(_)));
        let mut sentences = vec![sentence(&book)];
        if !is_open {
            let copied = found.copied_mover.iter();
            sentences.extend(
                copied
                    .map(|mover| format!("The kernel copied the buffers of `{mover}` after all.")),
            );
            let timed = found.cases.iter().any(is_timed);
            sentences.extend(timed.then(|| book::BY_TIMING.to_owned()));
        }
        let finer_than = found.finer_than.filter(|_| is_near);
        TestText {
            outcome: weighed.outcome,
            noun: book.noun(),
            tally: CaseTally::new(&weighed.deciding),
            is_of_tables: test.is_of_tables(),
            sentence: sentences.join(" "),
            near: finer_than.and_then(|effect| book.near(effect)),
        }
    }

    /// ` in 3 of 4 cells`; nothing of one alone.
    fn among(&self, cases: usize) -> String {
        among(self.tally, self.noun, cases)
    }

    /// `, 2 undecided, 1 not known`.
    fn others(&self) -> String {
        [
            (self.tally.open, "undecided"),
            (self.tally.absent, "not known"),
        ]
        .into_iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, what)| format!(", {n} {what}"))
        .collect()
    }

    /// `confirmed in 3 of 4 cells, 1 undecided`.
    fn in_part(&self) -> String {
        let but = match self.tally.not {
            0 => String::new(),
            n => format!(", refuted in {n}"),
        };
        let met = self.among(self.tally.met);
        format!("confirmed{met}{but}{}", self.others())
    }

    /// `refuted in 14 of 20 cells, 6 not known`.
    fn refuted(&self) -> String {
        let place = match self.tally.not {
            not if not == self.tally.all => String::new(),
            not => self.among(not),
        };
        format!("refuted{place}{}", self.others())
    }

    fn undecided(&self) -> String {
        let place = match self.tally.met + self.tally.not {
            0 => String::new(),
            _ => self.among(self.tally.open + self.tally.absent),
        };
        format!("undecided{place}")
    }
}

fn among(tally: CaseTally, noun: &str, cases: usize) -> String {
    match tally.all {
        0 | 1 => String::new(),
        all => format!(" in {cases} of {}", phrases::count(all, noun)),
    }
}

/// The cases of a test in sentences.
fn sentence(book: &TestBook<'_>) -> String {
    let weighed = book.test.weighed();
    let deciding = of_cases(book, &weighed.deciding);
    if weighed.by_stall {
        let first = if weighed.outcome.holds() {
            book::HOLDS_BY_STALL
        } else {
            book::HIDDEN_BY_STALL
        };
        if weighed.elsewhere.is_empty() {
            return format!("{first} {deciding}");
        }
        let elsewhere = of_cases(book, &weighed.elsewhere);
        return format!("{first} {deciding} Elsewhere: {elsewhere}");
    }
    let which = phrases::count(weighed.left_aside, book.noun());
    match weighed.left_aside {
        0 => deciding,
        1 => format!("{deciding} {which} in which one side stalls is left aside."),
        _ => format!("{deciding} {which} in which one side stalls are left aside."),
    }
}

fn of_cases(book: &TestBook<'_>, cases: &[&Case]) -> String {
    let tally = CaseTally::new(cases);
    let (subject, expected) = (book.subject(), book.expected());
    let place = |n: usize| among(tally, book.noun(), n);
    let numbers = |is: fn(&CaseState) -> bool| {
        let chosen = cases.iter().copied().filter(|case| is(&case.state));
        numbers(book, chosen.collect())
    };
    let mut parts = Vec::new();
    if tally.met > 0 {
        let numbers = numbers(CaseState::is_met);
        parts.push(format!("is {expected}{}{numbers}", place(tally.met)));
    }
    if tally.not > 0 {
        let numbers = numbers(|state| *state == CaseState::NotMet);
        parts.push(format!("is not {expected}{}{numbers}", place(tally.not)));
    }
    if tally.outcome(book.test.test.cells) == TestOutcome::Fails {
        parts.reverse();
    }
    let mut sentences = Vec::new();
    if !parts.is_empty() {
        let (subject, parts) = (phrases::capital(&subject), parts.join("; it "));
        sentences.push(format!("{subject} {parts}."));
    }
    let open = cases.iter().find_map(|case| match &case.state {
        CaseState::Open(reason) => Some(format!(
            "undecided{}{}; {}.",
            place(tally.open),
            numbers(CaseState::is_open),
            phrases::without_stop(&book::open(*reason))
        )),
        _ => None,
    });
    let absent = cases.iter().find_map(|case| match &case.state {
        CaseState::Absent(reason) => Some(format!(
            "not known{}: {}.",
            place(tally.absent),
            phrases::without_stop(&book.absent(reason))
        )),
        _ => None,
    });
    for missing in open.into_iter().chain(absent) {
        sentences.push(if sentences.is_empty() {
            format!("Whether {subject} is {expected} is {missing}")
        } else {
            format!("It is {missing}")
        });
    }
    sentences.join(" ")
}

/// The numbers of two cases, of more the least and the most: `: at 4 KiB 0.97×; at 8 KiB 0.99×`.
fn numbers(book: &TestBook<'_>, mut cases: Vec<&Case>) -> String {
    cases.sort_by(|a, b| a.value.total_cmp(&b.value));
    let placed_number = |case: &&Case| {
        let number = book.measured(case).or_else(|| book.published(case))?;
        Some((book::place(&case.place), number))
    };
    let numbers: Vec<(String, String)> = cases.iter().filter_map(placed_number).collect();
    let placed = |(place, number): &(String, String)| joined([place, number], " ");
    match numbers.as_slice() {
        [] => String::new(),
        [one] => format!(": {}", placed(one)),
        [(_, first), rest @ ..] if rest.iter().all(|(_, number)| number == first) => {
            format!(": {first}")
        }
        [one, two] => format!(": {}; {}", placed(one), placed(two)),
        [least, .., most] => {
            format!(", the least {}, the most {}", placed(least), placed(most))
        }
    }
}

/// The tests of a claim in words: of the effect, and of each reason, with the correction for a
/// refuted one.
struct Sides<'a> {
    tests: Vec<TestText>,
    reasons: Vec<(&'a str, TestText)>,
}

/// The ruling, and the sentences with its reasons.
type Ruled = (String, Vec<String>);

impl<'a> Sides<'a> {
    fn new(audited: &'a Audited) -> Sides<'a> {
        let text = |test| TestText::new(test, audited.unit);
        let reasons = audited.reasons.iter();
        Sides {
            reasons: reasons
                .map(|reason| (reason.otherwise.as_str(), text(&reason.test)))
                .collect(),
            tests: audited.tests.iter().map(text).collect(),
        }
    }

    fn ruling(&self, ruling: Ruling) -> Ruled {
        match ruling {
            Ruling::Refuted => self.refuted(),
            Ruling::Undecided => self.undecided(),
            Ruling::ConfirmedForAnotherReason => {
                let stalls = self.effect(|outcome| outcome == TestOutcome::HoldsByStall);
                let words = format!("confirmed{} for another reason", self.part());
                (words, [stalls, self.otherwise(), self.holds()].concat())
            }
            Ruling::ConfirmedInPart => {
                let part = self.find(|test| test.outcome == TestOutcome::HoldsInPart);
                let words = part.map_or_else(String::new, TestText::in_part);
                (words, self.confirmed())
            }
            Ruling::ConfirmedByLessThanMatters => {
                let words = "confirmed, by less than matters".to_owned();
                (words, self.confirmed())
            }
            Ruling::Confirmed => {
                let less = match self.find(|test| test.tally.less > 0) {
                    Some(test) => format!(",{} by less than matters", test.among(test.tally.less)),
                    None => String::new(),
                };
                (format!("confirmed{less}"), self.confirmed())
            }
        }
    }

    fn refuted(&self) -> Ruled {
        let fails = || (self.tests.iter()).filter(|test| test.outcome == TestOutcome::Fails);
        // The test that falls in most of its cells says how far the claim falls.
        let of_run = fails().filter(|test| !test.is_of_tables).rev();
        let by_run = of_run.max_by(|a, b| a.tally.share_not().total_cmp(&b.tally.share_not()));
        let words = match (fails().any(|test| test.is_of_tables), by_run) {
            (true, None) => "refuted by its own table".to_owned(),
            (true, Some(_)) => "refuted here and by its own table".to_owned(),
            (false, run) => run.map_or_else(String::new, TestText::refuted),
        };
        let is_held = |test: &&TestText| !test.is_of_tables && test.outcome.holds();
        let held = self.tests.iter().filter(is_held);
        let because = fails().chain(held).map(|test| test.sentence.clone());
        (words, because.collect())
    }

    /// The effect is open, or else a reason. A reason that is refuted is reported also where the
    /// effect is open.
    fn undecided(&self) -> Ruled {
        let is_open = |outcome| outcome == TestOutcome::Open;
        let mut open = self.tests.iter().filter(|test| is_open(test.outcome));
        let Some(first) = open.next() else {
            let reasons = self.reasons(is_open);
            let holds = self.holds();
            if holds.is_empty() {
                return ("undecided".to_owned(), reasons);
            }
            let part = self.part();
            let words = format!("undecided: the effect is confirmed{part}, the reason is not");
            let head = vec!["The effect is confirmed, the reason is not.".to_owned()];
            return (words, [head, reasons, holds].concat());
        };
        let mut because = self.effect(is_open);
        because.extend(self.effect(TestOutcome::holds));
        let otherwise = self.otherwise();
        if otherwise.is_empty() {
            let words = [first]
                .into_iter()
                .chain(open)
                .find_map(|test| test.near.clone())
                .unwrap_or_else(|| first.undecided());
            return (words, because);
        }
        because.push("The reason given is refuted already.".to_owned());
        because.extend(otherwise);
        ("undecided; the reason given is refuted".to_owned(), because)
    }

    /// Cells in which the effect holds, in words; empty unless it holds in some of them only.
    fn part(&self) -> String {
        self.tests
            .iter()
            .find(|test| test.outcome == TestOutcome::HoldsInPart)
            .map_or_else(String::new, |test| test.among(test.tally.met))
    }

    fn confirmed(&self) -> Vec<String> {
        [self.holds(), self.reasons(TestOutcome::holds)].concat()
    }

    /// The sentences of an effect that no stall explains.
    fn holds(&self) -> Vec<String> {
        self.effect(|outcome| outcome.holds() && outcome != TestOutcome::HoldsByStall)
    }

    /// Sentences that correct the refuted reasons.
    fn otherwise(&self) -> Vec<String> {
        let sentence = |(otherwise, test): &(&str, TestText)| {
            let otherwise = phrases::capital(&phrases::sentence(otherwise));
            format!("{otherwise} {}", test.sentence)
        };
        self.reasons
            .iter()
            .filter(|(_, test)| test.outcome == TestOutcome::Fails)
            .map(sentence)
            .collect()
    }

    fn effect(&self, is: impl Fn(TestOutcome) -> bool) -> Vec<String> {
        let tests = self.tests.iter().filter(|test| is(test.outcome));
        tests.map(|test| test.sentence.clone()).collect()
    }

    fn reasons(&self, is: impl Fn(TestOutcome) -> bool) -> Vec<String> {
        let reasons = self.reasons.iter().filter(|(_, test)| is(test.outcome));
        reasons.map(|(_, test)| test.sentence.clone()).collect()
    }

    fn find(&self, is: impl Fn(&TestText) -> bool) -> Option<&TestText> {
        let reasons = self.reasons.iter().map(|(_, test)| test);
        self.tests.iter().chain(reasons).find(|test| is(test))
    }
}
