//! Published claims compared with the results, as facts.

use bytecost_spec::claim::{Between, Quantity, Test, TestKind};
use bytecost_spec::evidence::CopyMeans;
use bytecost_spec::{Axis, Metric, Unit, Value};
use itertools::Itertools as _;
use serde::{Deserialize, Serialize};

use super::{CaveatKind, Gap, NoValue};

/// The ruling of an audit on a published claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Ruling {
    /// It is so here.
    Confirmed,
    /// It is so in most of the cells; in the others it is not, or that is not decided.
    ConfirmedInPart,
    /// It is so here, by a difference that is smaller than what matters.
    ConfirmedByLessThanMatters,
    /// The effect is there, but not for the reason that was given.
    ConfirmedForAnotherReason,
    /// It is not so.
    Refuted,
    /// Neither is decided here.
    Undecided,
}

/// A claim compared with the results.
#[derive(Clone, Debug, PartialEq)]
pub struct Audited {
    /// The claim's id.
    pub id: String,
    /// The publication that makes the claim.
    pub source: String,
    /// The conclusion.
    pub claim: String,
    /// The figures that were published for it, in the claim's own words.
    pub published: Option<String>,
    /// The ruling.
    pub ruling: Ruling,
    /// True if the run is of a study that settles the claim.
    pub of_study: bool,
    /// The word for one message of the run.
    pub unit: Unit,
    /// Tests of the effect, of which all must hold.
    pub tests: Vec<AuditedTest>,
    /// Tests of the reasons that are given for it.
    pub reasons: Vec<AuditedReason>,
    /// Tests that decide nothing.
    pub also: Vec<AlsoMeasured>,
}

/// A reason that a claim gives, compared with the results.
#[derive(Clone, Debug, PartialEq)]
pub struct AuditedReason {
    /// The actual reason if the test fails, in the claim's words.
    pub otherwise: String,
    /// A test of what would follow from the reason.
    pub test: AuditedTest,
}

/// A test that is reported next to a ruling and has no part in it.
#[derive(Clone, Debug, PartialEq)]
pub struct AlsoMeasured {
    /// The meaning of a test that holds, in the claim's words.
    pub says: Option<String>,
    /// The test.
    pub test: AuditedTest,
}

impl Audited {
    /// The tests of the effect, those of the reasons, and those that decide nothing.
    pub fn all_tests(&self) -> impl Iterator<Item = &AuditedTest> {
        let reasons = self.reasons.iter().map(|reason| &reason.test);
        let also = self.also.iter().map(|also| &also.test);
        self.tests.iter().chain(reasons).chain(also)
    }

    /// The numbers of the findings behind it ([`crate::Finding::number`]), each once.
    pub fn findings(&self) -> Vec<usize> {
        let cases = self.all_tests().flat_map(AuditedTest::cases);
        cases.filter_map(|case| case.finding).unique().collect()
    }
}

/// A test of a claim with the cases that the run has for it.
#[derive(Clone, Debug, PartialEq)]
pub struct AuditedTest {
    /// The test.
    pub test: Test,
    /// Its cases, one at least, or why there is none.
    pub result: Result<TestCases, NotTested>,
}

/// The cases of a test.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TestCases {
    /// The cases, in the order of the plan or of the table.
    pub cases: Vec<Case>,
    /// A zero-copy mover among them of which the kernel copied the buffers.
    pub copied_mover: Option<String>,
    /// The smallest effect that matters, as a share, where the claim is finer than that.
    pub finer_than: Option<f64>,
}

impl From<Vec<Case>> for TestCases {
    fn from(cases: Vec<Case>) -> TestCases {
        TestCases {
            cases,
            ..TestCases::default()
        }
    }
}

/// A cell, a pair of cells, a group of pairs or a row of a table to which a test applies.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The cells or table rows of the case.
    pub place: CasePlace,
    /// The result of the case.
    pub state: CaseState,
    /// The p value by which it is decided, corrected together with those of all claims; none where the run judges
    /// the comparison, or where chance has no part.
    pub p: Option<f64>,
    /// The number by which cases are ordered.
    pub value: f64,
    /// The published number.
    pub published: Option<PublishedNumber>,
    /// The measured number.
    pub measured: Option<MeasuredNumber>,
    /// The [`crate::Finding::number`] of the comparison that the run judges.
    pub finding: Option<usize>,
    /// True if one side of the comparison waits for a timer and the other does not.
    pub one_side_stalls: bool,
    /// A key that is equal in cases that differ in nothing but timers.
    pub twin: String,
    /// True if the two sides were shown not to differ by more than matters.
    pub is_same: bool,
}

impl Case {
    pub(crate) fn new(state: CaseState) -> Case {
        Case {
            place: CasePlace::default(),
            state,
            p: None,
            value: 0.0,
            published: None,
            measured: None,
            finding: None,
            one_side_stalls: false,
            twin: String::new(),
            is_same: false,
        }
    }

    pub(crate) fn open(reason: OpenReason) -> Case {
        Case::new(CaseState::Open(reason))
    }

    /// The p values by which it is decided.
    pub(crate) fn p_values(&self) -> impl Iterator<Item = f64> {
        let steps = match &self.measured {
            Some(MeasuredNumber::Steps(_, steps)) => steps.as_slice(),
            _ => &[],
        };
        steps.iter().filter_map(|step| step.p).chain(self.p)
    }

    pub(crate) fn by(self, p: f64) -> Case {
        Case { p: Some(p), ..self }
    }
}

/// The cells or table rows that a case compares.
#[derive(Clone, Debug, PartialEq)]
pub enum CasePlace {
    /// In cells of the run.
    Cells {
        /// The values of the axes in which cases differ.
        values: Vec<(Axis, Value)>,
        /// The fields of a message and the bytes of each, where a publication may count those.
        fields: Option<[u64; 2]>,
        /// The greater and the lesser number of flows, where these are compared.
        flows: Option<[u32; 2]>,
    },
    /// In rows of a published table with these values in its columns.
    Rows(Vec<(String, String)>),
    /// The mean of so many groups of rows.
    MeanOfRows(usize),
}

impl Default for CasePlace {
    fn default() -> CasePlace {
        CasePlace::Rows(Vec::new())
    }
}

/// The result of a single case of a test.
#[derive(Clone, Debug, PartialEq)]
pub enum CaseState {
    /// It is as expected.
    Met,
    /// It is as expected, and the difference is smaller than what matters.
    MetByLess,
    /// It is not as expected.
    NotMet,
    /// It is measured and not decided.
    Open(OpenReason),
    /// It has no number.
    Absent(AbsentReason),
}

impl CaseState {
    pub(crate) fn from_met(is_met: bool) -> CaseState {
        if is_met {
            CaseState::Met
        } else {
            CaseState::NotMet
        }
    }

    /// Returns true if it is as expected, by however much.
    pub fn is_met(&self) -> bool {
        matches!(self, CaseState::Met | CaseState::MetByLess)
    }

    /// Returns true if it is measured and not decided.
    pub fn is_open(&self) -> bool {
        matches!(self, CaseState::Open(_))
    }
}

/// Reason for which a measured case is not decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenReason {
    /// It takes more blocks: about so many, where that is known.
    Blocks(Option<u32>),
    /// This caveat withholds the verdict.
    Withheld(CaveatKind),
    /// The claim is finer than what matters, and the difference is smaller than that.
    LessThanMatters,
    /// The intervals of two cache levels, found by timing, overlap.
    TimingOverlaps,
    /// Nothing was measured along the axis.
    NothingAlong,
    /// Nothing was measured above the claimed value.
    NothingAbove,
    /// No comparison above the claimed value is decided.
    UndecidedAbove,
    /// The comparisons below the value at which one way is better are not decided.
    UndecidedBelow,
    /// Nothing was measured near the claimed value.
    NothingNear,
    /// The measured values lie too far from each other.
    TooCoarse,
}

/// Reason for which a case has no number.
#[derive(Clone, Debug, PartialEq)]
pub enum AbsentReason {
    /// The published table has no number to compare it with.
    NoCounterpart,
    /// The machine does not give the metric, with the reason.
    RefusedMetric(Metric, NoValue),
    /// The cells have no number in the metric, which takes so many blocks at least.
    Gap {
        /// The metric.
        metric: Metric,
        /// The reason for which there is no number.
        gap: Gap,
        /// The blocks that an interval takes at least.
        blocks: usize,
    },
}

/// A published number of a case.
#[derive(Clone, Debug, PartialEq)]
pub enum PublishedNumber {
    /// In the unit of the metric.
    Level(Metric, f64),
    /// In the unit of the column.
    Value(f64),
    /// The numbers of two cells or rows, of which the first is divided by the second.
    Ratio([f64; 2]),
    /// The mean of rows, and the least and the greatest of what they are compared with.
    Among(f64, [f64; 2]),
    /// The mean over groups of rows, with the least and the greatest of these.
    Mean(f64, [f64; 2]),
    /// The value from which a claim of a crossover is.
    From(Axis, Value),
}

/// A measured number of a case.
#[derive(Clone, Debug, PartialEq)]
pub enum MeasuredNumber {
    /// A ratio with the ends of its interval.
    Ratio(f64, [f64; 2]),
    /// A value in the unit of the metric, with the ends of its interval.
    Level(Metric, f64, Option<[f64; 2]>),
    /// Zero in all trials.
    Zero {
        /// The trials.
        trials: usize,
        /// The most that this leaves possible (95 %), of a rate.
        most: Option<(Metric, f64)>,
    },
    /// Copies of each byte, and how they were counted.
    Copies(f64, Option<CopyMeans>),
    /// The ratios of counted metrics.
    Counted(Vec<(Metric, f64)>),
    /// The ratios of what was displaced from two cache levels, found by timing (prime and probe).
    Timed([(u32, f64); 2]),
    /// True if a caveat affects the cell.
    Found(bool),
    /// The better way at each value of an axis.
    Steps(Axis, Vec<AxisStep>),
}

/// A comparison at a value of an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AxisStep {
    /// The value.
    pub at: f64,
    /// True if the claimed way is better there; none where that is not decided.
    pub is_better: Option<bool>,
    /// The p value of that, as of [`Case::p`].
    pub p: Option<f64>,
}

/// Reason for which a run has no case of a test.
#[derive(Clone, Debug, PartialEq)]
pub enum NotTested {
    /// A run of another study settles it.
    OtherStudy {
        /// The study.
        study: String,
        /// The reason why the run's own study cannot decide it.
        why: String,
        /// True if this version has that study.
        is_known: bool,
    },
    /// The machine refuses the cells, with the reason.
    Refused(String),
    /// The cells were not measured.
    NotMeasured {
        /// A study that measures them.
        study: Option<String>,
        /// True if the budget of the run left cells out.
        is_left_out: bool,
    },
    /// No two cells differ in the number of flows alone, for this reason.
    OneNumberOfFlows(Box<NotTested>),
    /// So many CPUs leave no two such numbers of flows to compare.
    FlowsForCpus(Between, usize),
    /// The comparison was made at no two values of the axis.
    OneValue(Axis),
    /// Copies were not counted.
    CopiesNotCounted,
    /// This version does not look for the caveat.
    UnknownCaveat,
    /// The test names no metric.
    NoMetric,
    /// The published tables do not have what is calculated with.
    Table(TableGap),
}

/// The missing part of a published table that a calculation needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableGap {
    /// There is no table of that name.
    NoTable(String),
    /// A table has no column of that name.
    NoColumn {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// The columns that it has.
        known: Vec<String>,
    },
    /// No row of that table fulfils the conditions.
    NoRow(String),
    /// A field is no number.
    NotANumber {
        /// The table.
        table: String,
        /// The line, from 1.
        line: u64,
        /// The reason for which it is no number.
        why: String,
    },
}

/// The outcome of a test over all of its cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestOutcome {
    /// It holds in all cases that it must hold in.
    Holds,
    /// It holds in most of the cases; in the others it does not, or that is not known.
    HoldsInPart,
    /// It holds by a difference that is smaller than what matters, in all cases.
    HoldsByLess,
    /// It holds, and only because one side of each comparison stalls.
    HoldsByStall,
    /// It does not hold.
    Fails,
    /// It is not decided.
    Open,
}

impl TestOutcome {
    /// Returns true if the test holds in some way.
    pub fn holds(self) -> bool {
        !matches!(self, TestOutcome::Fails | TestOutcome::Open)
    }
}

/// The number of cases in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CaseTally {
    /// All cases.
    pub all: usize,
    /// As expected.
    pub met: usize,
    /// The number of these whose difference is smaller than what matters.
    pub less: usize,
    /// Not as expected.
    pub not: usize,
    /// Not decided.
    pub open: usize,
    /// Without a number.
    pub absent: usize,
}

impl CaseTally {
    /// Counts cases.
    pub fn new(cases: &[&Case]) -> CaseTally {
        let count =
            |is: fn(&CaseState) -> bool| cases.iter().filter(|case| is(&case.state)).count();
        CaseTally {
            all: cases.len(),
            met: count(CaseState::is_met),
            less: count(|state| *state == CaseState::MetByLess),
            not: count(|state| *state == CaseState::NotMet),
            open: count(CaseState::is_open),
            absent: count(|state| matches!(state, CaseState::Absent(_))),
        }
    }

    /// The outcome of a test of these cases. A claim about every cell falls with one of them; a claim
    /// about most of them, with half.
    pub fn outcome(&self, cells: Quantity) -> TestOutcome {
        let all_met = if self.met == self.less {
            TestOutcome::HoldsByLess
        } else {
            TestOutcome::Holds
        };
        let most_met = 2 * self.met > self.all;
        match cells {
            Quantity::Some if self.met > 0 => all_met,
            Quantity::Every if self.not > 0 => TestOutcome::Fails,
            Quantity::Most if 2 * self.not >= self.all => TestOutcome::Fails,
            _ if self.met == self.all => all_met,
            Quantity::Every | Quantity::Most if most_met => TestOutcome::HoldsInPart,
            Quantity::Some if self.not == self.all => TestOutcome::Fails,
            _ => TestOutcome::Open,
        }
    }

    /// The share of the cases in which it is not as expected.
    pub fn share_not(&self) -> f64 {
        self.not as f64 / self.all.max(1) as f64
    }
}

/// The cases of a test by their part in its outcome.
#[derive(Clone, Debug, PartialEq)]
pub struct Weighed<'t> {
    /// The outcome.
    pub outcome: TestOutcome,
    /// The cases that decide it.
    pub deciding: Vec<&'t Case>,
    /// True if one side stalls in the cases that decide.
    pub by_stall: bool,
    /// The cases without a stall, where those with one decide.
    pub elsewhere: Vec<&'t Case>,
    /// The number of cases with a stall that are left aside.
    pub left_aside: usize,
}

impl AuditedTest {
    /// Its cases; nothing where the run has none.
    pub fn cases(&self) -> impl Iterator<Item = &Case> {
        self.result.iter().flat_map(|found| &found.cases)
    }

    /// Returns true if the run has no case of it.
    pub fn is_missing(&self) -> bool {
        self.result.is_err()
    }

    /// Returns true if it compares published tables with themselves.
    pub fn is_of_tables(&self) -> bool {
        matches!(self.test.kind, TestKind::Arithmetic(_))
    }

    /// The outcome.
    pub fn outcome(&self) -> TestOutcome {
        self.weighed().outcome
    }

    /// Weighs the cases. Those that stall on one side count for nothing where the same cells were
    /// measured without the stall; where they were not, the stall is what they show.
    pub fn weighed(&self) -> Weighed<'_> {
        let (stalled, free): (Vec<&Case>, Vec<&Case>) =
            self.cases().partition(|case| case.one_side_stalls);
        let outcome = |cases: &[&Case]| match cases {
            [] => TestOutcome::Open,
            some => CaseTally::new(some).outcome(self.test.cells),
        };
        let has_twin = |case: &&&Case| free.iter().any(|other| other.twin == case.twin);
        let without_twin = stalled.iter().filter(|case| !has_twin(case));
        let bare: Vec<&Case> = without_twin.copied().collect();
        let decides = !bare.is_empty() && (free.is_empty() || outcome(&free) == TestOutcome::Holds);
        if !decides {
            return Weighed {
                outcome: outcome(&free),
                deciding: free,
                by_stall: false,
                elsewhere: Vec::new(),
                left_aside: stalled.len(),
            };
        }
        Weighed {
            outcome: if outcome(&bare).holds() {
                TestOutcome::HoldsByStall
            } else {
                TestOutcome::Open
            },
            deciding: bare,
            by_stall: true,
            elsewhere: free,
            left_aside: 0,
        }
    }
}
