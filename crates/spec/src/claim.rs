//! Published claims, each with the tests that confirm or refute it.
//!
//! They are written in TOML: `published/claims.toml` holds the built-in ones, and
//! `published/README.md` describes the format.

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

/// The caveat that a stall test looks for unless it names another one.
pub const NAGLE_STALL: &str = "nagle-stall";

/// A published conclusion with the tests of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// Its name, unique within its file.
    pub id: String,
    /// The line of that name in the file, from 1.
    pub line: usize,
    /// The publication: the name of a study that reproduces it, or any other name.
    pub source: String,
    /// The studies whose runs can decide it; `source` alone where the file names none.
    pub studies: Vec<String>,
    /// The conclusion, in words.
    pub claim: String,
    /// The published figures, in words.
    pub published: Option<String>,
    /// The observation that would decide it, in words.
    pub settled_by: String,
    /// Tests of the effect: all of them must hold.
    pub tests: Vec<Test>,
    /// Tests of the published reasons for the effect.
    pub reasons: Vec<Reason>,
    /// Observations that are reported next to the ruling and do not decide it.
    pub beside: Vec<Beside>,
}

/// A reason that a claim gives, as a test of its consequence.
#[derive(Clone, Debug, PartialEq)]
pub struct Reason {
    /// The test of its consequence.
    pub test: Test,
    /// The reason that is reported if the test fails.
    pub otherwise: String,
}

/// An observation that is reported next to a ruling.
#[derive(Clone, Debug, PartialEq)]
pub struct Beside {
    /// The observation as a test.
    pub test: Test,
    /// The sentence that is reported if the test is confirmed.
    pub says: Option<String>,
}

/// Conditions on cells: each axis has one of these values.
pub type Place = Vec<(Axis, Vec<Value>)>;

/// The number of cells in which a test must be confirmed.
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
    /// The value that the claim is about.
    pub value: Value,
    /// The value that it is compared with.
    pub against: Value,
}

/// A consequence of a claim that results can confirm or refute.
#[derive(Clone, Debug, PartialEq)]
pub struct Test {
    /// The quantity that is tested.
    pub kind: TestKind,
    /// The cells that are tested. A condition on an axis that does not apply to a cell, such as the
    /// block of a mover that sends a whole file, does not exclude the cell.
    pub place: Place,
    /// The number of these cells in which it must hold.
    pub cells: Quantity,
    /// True if a run without such cells skips the test, provided that it measured another test of
    /// the claim.
    pub if_measured: bool,
}

/// The kinds of tests. `published/README.md` describes each.
#[derive(Clone, Debug, PartialEq)]
pub enum TestKind {
    /// A metric at one value of an axis over the same at another.
    Ratio {
        /// The compared values.
        contrast: Contrast,
        /// The metric of the ratio.
        metric: Metric,
        /// The expected ratio.
        expect: Expected,
    },
    /// The value of a third axis from which one way is better.
    Crossover(Crossover),
    /// A metric in its own unit, without a comparison.
    Level {
        /// The metric.
        metric: Metric,
        /// The expected value.
        expect: Expected,
    },
    /// The first of several metrics, all from hardware counters, decreases more than the others.
    Counter {
        /// The compared values.
        contrast: Contrast,
        /// Two metrics or more; the first is the one that the claim is about.
        metrics: Vec<Metric>,
    },
    /// A caveat that is present or absent.
    Stall {
        /// The name of the caveat.
        caveat: String,
        /// True if it is expected to be present.
        present: bool,
    },
    /// A metric of all flows together at two numbers of flows.
    Scaling {
        /// The metric.
        metric: Metric,
        /// The two numbers of flows.
        between: Between,
        /// The expected ratio of the metric at the greater number to that at the lesser.
        expect: Expected,
    },
    /// A calculation on published files alone.
    Arithmetic(Arithmetic),
    /// A test that only another study can decide.
    NotInThisRun {
        /// The name of that study.
        study: String,
        /// The reason why this one cannot decide it.
        why: String,
    },
}

/// A value of a third axis from which one way is better.
#[derive(Clone, Debug, PartialEq)]
pub struct Crossover {
    /// The compared values.
    pub contrast: Contrast,
    /// The metric in which they are compared.
    pub metric: Metric,
    /// The third axis.
    pub along: Axis,
    /// The expected value of the third axis.
    pub from: Value,
    /// The factor, 1 or more, by which the crossover may lie above or below that value.
    pub tolerance: f64,
}

/// The two numbers of flows that a scaling test compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Between {
    /// These two.
    Numbers(u32, u32),
    /// The least number and the greatest one with a CPU for each thread.
    WithinCpus,
    /// The greatest number with a CPU for each thread, and the greatest of all.
    BeyondCpus,
}

/// A calculation on published tables: a value for each group of rows, or its ratio to another value.
#[derive(Clone, Debug, PartialEq)]
pub struct Arithmetic {
    /// The value: the mean over the group's rows.
    pub term: Term,
    /// The divisor; where [`Expected::Among`] is expected, the values to compare with.
    pub against: Option<Term>,
    /// The columns by which rows are grouped; all rows are one group if there are none.
    pub by: Vec<String>,
    /// The expected value or ratio.
    pub expect: Expected,
    /// The tolerance around the expectation, as a share.
    pub tolerance: f64,
    /// True if the mean of all groups must be as expected, instead of each group.
    pub of_mean: bool,
}

/// A column of a published table, in some of its rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// Path of the table's file relative to the directory of the claims, without its extension.
    pub table: String,
    /// Name of the column.
    pub column: String,
    /// The values that columns must have in its rows.
    pub rows: Vec<(String, String)>,
}

impl Claim {
    /// Its tests: those of the effect, those of the reasons, and those that do not decide it.
    pub fn all_tests(&self) -> impl Iterator<Item = &Test> {
        (self.tests.iter())
            .chain(self.reasons.iter().map(|reason| &reason.test))
            .chain(self.beside.iter().map(|observation| &observation.test))
    }

    /// Returns true if a run of that study can decide the claim.
    pub fn is_of_study(&self, study: &str) -> bool {
        self.studies.iter().any(|s| s == study)
    }
}

impl TestKind {
    /// The two values that are compared, in tests that compare two.
    pub fn contrast(&self) -> Option<&Contrast> {
        match self {
            TestKind::Ratio { contrast, .. }
            | TestKind::Crossover(Crossover { contrast, .. })
            | TestKind::Counter { contrast, .. } => Some(contrast),
            _ => None,
        }
    }
}

impl Test {
    /// The values of axes that the test names: the compared ones, then those of its cells.
    pub fn values(&self) -> impl Iterator<Item = (Axis, &Value)> {
        let compared = (self.kind.contrast().into_iter())
            .flat_map(|c| [(c.axis, &c.value), (c.axis, &c.against)]);
        let of_cells =
            (self.place.iter()).flat_map(|(axis, values)| values.iter().map(|v| (*axis, v)));
        compared.chain(of_cells)
    }
}

/// Returns true if a cell fulfils the conditions; `nodelay` is taken as it is in effect.
pub fn is_at(cell: &Cell, place: &Place) -> bool {
    let mut axes = place.iter();
    axes.all(|(axis, values)| values.iter().any(|v| has(cell, *axis, v)))
}

/// Returns true if a cell has a value on an axis; `nodelay` is taken as it is in effect.
pub fn has(cell: &Cell, axis: Axis, value: &Value) -> bool {
    let in_effect = Value::Flag(cell.sends_at_once());
    cell.value(axis) == *value || (axis == Axis::Nodelay && in_effect == *value)
}

#[cfg(test)]
mod tests;
