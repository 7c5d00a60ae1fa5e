//! Claims: what others concluded, each with the tests that settle it. They are TOML:
//! `published/claims.toml` holds those built in, `published/README.md` tells how to write one's
//! own.

use crate::axis::{Axis, Value};
use crate::cell::Cell;
use crate::metric::Metric;

mod expected;
mod raw;

pub use expected::Expected;
pub use raw::parse;

/// The largest claims file, in bytes.
pub const MAX_CLAIMS_BYTES: usize = 1 << 20;
/// The most claims of a file.
pub const MAX_CLAIMS: usize = 1000;
/// The most tests of a claim, and reasons.
pub const MAX_TESTS: usize = 64;
/// The longest text of a claim, in bytes.
pub const MAX_TEXT_BYTES: usize = 4096;

/// The kind of caveat that a stall test looks for, unless it names another.
pub const NAGLE_STALL: &str = "nagle-stall";

/// What someone concluded.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// Its name within its file.
    pub id: String,
    /// The line of that name in the file, from 1.
    pub line: usize,
    /// Where it was made: the name of a study that sets it up again, or any other name.
    pub source: String,
    /// The studies whose runs settle it; the source alone where it names none.
    pub studies: Vec<String>,
    /// What was concluded.
    pub claim: String,
    /// The figures that were given for it, in words.
    pub published: Option<String>,
    /// What would settle it, in words.
    pub settled_by: String,
    /// Whether the effect is there: all of them must hold.
    pub tests: Vec<Test>,
    /// Whether it is there for the reason that was given.
    pub reasons: Vec<Reason>,
    /// What is told beside it and decides nothing.
    pub beside: Vec<Beside>,
}

/// A reason that a claim gives, as a test of what would follow from it.
#[derive(Clone, Debug, PartialEq)]
pub struct Reason {
    /// What would follow from it.
    pub test: Test,
    /// What the reason is where that does not follow.
    pub otherwise: String,
}

/// What is told beside a ruling.
#[derive(Clone, Debug, PartialEq)]
pub struct Beside {
    /// What is looked up.
    pub test: Test,
    /// What it means where it is confirmed.
    pub says: Option<String>,
}

/// Conditions on cells: each axis has one of these values.
pub type Place = Vec<(Axis, Vec<Value>)>;

/// How many of the cells a test must be confirmed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// In all of them.
    Every,
    /// In more than half of them.
    Most,
    /// In at least one.
    Some,
}

/// Two values of an axis, in cells that differ in nothing else.
#[derive(Clone, Debug, PartialEq)]
pub struct Contrast {
    /// The axis.
    pub axis: Axis,
    /// The value that the claim speaks of.
    pub value: Value,
    /// The value that it is compared with.
    pub against: Value,
}

/// Something that follows from a claim and that can be looked up in results.
#[derive(Clone, Debug, PartialEq)]
pub struct Test {
    /// What is looked up.
    pub kind: TestKind,
    /// In which cells. A condition on an axis that means nothing to a cell, such as the block of a
    /// mover that takes a file whole, does not keep it out.
    pub place: Place,
    /// In how many of them.
    pub cells: Quantity,
    /// Whether a run without such cells leaves the test aside, as long as another test of the
    /// claim was measured.
    pub if_measured: bool,
}

/// The kinds of tests. `published/README.md` describes each.
#[derive(Clone, Debug, PartialEq)]
pub enum TestKind {
    /// A metric at one value of an axis over the same at another.
    Ratio {
        /// Which.
        contrast: Contrast,
        /// Of what.
        metric: Metric,
        /// The ratio.
        expect: Expected,
    },
    /// From which value along a third axis one way is better.
    Crossover {
        /// Which.
        contrast: Contrast,
        /// Of what.
        metric: Metric,
        /// Along which axis.
        along: Axis,
        /// From which value on it is better.
        from: Value,
        /// How far beside it the place may lie, as a factor from 1 up.
        tolerance: f64,
    },
    /// A metric by itself, in its own unit.
    Level {
        /// Of what.
        metric: Metric,
        /// The value.
        expect: Expected,
    },
    /// The first of several metrics, all from hardware counters, falls more than the others.
    Counter {
        /// Which.
        contrast: Contrast,
        /// Two at least; the first is the one that the claim speaks of.
        metrics: Vec<Metric>,
    },
    /// A kind of caveat is there or not.
    Stall {
        /// The kind: [`NAGLE_STALL`] unless it says otherwise.
        caveat: String,
        /// Whether it is expected.
        present: bool,
    },
    /// A metric of all flows together over their number.
    Scaling {
        /// Of what.
        metric: Metric,
        /// Between which numbers of flows.
        between: Between,
        /// The ratio of the greater number to the lesser.
        expect: Expected,
    },
    /// Published files compared with themselves.
    Arithmetic(Arithmetic),
    /// What another study settles.
    NotInThisRun {
        /// Its name.
        study: String,
        /// What it would take.
        why: String,
    },
}

/// Numbers of flows to be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Between {
    /// These two.
    Numbers(u32, u32),
    /// The least and the greatest whose threads have a CPU each.
    WithinCpus,
    /// The greatest whose threads have a CPU each and the greatest of all.
    BeyondCpus,
}

/// A calculation on published tables: for each group of rows, a value, or its ratio to another.
#[derive(Clone, Debug, PartialEq)]
pub struct Arithmetic {
    /// What is taken; the mean of the group's rows.
    pub term: Term,
    /// What it is divided by, or compared with where [`Expected::Among`] is expected.
    pub against: Option<Term>,
    /// The columns that make groups; without any, all rows are one group.
    pub by: Vec<String>,
    /// The value or ratio.
    pub expect: Expected,
    /// How far outside it may lie, as a share.
    pub tolerance: f64,
    /// Whether it is the mean of all groups that must be as expected, rather than each of them.
    pub of_mean: bool,
}

/// A column of a published table, in some of its rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// Name of the table: the path of its file from the directory of the claims, without the ending.
    pub table: String,
    /// The column.
    pub column: String,
    /// Which rows: columns with the values that they must have.
    pub rows: Vec<(String, String)>,
}

impl Claim {
    /// All of its tests: of the effect, of the reasons, and those that decide nothing.
    pub fn all_tests(&self) -> impl Iterator<Item = &Test> {
        let reasons = self.reasons.iter().map(|r| &r.test);
        let beside = self.beside.iter().map(|b| &b.test);
        self.tests.iter().chain(reasons).chain(beside)
    }

    /// Whether a run of that study is one that settles it.
    pub fn is_of_study(&self, study: &str) -> bool {
        self.studies.iter().any(|s| s == study)
    }
}

impl Test {
    /// The values of axes that it names, those that it compares first.
    pub fn values(&self) -> impl Iterator<Item = (Axis, &Value)> {
        let contrast = match &self.kind {
            TestKind::Ratio { contrast, .. }
            | TestKind::Crossover { contrast, .. }
            | TestKind::Counter { contrast, .. } => Some(contrast),
            _ => None,
        };
        let compared = contrast
            .into_iter()
            .flat_map(|c| [(c.axis, &c.value), (c.axis, &c.against)]);
        let place = self.place.iter();
        compared.chain(place.flat_map(|(axis, values)| values.iter().map(|v| (*axis, v))))
    }
}

/// Whether a cell fulfils the conditions, TCP_NODELAY as it is in effect.
pub fn is_at(cell: &Cell, place: &Place) -> bool {
    let mut axes = place.iter();
    axes.all(|(axis, values)| values.iter().any(|v| has(cell, *axis, v)))
}

/// Whether a cell has that value on an axis, TCP_NODELAY as it is in effect.
pub fn has(cell: &Cell, axis: Axis, value: &Value) -> bool {
    let in_effect = Value::Flag(cell.sends_at_once());
    cell.value(axis) == *value || (axis == Axis::Nodelay && in_effect == *value)
}

#[cfg(test)]
mod tests;
