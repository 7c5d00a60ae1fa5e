//! A test laid out: what was found cell by cell, before all comparisons are corrected together.

use bytecost_spec::claim::{Expected, Quantity};
use bytecost_stats::{Location, holm};

use crate::confidence::ERROR_RATE;
use crate::phrases;
use crate::result::{AuditFigure, Finding};

/// All comparisons that one error rate is held over.
pub(super) struct Family(Vec<f64>);

impl Family {
    /// Begins with the findings of the run.
    pub(super) fn of(findings: &[Finding]) -> Family {
        Family(findings.iter().map(|f| f.p).collect())
    }

    fn add(&mut self, p: f64) -> usize {
        self.0.push(p);
        self.0.len() - 1
    }

    pub(super) fn corrected(&self) -> Vec<f64> {
        holm(&self.0)
    }
}

/// What one cell, pair of cells or row says.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum CaseResult {
    /// As expected.
    Met,
    /// Otherwise.
    NotMet,
    /// Not known, and why.
    Open(String),
    /// As expected or not, if the p value at that place of the family bears it.
    Tested { met: bool, place: usize },
}

/// One cell, pair of cells or row.
#[derive(Clone, Debug)]
pub(super) struct Item {
    /// By which items are told from the least to the most.
    pub(super) value: f64,
    /// Where: `at 4 KiB, with 1 thread`; empty where there is only one.
    pub(super) place: String,
    pub(super) state: CaseResult,
    pub(super) published: Option<String>,
    pub(super) measured: Option<String>,
    pub(super) finding: Option<String>,
    /// Whether one side of the comparison waits for a timer and the other does not.
    pub(super) stalled: bool,
    /// The same for items that differ in nothing but timers.
    pub(super) twin: String,
}

/// What a test comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TestOutcome {
    Holds,
    /// It holds, and only because one side of each comparison stalls.
    HoldsByStall,
    Fails,
    Open,
}

/// A test with all of its items.
pub(super) struct ClaimTest {
    /// What is tested: ``throughput of `a` over that of `b` ``.
    pub(super) subject: String,
    /// `above 1`.
    pub(super) expected: String,
    /// `cell`, `place`, `row`.
    pub(super) noun: &'static str,
    pub(super) cells: Quantity,
    pub(super) items: Vec<Item>,
    /// Said after it, where there is something to say.
    pub(super) note: Option<String>,
    /// Why there is nothing to look at.
    pub(super) missing: Option<String>,
}

/// A test judged and told.
pub(super) struct JudgedTest {
    pub(super) outcome: TestOutcome,
    pub(super) sentence: String,
    pub(super) figures: Vec<AuditFigure>,
    pub(super) findings: Vec<String>,
}

impl ClaimTest {
    /// A test that nothing can be said to.
    pub(super) fn missing(why: impl Into<String>) -> ClaimTest {
        ClaimTest {
            subject: String::new(),
            expected: String::new(),
            noun: "cell",
            cells: Quantity::Every,
            items: Vec::new(),
            note: None,
            missing: Some(why.into()),
        }
    }

    /// Judges, once all p values are corrected.
    pub(super) fn told(&self, corrected: &[f64]) -> JudgedTest {
        if let Some(why) = &self.missing {
            return JudgedTest {
                outcome: TestOutcome::Open,
                sentence: phrases::capital(&phrases::sentence(why)),
                figures: Vec::new(),
                findings: Vec::new(),
            };
        }
        let states: Vec<CaseResult> = self.items.iter().map(|i| i.settled(corrected)).collect();
        let (outcome, sentence) = self.weighed(&states);
        let note = self.note.clone().filter(|_| outcome != TestOutcome::Open);
        JudgedTest {
            outcome,
            sentence: std::iter::once(sentence)
                .chain(note)
                .collect::<Vec<_>>()
                .join(" "),
            figures: self
                .items
                .iter()
                .filter_map(|i| i.figure(&self.subject))
                .collect(),
            findings: self
                .items
                .iter()
                .filter_map(|i| i.finding.clone())
                .collect(),
        }
    }

    /// Items that stall on one side count for nothing where the same cells were measured without
    /// the stall; where they were not, what they show is the stall.
    fn weighed(&self, states: &[CaseResult]) -> (TestOutcome, String) {
        let (stalled, free): (Vec<usize>, Vec<usize>) =
            (0..states.len()).partition(|&i| self.items[i].stalled);
        let is_free = |i: &usize| {
            free.iter()
                .any(|&f| self.items[f].twin == self.items[*i].twin)
        };
        let bare: Vec<usize> = stalled.iter().copied().filter(|i| !is_free(i)).collect();
        if free.is_empty() {
            return self.stalled(states, &stalled);
        }
        let (outcome, sentence) = self.judged(states, &free);
        if outcome == TestOutcome::Holds && !bare.is_empty() {
            let (outcome, first) = self.stalled(states, &bare);
            return (outcome, format!("{first} Elsewhere: {sentence}"));
        }
        let aside = match stalled.len() {
            0 => String::new(),
            1 => format!(" One {} in which one side stalls is left aside.", self.noun),
            n => format!(
                " {} in which one side stalls are left aside.",
                phrases::count(n, self.noun)
            ),
        };
        (outcome, sentence + &aside)
    }

    fn judged(&self, states: &[CaseResult], of: &[usize]) -> (TestOutcome, String) {
        let all = of.len();
        let of_state = |wanted: fn(&CaseResult) -> bool| -> Vec<usize> {
            of.iter().copied().filter(|&i| wanted(&states[i])).collect()
        };
        let met = of_state(|s| *s == CaseResult::Met);
        let not = of_state(|s| *s == CaseResult::NotMet);
        let open = of_state(|s| matches!(s, CaseResult::Open(_)));
        let (subject, expected) = (phrases::capital(&self.subject), &self.expected);
        let among = |n: usize| {
            if all == 1 {
                String::new()
            } else {
                format!(" in {n} of {}", phrases::count(all, self.noun))
            }
        };
        let fails = || {
            let worst = self.told_items(&not);
            (
                TestOutcome::Fails,
                format!("{subject} is not {expected}{}{worst}.", among(not.len())),
            )
        };
        let holds = || {
            let seen = self.told_items(&met);
            (
                TestOutcome::Holds,
                format!("{subject} is {expected}{}{seen}.", among(met.len())),
            )
        };
        let opened = || {
            let why = open.iter().find_map(|&i| match &states[i] {
                CaseResult::Open(why) => Some(why.as_str()),
                _ => None,
            });
            let why = why.unwrap_or_default().trim_end_matches('.');
            (
                TestOutcome::Open,
                format!(
                    "Whether {} is {expected} is open{}: {why}.",
                    self.subject,
                    among(open.len())
                ),
            )
        };
        match self.cells {
            Quantity::Every if !not.is_empty() => fails(),
            Quantity::Some if !met.is_empty() => holds(),
            _ if !open.is_empty() => opened(),
            Quantity::Every => holds(),
            Quantity::Some => fails(),
        }
    }

    /// A comparison of a side that waits for a timer says what the timer costs, and no more.
    fn stalled(&self, states: &[CaseResult], of: &[usize]) -> (TestOutcome, String) {
        let (outcome, sentence) = self.judged(states, of);
        match outcome {
            TestOutcome::Holds | TestOutcome::HoldsByStall => (
                TestOutcome::HoldsByStall,
                format!(
                    "One side waits for a delayed acknowledgement on each message (Nagle's algorithm), which is no cost of copying; the same cells with TCP_NODELAY would tell the two apart. {sentence}"
                ),
            ),
            TestOutcome::Fails | TestOutcome::Open => (
                TestOutcome::Open,
                format!(
                    "One side waits for a delayed acknowledgement on each message, which hides the rest. {sentence}"
                ),
            ),
        }
    }

    /// Items with their numbers, all of two and of more the least and the most:
    /// `: at 4 KiB 0.97×; at 8 KiB 0.99×`.
    fn told_items(&self, which: &[usize]) -> String {
        let mut items: Vec<&Item> = which.iter().map(|&i| &self.items[i]).collect();
        items.retain(|i| i.measured.is_some() || i.published.is_some());
        items.sort_by(|a, b| a.value.total_cmp(&b.value));
        let number = |item: &Item| -> String {
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
}

impl Item {
    fn settled(&self, corrected: &[f64]) -> CaseResult {
        match &self.state {
            CaseResult::Tested { met, place } => {
                let decided = corrected.get(*place).is_some_and(|p| *p < ERROR_RATE);
                match (decided, met) {
                    (true, true) => CaseResult::Met,
                    (true, false) => CaseResult::NotMet,
                    (false, _) => CaseResult::Open(format!(
                        "not decided{}{}; more blocks would tell (--blocks, --budget)",
                        self.measured
                            .as_ref()
                            .map_or_else(String::new, |m| format!(": {m}")),
                        if self.place.is_empty() {
                            String::new()
                        } else {
                            format!(" {}", self.place)
                        },
                    )),
                }
            }
            other => other.clone(),
        }
    }

    fn figure(&self, subject: &str) -> Option<AuditFigure> {
        if self.published.is_none() && self.measured.is_none() {
            return None;
        }
        let what = if self.place.is_empty() {
            subject.to_owned()
        } else {
            format!("{subject}, {}", self.place)
        };
        Some(AuditFigure {
            what,
            published: self.published.clone(),
            measured: self.measured.clone(),
        })
    }
}

/// Holds an estimate on some scale against what is expected on it. `scale` takes a bound there.
pub(super) fn tested(
    location: &Location,
    expect: Expected,
    scale: impl Fn(f64) -> f64,
    family: &mut Family,
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
        Expected::Alike | Expected::Among => (false, p(1.0)),
    };
    CaseResult::Tested {
        met,
        place: family.add(p),
    }
}
