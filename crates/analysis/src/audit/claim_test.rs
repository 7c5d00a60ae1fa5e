//! A test of a claim: what was found cell by cell, and what that comes to.

use std::cell::RefCell;

use bytecost_spec::Metric;
use bytecost_spec::claim::{Expected, Quantity};
use bytecost_stats::{Location, holm};
use itertools::Itertools as _;

use crate::phrases;
use crate::result::AuditFigure;

/// The comparisons that claims ask for and the run does not judge, with one error rate.
#[derive(Default)]
pub(super) struct ClaimFamily {
    asked: RefCell<Vec<f64>>,
    /// The greatest p value that decides; none while comparisons are collected.
    most: Option<f64>,
}

impl ClaimFamily {
    /// Whether a comparison of that p value is decided beside all others. Of two hypotheses that
    /// cannot both be true, no difference and one that matters, the less likely one is asked.
    pub(super) fn decides(&self, p: f64) -> bool {
        self.asked.borrow_mut().push(p);
        self.most.is_some_and(|most| p <= most)
    }

    /// The same with all that was asked at an error rate, so that it decides.
    pub(super) fn corrected(self, rate: f64) -> ClaimFamily {
        let asked = self.asked.into_inner();
        let decided = holm(&asked).into_iter().zip(&asked);
        let decided = decided.filter(|(holm, _)| *holm < rate);
        ClaimFamily {
            most: decided.map(|(_, p)| *p).reduce(f64::max),
            asked: RefCell::default(),
        }
    }
}

/// What one cell, pair of cells or row says.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum CaseResult {
    Met,
    /// As expected, and the difference is smaller than what matters.
    MetByLess,
    NotMet,
    /// Not decided, and what would decide it.
    Open(String),
    Absent(String),
}

impl CaseResult {
    pub(super) fn of(is_met: bool) -> CaseResult {
        match is_met {
            true => CaseResult::Met,
            false => CaseResult::NotMet,
        }
    }

    /// What a comparison says, where it is decided; else more blocks may decide it.
    pub(super) fn decided(is_decided: bool, is_met: bool) -> CaseResult {
        match is_decided {
            true => CaseResult::of(is_met),
            false => CaseResult::Open(MORE_BLOCKS.to_owned()),
        }
    }
}

pub(super) type Wanted = (Metric, Expected);

pub(super) const TABLE_ROW: &str = "row";

pub(super) const MORE_BLOCKS: &str = "more blocks would tell (--blocks, --budget)";

#[derive(Clone, Debug)]
pub(super) struct Item {
    /// By which items are told from the least to the most.
    pub(super) value: f64,
    /// Where: `at 4 KiB, with 1 thread`; empty where there is only one.
    pub(super) place: String,
    pub(super) state: CaseResult,
    pub(super) published: Option<String>,
    pub(super) measured: Option<String>,
    pub(super) finding: Option<usize>,
    /// Whether one side of the comparison waits for a timer and the other does not.
    pub(super) stalled: bool,
    /// The same for items that differ in nothing but timers.
    pub(super) twin: String,
    /// Whether the two sides were shown not to differ by more than matters.
    pub(super) is_same: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum TestOutcome {
    Holds,
    /// In most of the cells; in the others it does not, or that is not known.
    HoldsInPart,
    /// By a difference that is smaller than what matters, in all cells.
    HoldsByLess,
    /// It holds, and only because one side of each comparison stalls.
    HoldsByStall,
    Fails,
    #[default]
    Open,
}

impl TestOutcome {
    pub(super) fn is_there(self) -> bool {
        !matches!(self, TestOutcome::Fails | TestOutcome::Open)
    }
}

pub(super) struct ClaimTest {
    /// What is tested: ``throughput of `a` over that of `b` ``.
    pub(super) subject: String,
    /// `above 1`.
    pub(super) expected: String,
    /// `cell`, `place`; [`TABLE_ROW`].
    pub(super) noun: &'static str,
    /// One at least.
    pub(super) items: Vec<Item>,
    pub(super) note: Option<String>,
    /// What is said of a claim that is finer than what matters, where no side was shown to differ by
    /// more than that: `within 5 %, not confirmed from 0.995 to 1.005`.
    pub(super) near: Option<String>,
}

/// In how many of its cells a test is what.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CaseTally {
    noun: &'static str,
    of: usize,
    pub(super) met: usize,
    /// Of those that are met.
    pub(super) less: usize,
    not: usize,
    open: usize,
    absent: usize,
}

#[derive(Default)]
pub(super) struct JudgedTest {
    pub(super) outcome: TestOutcome,
    pub(super) tally: CaseTally,
    pub(super) of_table: bool,
    pub(super) is_missing: bool,
    pub(super) sentence: String,
    /// What the ruling says where the test is open, in place of that.
    pub(super) near: Option<String>,
    pub(super) figures: Vec<AuditFigure>,
    pub(super) findings: Vec<usize>,
}

impl JudgedTest {
    pub(super) fn missing(why: String) -> JudgedTest {
        JudgedTest {
            is_missing: true,
            sentence: phrases::capital(&phrases::sentence(&why)),
            ..JudgedTest::default()
        }
    }
}

impl CaseTally {
    fn of(noun: &'static str, items: &[&Item]) -> CaseTally {
        let count = |wanted: fn(&CaseResult) -> bool| {
            items.iter().filter(|item| wanted(&item.state)).count()
        };
        let less = count(|s| *s == CaseResult::MetByLess);
        CaseTally {
            noun,
            of: items.len(),
            met: count(|s| *s == CaseResult::Met) + less,
            less,
            not: count(|s| *s == CaseResult::NotMet),
            open: count(|s| matches!(s, CaseResult::Open(_))),
            absent: count(|s| matches!(s, CaseResult::Absent(_))),
        }
    }

    /// A claim about every cell falls with one of them; what is claimed of most of them, with half.
    fn outcome(&self, cells: Quantity) -> TestOutcome {
        let all_met = match self.met == self.less {
            true => TestOutcome::HoldsByLess,
            false => TestOutcome::Holds,
        };
        let most_met = 2 * self.met > self.of;
        match cells {
            Quantity::Some if self.met > 0 => all_met,
            Quantity::Every if self.not > 0 => TestOutcome::Fails,
            Quantity::Most if 2 * self.not >= self.of => TestOutcome::Fails,
            _ if self.met == self.of => all_met,
            Quantity::Every | Quantity::Most if most_met => TestOutcome::HoldsInPart,
            Quantity::Some if self.not == self.of => TestOutcome::Fails,
            _ => TestOutcome::Open,
        }
    }

    /// The share of the cells in which it is not met.
    pub(super) fn share_not(&self) -> f64 {
        self.not as f64 / self.of.max(1) as f64
    }

    /// ` in 3 of 4 cells`; nothing of one alone.
    pub(super) fn among(&self, n: usize) -> String {
        match self.of {
            0 | 1 => String::new(),
            all => format!(" in {n} of {}", phrases::count(all, self.noun)),
        }
    }

    /// `, 2 undecided, 1 not known`.
    fn others(&self) -> String {
        let others = [(self.open, "undecided"), (self.absent, "not known")];
        let others = others.into_iter().filter(|(n, _)| *n > 0);
        others.map(|(n, what)| format!(", {n} {what}")).collect()
    }

    /// `confirmed in 3 of 4 cells, 1 undecided`.
    pub(super) fn in_part(&self) -> String {
        let but = match self.not {
            0 => String::new(),
            n => format!(", refuted in {n}"),
        };
        format!("confirmed{}{but}{}", self.among(self.met), self.others())
    }

    /// `refuted in 14 of 20 cells, 6 not known`.
    pub(super) fn refuted(&self) -> String {
        let place = match self.not == self.of {
            true => String::new(),
            false => self.among(self.not),
        };
        format!("refuted{place}{}", self.others())
    }

    pub(super) fn undecided(&self) -> String {
        let place = match self.met + self.not {
            0 => String::new(),
            _ => self.among(self.open + self.absent),
        };
        format!("undecided{place}")
    }
}

type Weighed = (TestOutcome, CaseTally, String);

impl ClaimTest {
    pub(super) fn of(
        subject: String,
        expected: String,
        noun: &'static str,
        items: Vec<Item>,
    ) -> ClaimTest {
        ClaimTest {
            subject,
            expected,
            noun,
            items,
            note: None,
            near: None,
        }
    }

    pub(super) fn judged(&self, cells: Quantity) -> JudgedTest {
        let (outcome, tally, sentence) = self.weighed(cells);
        let note = self.note.iter().filter(|_| outcome != TestOutcome::Open);
        let sentence = std::iter::once(&sentence).chain(note).join(" ");
        let items = || self.items.iter();
        let mut open = items().filter(|i| matches!(i.state, CaseResult::Open(_)));
        let is_near = outcome == TestOutcome::Open && open.all(|i| i.is_same);
        JudgedTest {
            outcome,
            tally,
            of_table: self.noun == TABLE_ROW,
            is_missing: false,
            sentence,
            near: self.near.clone().filter(|_| is_near),
            figures: items().filter_map(|i| i.figure(&self.subject)).collect(),
            findings: items().filter_map(|i| i.finding).collect(),
        }
    }

    /// Items that stall on one side count for nothing where the same cells were measured without
    /// the stall; where they were not, what they show is the stall.
    fn weighed(&self, cells: Quantity) -> Weighed {
        let (stalled, free): (Vec<&Item>, Vec<&Item>) = self.items.iter().partition(|i| i.stalled);
        if free.is_empty() {
            return self.by_stall(&stalled, cells);
        }
        let is_bare = |i: &&Item| free.iter().all(|f| f.twin != i.twin);
        let bare = stalled.iter().copied().filter(is_bare).collect_vec();
        let (outcome, tally, sentence) = self.of_items(&free, cells);
        if outcome == TestOutcome::Holds && !bare.is_empty() {
            let (outcome, tally, first) = self.by_stall(&bare, cells);
            return (outcome, tally, format!("{first} Elsewhere: {sentence}"));
        }
        let which = phrases::count(stalled.len(), self.noun);
        let aside = match stalled.len() {
            0 => String::new(),
            1 => format!(" {which} in which one side stalls is left aside."),
            _ => format!(" {which} in which one side stalls are left aside."),
        };
        (outcome, tally, sentence + &aside)
    }

    /// A comparison of a side that waits for a timer says what the timer costs, and no more.
    fn by_stall(&self, of: &[&Item], cells: Quantity) -> Weighed {
        let (outcome, tally, sentence) = self.of_items(of, cells);
        let (outcome, first) = match outcome.is_there() {
            true => (
                TestOutcome::HoldsByStall,
                "One side waits for a delayed acknowledgement on each message (Nagle's algorithm), which is no cost of copying; the same cells with TCP_NODELAY would tell the two apart.",
            ),
            false => (
                TestOutcome::Open,
                "One side waits for a delayed acknowledgement on each message, which hides everything else.",
            ),
        };
        (outcome, tally, format!("{first} {sentence}"))
    }

    fn of_items(&self, of: &[&Item], cells: Quantity) -> Weighed {
        let tally = CaseTally::of(self.noun, of);
        let outcome = tally.outcome(cells);
        let (subject, expected) = (&self.subject, &self.expected);
        let told = |n: usize, wanted: fn(&CaseResult) -> bool| {
            let items = of.iter().copied().filter(|i| wanted(&i.state));
            tally.among(n) + &told_items(items.collect())
        };
        let mut parts = Vec::new();
        if tally.met > 0 {
            let is = |s: &CaseResult| matches!(s, CaseResult::Met | CaseResult::MetByLess);
            parts.push(format!("is {expected}{}", told(tally.met, is)));
        }
        if tally.not > 0 {
            let is = |s: &CaseResult| *s == CaseResult::NotMet;
            parts.push(format!("is not {expected}{}", told(tally.not, is)));
        }
        if outcome == TestOutcome::Fails {
            parts.reverse();
        }
        let mut sentences = Vec::new();
        if !parts.is_empty() {
            let (subject, parts) = (phrases::capital(subject), parts.join("; it "));
            sentences.push(format!("{subject} {parts}."));
        }
        let open = of.iter().find_map(|i| match &i.state {
            CaseResult::Open(why) => Some(why.trim_end_matches('.')),
            _ => None,
        });
        let absent = of.iter().find_map(|i| match &i.state {
            CaseResult::Absent(why) => Some(why.trim_end_matches('.')),
            _ => None,
        });
        let numbers = told(tally.open, |s| matches!(s, CaseResult::Open(_)));
        let missing = [
            open.map(|why| format!("undecided{numbers}; {why}.")),
            absent.map(|why| format!("not known{}: {why}.", tally.among(tally.absent))),
        ];
        for what in missing.into_iter().flatten() {
            sentences.push(match sentences.is_empty() {
                true => format!("Whether {subject} is {expected} is {what}"),
                false => format!("It is {what}"),
            });
        }
        (outcome, tally, sentences.join(" "))
    }
}

/// A number with its interval, which is left out where it reads alike.
pub(super) fn with_interval(value: String, low: &str, high: &str) -> String {
    if value == low && value == high {
        return value;
    }
    format!("{value} ({low} to {high})")
}

/// All of two items, of more the least and the most: `: at 4 KiB 0.97×; at 8 KiB 0.99×`.
fn told_items(mut items: Vec<&Item>) -> String {
    items.retain(|i| i.measured.is_some() || i.published.is_some());
    items.sort_by(|a, b| a.value.total_cmp(&b.value));
    let number = |item: &Item| {
        let number = item.measured.as_ref().or(item.published.as_ref());
        number.cloned().unwrap_or_default()
    };
    let told = |item: &Item| {
        let number = number(item);
        format!("{} {number}", item.place).trim_start().to_owned()
    };
    match items.as_slice() {
        [] => String::new(),
        [one] => format!(": {}", told(one)),
        [first, rest @ ..] if rest.iter().all(|i| number(i) == number(first)) => {
            format!(": {}", number(first))
        }
        [one, two] => format!(": {}; {}", told(one), told(two)),
        [least, .., most] => format!(", the least {}, the most {}", told(least), told(most)),
    }
}

impl Item {
    pub(super) fn of(state: CaseResult) -> Item {
        Item {
            value: 0.0,
            place: String::new(),
            state,
            published: None,
            measured: None,
            finding: None,
            stalled: false,
            twin: String::new(),
            is_same: false,
        }
    }

    fn figure(&self, subject: &str) -> Option<AuditFigure> {
        self.measured.as_ref().or(self.published.as_ref())?;
        let what = [subject, &self.place].into_iter().filter(|t| !t.is_empty());
        let stalls = match self.stalled {
            true => ", one side waits for the timer of delayed acknowledgements",
            false => "",
        };
        Some(AuditFigure {
            what: what.format(", ").to_string(),
            published: self.published.clone(),
            measured: self.measured.as_ref().map(|m| format!("{m}{stalls}")),
        })
    }
}

/// Compares an estimate on some scale with what is expected on it. `scale` takes a bound there.
pub(super) fn tested(
    location: &Location,
    expect: Expected,
    scale: impl Fn(f64) -> f64,
    family: &ClaimFamily,
) -> CaseResult {
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
    CaseResult::decided(family.decides(p), met)
}
