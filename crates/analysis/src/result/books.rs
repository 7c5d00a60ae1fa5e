//! Who used the CPUs in the windows of a cell, as findings.json tells it.

use bytecost_spec::evidence::{CpuAccounts, CpuUser};
use serde::{Deserialize, Serialize};

/// A line of a cell's books.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BookLine {
    /// Whose CPU time it is. What a side measures of itself does not tell workers and children apart.
    pub user: CpuUser,
    /// Its share of the time of all CPUs in the windows, in the mean over trials.
    pub share: f64,
    /// Standard error of that.
    pub error: f64,
}

/// Whether the books of a cell are closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Closed {
    /// What is left over is within 3 % of the cell's own CPU time, and its error too.
    Yes,
    /// The value or its error is above 3 %, and the interval does not show that more is left over.
    NotToThreePercent,
    /// More is left over (or counted twice): the whole interval lies beyond 3 %.
    No,
}

/// The books of a cell: its lines add up to the time of all CPUs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CellBooks {
    /// [`bytecost_spec::Cell::id`].
    pub cell: String,
    /// Trials that they are of.
    pub trials: usize,
    /// The lines.
    pub lines: Vec<BookLine>,
    /// What is left over, as a share of the cell's own CPU time (both sides with all that works
    /// for them): the sum over blocks. Negative where time was counted twice.
    pub left_over: f64,
    /// Its 95 % interval.
    pub low: f64,
    /// The interval's other end.
    pub high: f64,
    /// CPU time of the whole machine less that of others, of the background load and of bytecost,
    /// over the cell's own: the sum over blocks. 1 where a cell's cost is all that the machine did for it.
    pub machine_over_own: f64,
    /// Whether the books are closed.
    pub closed: Closed,
    /// Who used the CPUs in one trial for evidence, as exactly as the kernel's tracepoints tell;
    /// none where nobody counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<CpuAccounts>,
}
