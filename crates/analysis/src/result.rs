//! The result of an analysis: the format of `findings.json`, field by field.

use std::collections::BTreeMap;

#[cfg(feature = "schema")]
use bytecost_spec::RefusedCells;
use bytecost_spec::evidence::{EvidenceAsked, Means, TrialEvidence};
use bytecost_spec::sample::Block;
use bytecost_spec::study::{Compare, Family};
use bytecost_spec::{
    Axis, Cell, Failure, Host, Manifest, Metric, PeerSide, Refusal, RefusedCell, Sample, Transport,
    Value, by_reason,
};
pub use bytecost_spec::{LeftOut, Published, PublishedCell};
pub use ceiling::{Ceiling, CeilingKind, CeilingLine, CeilingRate, CeilingShare};
use serde::{Deserialize, Serialize};

use crate::grouping::by_key;

mod answer;
mod audited;
mod caveat;
mod caveat_kind;
mod ceiling;
mod cell_table;
mod estimate;
mod evidence;
mod explanation;
mod figure;
mod no_value;
mod run_facts;
mod two_groups;

pub use answer::*;
pub use audited::*;
pub use caveat::*;
pub use caveat_kind::CaveatKind;
pub use estimate::*;
pub use evidence::*;
pub use explanation::*;
pub use figure::*;
pub use no_value::NoValue;
pub use run_facts::*;
pub use two_groups::{PartedBy, PartingReading, TrialGroup, TwoGroups};

use run_facts::without_checks;

/// The format of `findings.json`. It stays 1 until 0.1.0 is released, whatever changes.
pub const FORMAT: u32 = 1;

/// The input of [`crate::analyse`]: the records of a run, and the publications to compare it with.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The run's manifest.
    pub manifest: &'a Manifest,
    /// The cells of the plan; a sample's `trial.cell` counts into them.
    pub cells: &'a [Cell],
    /// Cells of the study that are not available on this host.
    pub refused: &'a [RefusedCell],
    /// Cells that the budget did not reach.
    pub left_out: &'a [LeftOut],
    /// Every sample of the log, in its order, repeated trials included.
    pub samples: &'a [Sample],
    /// Every failed trial.
    pub failures: &'a [Failure],
    /// The end of each attempt at a block.
    pub blocks: &'a [Block],
    /// The results of the trials for evidence.
    pub evidence: &'a [TrialEvidence],
    /// Changes that the plan made to what the study and the options ask for, in sentences.
    pub notes: &'a [String],
    /// Reason for the early end of the run; none where it ended as planned.
    pub ended_early: Option<&'a str>,
    /// Description of the records that the log has lost since the end of the run; none where it is
    /// complete.
    pub damage: Option<&'a str>,
    /// Published measurements that reports show next to those of the run.
    pub published: Option<&'a Published>,
    /// The highest rates of this machine, where another run measured them.
    pub ceiling: Option<&'a Ceiling>,
    /// Published claims that are compared with the run.
    pub claims: Option<&'a Grounds>,
}

impl<'a> Input<'a> {
    /// The input of a run that has samples and no other records.
    pub fn of(manifest: &'a Manifest, cells: &'a [Cell], samples: &'a [Sample]) -> Input<'a> {
        Input {
            manifest,
            cells,
            refused: &[],
            left_out: &[],
            samples,
            failures: &[],
            blocks: &[],
            evidence: &[],
            notes: &[],
            ended_early: None,
            damage: None,
            published: None,
            ceiling: None,
            claims: None,
        }
    }

    /// The side of a cell that plays on another host, if one does.
    pub(crate) fn peer_side(&self, cell: &Cell) -> Option<PeerSide> {
        let peer = self.manifest.peer.as_ref()?;
        (cell.transport == Transport::Peer).then_some(peer.side)
    }

    /// The outcome of a means of evidence; none where the run did not use it.
    pub(crate) fn asked_evidence(&self, means: Means) -> Option<&'a EvidenceAsked> {
        let mut asked = self.manifest.evidence.iter();
        asked.find(|asked| asked.means == means)
    }

    /// The trials for evidence that fulfil a condition, by cell, in the order of the plan.
    pub(crate) fn evidence_by_cell(
        &self,
        is_wanted: impl Fn(&TrialEvidence) -> bool,
    ) -> Vec<(&'a Cell, Vec<&'a TrialEvidence>)> {
        let found = self.evidence.iter().filter(|e| is_wanted(e));
        let by_cell = by_key(found.filter_map(|e| {
            let place = usize::try_from(e.trial.cell).ok()?;
            (self.cells.get(place)?.id() == e.cell).then_some((place, e))
        }))
        .into_iter();
        by_cell
            .map(|(place, of_cell)| (&self.cells[place], of_cell))
            .collect()
    }
}

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
    pub refused_counters: Vec<Refusal>,
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

/// Windows of a cell in which its flow stood still for a timer of TCP. They have no bytes and next to
/// no CPU time, so that the mean rate over the time of all windows is lower by their share of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StoodStill {
    /// The number of these windows.
    pub windows: usize,
    /// Their total length, in ms.
    pub ms: f64,
    /// Their share of the time of all windows of the cell and its twin.
    pub share: f64,
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

/// The number and the error rate of the comparisons of a family.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FamilyFacts {
    /// The family: primary, secondary or exploratory.
    pub family: Family,
    /// Its comparisons in this run.
    pub comparisons: usize,
    /// The error rate. For the primary family: the chance of one false better or worse, or more. For
    /// the secondary one: the mean over tables of the share of false ones among these verdicts, and the
    /// chance of one or more where nothing differs. None for the exploratory family, which has no
    /// verdicts.
    pub rate: Option<f64>,
}

/// A comparison of two cells that differ in one axis, with its ratio, interval and verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// Its index among the findings, from 0, by which other parts of the result refer to it.
    pub number: usize,
    /// The metric that is compared.
    pub metric: Metric,
    /// The axis in which the two cells differ.
    pub axis: Axis,
    /// [`Cell::id`] of the baseline.
    pub baseline: String,
    /// The baseline's value on the axis.
    pub baseline_value: Value,
    /// [`Cell::id`] of the other.
    pub cell: String,
    /// The other's value on the axis.
    pub value: Value,
    /// True if the metric is the first of its comparison.
    pub first: bool,
    /// The family of comparisons within which its p value is corrected.
    pub family: Family,
    /// The other's metric over the baseline's: geometric trimmed mean over blocks; of p99 and p99.9
    /// latency the ratio of the quantiles of all trials together, of the maximum the geometric mean.
    pub ratio: f64,
    /// Lower end of the 95 % interval of the ratio, which covers the variance within the run and from
    /// round to round.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Lower end of the interval from the variance within this run alone.
    #[serde(default)]
    pub within_low: f64,
    /// Upper end.
    #[serde(default)]
    pub within_high: f64,
    /// Standard deviation between rounds of the logarithm of the ratio (τ), over the root of the
    /// run's own rounds.
    #[serde(default)]
    pub between_deviation: f64,
    /// Degrees of freedom of that standard deviation.
    #[serde(default)]
    pub between_degrees: f64,
    /// Blocks in which both were measured.
    pub blocks: usize,
    /// Two-sided p value.
    pub p: f64,
    /// The p value corrected within its family: Holm's over all primary comparisons, Benjamini and
    /// Bogomolov's over the tables of secondary ones. None where it is not judged, and where a caveat
    /// withholds it and so takes it out of its family.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p_corrected: Option<f64>,
    /// The level that the correction asks of it: of a primary one that of the first of them, of a
    /// secondary one that of the next of its table to be decided. None of what is not judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<f64>,
    /// The verdict.
    pub verdict: Verdict,
    /// The caveat that withholds its verdict; none where none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withheld: Option<CaveatKind>,
    /// The caveat that withholds its amount, so that only the direction of its verdict stands; none where
    /// the amount stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amount_withheld: Option<CaveatKind>,
    /// The smallest difference that this many blocks detect 80 % of the time at `level`, or at 5 %
    /// where there is none, as a share.
    pub detectable: f64,
    /// Blocks that it would take to decide, at `level` and 80 % of the time if the ratio stays,
    /// where it is not decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks_needed: Option<u32>,
    /// True if more blocks would decide it but for the variance from round to round.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rounds_prevent: bool,
}

impl Finding {
    /// The metric, the cell and the baseline's value, which identify the finding in every run of its study.
    pub fn key(&self) -> (Metric, &str, &Value) {
        (self.metric, &self.cell, &self.baseline_value)
    }

    /// Returns true if it compares these two cells in this metric, either of them as the baseline.
    pub fn compares(&self, metric: Metric, one: &str, other: &str) -> bool {
        let own = [self.baseline.as_str(), self.cell.as_str()];
        self.metric == metric && (own == [one, other] || own == [other, one])
    }

    /// Returns true if it is of that comparison of the study.
    pub(crate) fn is_of(&self, compare: &Compare) -> bool {
        let is_of_axis = self.axis == compare.axis && self.baseline_value == compare.baseline;
        is_of_axis && compare.compares(&self.value) && compare.metrics.contains(&self.metric)
    }

    /// Half the width of its interval within the run, as a share of its ratio. More blocks make it smaller.
    pub(crate) fn half_width(&self) -> f64 {
        (self.within_high / self.within_low).sqrt() - 1.0
    }

    /// Returns true if it has a verdict that no caveat withholds.
    pub fn is_decided(&self) -> bool {
        let has_verdict = !matches!(self.verdict, Verdict::NotDecided | Verdict::NotJudged);
        has_verdict && self.withheld.is_none()
    }

    /// Returns true if it is exploratory: its interval is not corrected, and it has no verdict.
    pub fn is_exploratory(&self) -> bool {
        self.verdict == Verdict::NotJudged && self.withheld.is_none()
    }

    /// Returns true if more blocks could decide it: it is neither exploratory nor withheld.
    pub fn is_undecided(&self) -> bool {
        self.verdict == Verdict::NotDecided && self.withheld.is_none()
    }

    /// Returns true if the verdict is better or worse.
    pub fn is_apart(&self) -> bool {
        matches!(self.verdict, Verdict::Better | Verdict::Worse)
    }
}

/// A comparison of two ways along an axis, with the values at which the better one changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Crossover {
    /// The metric that is compared.
    pub metric: Metric,
    /// The axis in which the two differ.
    pub axis: Axis,
    /// The baseline's value on it.
    pub baseline: Value,
    /// The other's value on it.
    pub value: Value,
    /// The axis along which they cross: numbers, taken by their logarithm.
    pub along: Axis,
    /// The least and the greatest value along it that both were measured at.
    pub range: (Value, Value),
    /// The values that both have on the other axes that vary in the study.
    pub place: Vec<(Axis, Value)>,
    /// The outcome along the axis.
    pub outcome: Crossing,
    /// [`Finding::number`]s behind it.
    pub findings: Vec<usize>,
    /// The values along it at which the two are not decided, or have no verdict.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open: Vec<Value>,
}

/// The outcome of a comparison along an axis, by the values at which a finding decides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Crossing {
    /// The other is better than the baseline at every value.
    AlwaysBetter,
    /// The other is better at no value.
    NeverBetter,
    /// It is better at some values. The points are where that begins and ends, in the order of the axis.
    At(Vec<CrossingPoint>),
    /// It is better at no decided value, and not every value is decided.
    Undecided,
}

/// Two consecutive decided values along the axis between which the other begins or ceases to be better.
/// One is absent where that is before the first decided value or after the last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CrossingPoint {
    /// True if the other is better above this place, false if it is better below.
    pub better_above: bool,
    /// True if there is no difference that matters on the other side of the place, false if the other
    /// is worse there.
    #[serde(default)]
    pub fades: bool,
    /// The last decided value below the place; absent where none is decided below.
    pub low: Option<Value>,
    /// The first decided value above the place; absent where none is decided above.
    pub high: Option<Value>,
}
