//! The result of an analysis: the format of `findings.json`, field by field.

use std::collections::BTreeMap;

#[cfg(feature = "schema")]
use bytecost_spec::RefusedCells;
use bytecost_spec::{Cell, Counter, Failure, Host, Metric, Refusal, RefusedCell, by_reason};
pub use bytecost_spec::{LeftOut, Published, PublishedCell};
use serde::{Deserialize, Serialize};

mod answer;
mod audited;
mod caveat;
mod cell_table;
mod evidence;
mod explanation;
mod figure;
mod finding;
mod run_facts;
mod values;

pub use answer::*;
pub use audited::*;
pub use caveat::*;
pub use evidence::*;
pub use explanation::*;
pub use figure::*;
pub use finding::*;
pub use run_facts::*;
pub use values::*;

use run_facts::without_checks;

/// The format of `findings.json`. It stays 1 until 0.1.0 is released, whatever changes.
pub const FORMAT: u32 = 1;

/// The whole result of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Analysis {
    /// [`FORMAT`] of the writer.
    pub format: u32,
    /// The run.
    pub run: RunFacts,
    /// The question.
    pub study: StudyFacts,
    /// The machine, without its checks, which manifest.json has.
    #[serde(serialize_with = "without_checks")]
    pub host: Host,
    /// The other host; none where both sides played on this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<PeerFacts>,
    /// The advice of the run, as facts.
    #[serde(default)]
    pub advice: Advice,
    /// The time of the measuring loop itself per message, in ns: that of the `null` mover.
    pub loop_floor_ns_per_message: Option<Estimate>,
    /// The cost of reading hardware counters, for each mover whose trials read them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counters_cost: Vec<CountersCost>,
    /// Baselines compared with their twins, which are no cells here and in no finding.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub twins: Vec<Twin>,
    /// The noise floor by these twins; none where there are no twins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise_floor: Option<NoiseFloor>,
    /// Every cell of the plan with its estimates.
    #[serde(flatten, with = "cell_table")]
    #[cfg_attr(feature = "schema", schemars(with = "cell_table::CellTable"))]
    pub cells: Vec<CellResult>,
    /// The error rates of the comparisons, by family.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub families: Vec<FamilyFacts>,
    /// Every comparison.
    pub findings: Vec<Finding>,
    /// Ratios of one value of an axis to another, averaged over all values of a second axis.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub main_effects: Vec<MainEffect>,
    /// The values along an axis, such as sizes, at which one way becomes better than another.
    #[serde(default)]
    pub crossovers: Vec<Crossover>,
    /// CPU time by kind of work, of the cells with CPU samples.
    #[serde(default)]
    pub cpu_time: Vec<CellTime>,
    /// Copies of each byte by place, of the cells in which they were counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub copies: Vec<CellCopies>,
    /// Events for each message, such as system calls, of the cells in which they were counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counts: Vec<CellCounts>,
    /// Causes of the differences that decided findings show.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<FindingCauses>,
    /// CPU time in the windows of each cell, by user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub books: Vec<CellBooks>,
    /// Counters of servers and of their clients for each request, as a published table has them; of the
    /// cells with perf events, where there are any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<RoleCounters>,
    /// The cost of counting copies and events; none where they were not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counting_cost: Option<CountingCost>,
    /// Data that moving displaced from the sending CPU's caches, of the cells in which that was timed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub footprints: Vec<CellFootprint>,
    /// The questions of the report, each with its answer from these results, or with what is missing
    /// for one.
    #[serde(default)]
    pub explanations: Vec<Explanation>,
    /// Published claims compared with these results. findings.json has the words of these.
    #[serde(skip)]
    pub audit: Vec<Audited>,
    /// Circumstances that can bend a ranking, with what they did to verdicts.
    #[serde(skip)]
    pub disturbances: Vec<Disturbance>,
    /// The highest rates of this machine, where another run measured them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<Ceiling>,
    /// Published measurements that reports show next to these results.
    #[serde(default)]
    pub published: Option<Published>,
    /// The caveats of these results. findings.json has the words of these.
    #[serde(skip)]
    pub caveats: Vec<Caveat>,
    /// Cells of the study that are not available on this machine, by reason.
    #[serde(with = "by_reason")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<RefusedCells>"))]
    pub refused_cells: Vec<RefusedCell>,
    /// Counters that are not available on this machine.
    pub refused_counters: Vec<Refusal<Counter>>,
    /// Cells that the run does not measure although the machine could, with the reason.
    pub left_out: Vec<LeftOut>,
    /// Trials that failed.
    pub failures: Vec<Failure>,
    /// The figures, ready to be drawn. Their numbers are those of cells and findings.
    #[serde(skip)]
    pub figures: Vec<FigureData>,
    /// Metrics of pairs of CPUs, for each way that was measured over such pairs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub matrices: Vec<MatrixData>,
    /// The overview: the speed-up of one way over the other, for each of the study's pairs of ways.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub speed_ups: Vec<SpeedUp>,
}

impl Analysis {
    /// The result of the cell with that id.
    pub fn result(&self, id: &str) -> Option<&CellResult> {
        self.cells.iter().find(|c| c.id == id)
    }

    /// The cell with that id, which may be its twin's; none where the plan has none.
    pub fn cell(&self, id: &str) -> Option<&Cell> {
        Some(&self.result(Cell::without_twin(id))?.cell)
    }
}

/// The result of a cell: its trials, its estimates and the metrics that are not available in it.
#[derive(Clone, Debug, PartialEq)]
pub struct CellResult {
    /// [`Cell::id`].
    pub id: String,
    /// The cell.
    pub cell: Cell,
    /// Trials that count.
    pub trials: usize,
    /// Trials that failed.
    pub failed: usize,
    /// Estimates by metric; a metric that does not apply to the cell has no entry.
    pub estimates: BTreeMap<Metric, Estimate>,
    /// Metrics that apply and are not available, with the reason, except those of two groups.
    pub absent: BTreeMap<Metric, NoValue>,
    /// Metrics by which its trials fall into two groups; those whose groups lie far apart have no
    /// estimate.
    pub two_groups: Vec<TwoGroups>,
    /// The check of the payload: `content`, `count` or none.
    pub checked: Option<String>,
    /// Its throughput as a share of the machine's highest rate, where another run measured that.
    pub ceiling: Option<CeilingShare>,
    /// Windows in which its flow stood still, where there were any.
    pub stood_still: Option<StoodStill>,
}

impl CellResult {
    /// The reason for which a metric that applies to the cell is not available.
    pub fn gap(&self, metric: Metric) -> Option<Gap> {
        let mut groups = self.two_groups.iter();
        let apart = groups.find(|g| g.metric == metric && g.are_far_apart());
        let absent = || Some(Gap::Absent(self.absent.get(&metric)?.clone()));
        apart.cloned().map(Gap::TwoGroups).or_else(absent)
    }

    /// The value of a metric's estimate; none where the cell has no estimate of it.
    pub(crate) fn value(&self, metric: Metric) -> Option<f64> {
        Some(self.estimates.get(&metric)?.value)
    }
}
