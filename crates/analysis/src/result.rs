//! What an analysis says: the shape of `findings.json`, field by field.

use std::collections::BTreeMap;

#[cfg(feature = "schema")]
use bytecost_spec::RefusedCells;
use bytecost_spec::evidence::TrialEvidence;
use bytecost_spec::sample::Block;
use bytecost_spec::study::{Compare, Family};
use bytecost_spec::{
    Axis, Cell, Failure, Host, Manifest, Metric, NetworkCard, PeerSide, Refusal, RefusedCell,
    Sample, Transport, Unit, Value, by_reason,
};
pub use bytecost_spec::{LeftOut, Published, PublishedCell};
pub use ceiling::{Ceiling, CeilingKind, CeilingLine, CeilingRate, CeilingShare};
use serde::{Deserialize, Serialize, Serializer};

use crate::grouping::by_key;

mod answer;
mod audited;
mod caveat;
mod ceiling;
mod cell_table;
mod estimate;
mod evidence;
mod explanation;
mod figure;
mod two_groups;

pub use answer::*;
pub use audited::*;
pub use caveat::*;
pub use estimate::*;
pub use evidence::*;
pub use explanation::*;
pub use figure::*;
pub use two_groups::{PartedBy, TrialGroup, TwoGroups};

/// The format of `findings.json`. It stays 1 until 0.1.0 is released, whatever changes.
pub const FORMAT: u32 = 1;

/// All that is known of a run: what [`crate::analyse`] works on.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The run's manifest.
    pub manifest: &'a Manifest,
    /// The cells of the plan; a sample's `trial.cell` counts into them.
    pub cells: &'a [Cell],
    /// Cells that cannot be had on this host.
    pub refused: &'a [RefusedCell],
    /// Cells that the budget did not reach.
    pub left_out: &'a [LeftOut],
    /// Every sample of the log, in its order, repeated trials included.
    pub samples: &'a [Sample],
    /// Every failed trial.
    pub failures: &'a [Failure],
    /// The end of each attempt at a block.
    pub blocks: &'a [Block],
    /// What was seen in trials for evidence.
    pub evidence: &'a [TrialEvidence],
    /// What the plan changed of what was asked, in sentences.
    pub notes: &'a [String],
    /// Why the run ended before its time, where it did.
    pub ended_early: Option<&'a str>,
    /// What the log lacks of the records that the run had when it ended.
    pub damage: Option<&'a str>,
    /// What others published, to be shown beside it.
    pub published: Option<&'a Published>,
    /// What this machine reaches at most, where another run measured that.
    pub ceiling: Option<&'a Ceiling>,
    /// Published claims to be compared with it.
    pub claims: Option<&'a Grounds>,
}

impl<'a> Input<'a> {
    /// A run of which samples alone are known.
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

    /// The trials for evidence that tell something of a cell of the plan, in the order of the plan.
    pub(crate) fn evidence_by_cell(
        &self,
        tells: impl Fn(&TrialEvidence) -> bool,
    ) -> Vec<(&'a Cell, Vec<&'a TrialEvidence>)> {
        let found = self.evidence.iter().filter(|e| tells(e));
        let by_cell = by_key(found.filter_map(|e| {
            let place = usize::try_from(e.trial.cell).ok()?;
            (self.cells.get(place)?.id() == e.cell).then_some((place, e))
        }));
        let by_cell = by_cell.into_iter();
        by_cell
            .map(|(place, found)| (&self.cells[place], found))
            .collect()
    }
}

fn without_checks<S: Serializer>(host: &Host, to: S) -> Result<S::Ok, S::Error> {
    let host = Host {
        checks: Vec::new(),
        ..host.clone()
    };
    host.serialize(to)
}

/// The other host of a run on two, and the way to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PeerFacts {
    /// What it is called.
    pub name: String,
    /// The way to it in words: `eth0, 10 Gbit/s, MTU 1500, round trip 0.2 ms`.
    pub way: String,
    /// Which side played there.
    pub side: PeerSide,
    /// What machine it is, without its checks.
    #[serde(serialize_with = "without_checks")]
    pub host: Host,
    /// Its network cards on the way.
    pub cards: Vec<NetworkCard>,
    /// This machine's.
    pub own_cards: Vec<NetworkCard>,
}

impl PeerFacts {
    /// That of a run; none where there is none.
    pub(crate) fn of(manifest: &Manifest) -> Option<PeerFacts> {
        let peer = manifest.peer.as_ref()?;
        let own_cards = manifest.own_cards.clone();
        Some(PeerFacts {
            name: peer.name.clone(),
            way: peer.way(&own_cards),
            side: peer.side,
            host: peer.host.clone(),
            cards: peer.cards.clone(),
            own_cards,
        })
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
    /// What the run advises, as facts.
    #[serde(default)]
    pub advice: Advice,
    /// What the loop itself costs: the `null` mover's time per message.
    pub loop_floor_ns_per_message: Option<Estimate>,
    /// What reading hardware counters costs, where trials read any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counters_cost: Vec<CountersCost>,
    /// Baselines compared with their twins, which are no cells here and in no finding.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub twins: Vec<Twin>,
    /// What they come to, where there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise_floor: Option<NoiseFloor>,
    /// Every cell of the plan with its estimates.
    #[serde(flatten, with = "cell_table")]
    #[cfg_attr(feature = "schema", schemars(with = "cell_table::CellTable"))]
    pub cells: Vec<CellResult>,
    /// What is promised of the comparisons, by family.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub families: Vec<FamilyFacts>,
    /// Every comparison.
    pub findings: Vec<Finding>,
    /// One way against another over all places of an axis at once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub main_effects: Vec<MainEffect>,
    /// From which size on one way is better than another.
    #[serde(default)]
    pub crossovers: Vec<Crossover>,
    /// Where the CPU time went, of the cells that were watched.
    #[serde(default)]
    pub cpu_time: Vec<CellTime>,
    /// How often each byte was copied, and where, of the cells that were counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub copies: Vec<CellCopies>,
    /// What else a message took, of the cells that were counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counts: Vec<CellCounts>,
    /// Why the cells of decided findings differ.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<FindingCauses>,
    /// Who used the CPUs in the windows of each cell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub books: Vec<CellBooks>,
    /// What servers and their clients used for each request, by the counters of a published table;
    /// of the cells with perf events, where there are any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<RoleCounters>,
    /// What counting cost, where it was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counting_cost: Option<CountingCost>,
    /// What moving displaced from the sending CPU's caches, of the cells where that was looked at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub footprints: Vec<CellFootprint>,
    /// Questions about why, each answered from these results or said what is missing.
    #[serde(default)]
    pub explanations: Vec<Explanation>,
    /// Published claims compared with these results. findings.json has the words of these.
    #[serde(skip)]
    pub audit: Vec<Audited>,
    /// Circumstances that can bend a ranking, with what they did to verdicts.
    #[serde(skip)]
    pub disturbances: Vec<Disturbance>,
    /// What this machine reaches at most, where another run measured that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<Ceiling>,
    /// What others measured, to be shown beside these results.
    #[serde(default)]
    pub published: Option<Published>,
    /// What weakens them. findings.json has the words of these.
    #[serde(skip)]
    pub caveats: Vec<Caveat>,
    /// Cells of the study that are not available on this machine, by reason.
    #[serde(with = "by_reason")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<RefusedCells>"))]
    pub refused_cells: Vec<RefusedCell>,
    /// Counters that are not.
    pub refused_counters: Vec<Refusal>,
    /// What the budget did not reach.
    pub left_out: Vec<LeftOut>,
    /// Trials that failed.
    pub failures: Vec<Failure>,
    /// The figures, ready to be drawn. Their numbers are those of cells and findings.
    #[serde(skip)]
    pub figures: Vec<FigureData>,
    /// What the distance between two CPUs costs, by each way, where that was measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub matrices: Vec<MatrixData>,
    /// The overview: how many times as fast one way of each of the study's pairs is.
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

/// The run, in a few facts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunFacts {
    /// Its name.
    pub id: String,
    /// Its start, RFC 3339.
    pub started: String,
    /// Version that measured.
    pub bytecost_version: String,
    /// The command line.
    pub command: Vec<String>,
    /// Seed of the order.
    pub seed: u64,
    /// Time from the start of the first trial to the end of the last, in s.
    pub measured_s: f64,
    /// The budget, in s, where that was clearly longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over_budget_s: Option<f64>,
    /// Blocks that every remaining cell completed.
    pub blocks: u32,
    /// Trials that gave a sample, repeats included.
    pub trials: usize,
    /// Of these, trials that were repeated because of their neighbours.
    pub repeated: usize,
    /// Trials that failed.
    pub failed: usize,
    /// Half the width of the widest interval of a primary finding, as a share.
    pub widest_interval: Option<f64>,
    /// What the plan expected to decide, and what came of it, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// How much ratios differ from round to round, and how that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<String>,
    /// What the plan changed of what was asked, in sentences.
    #[serde(default)]
    pub notes: Vec<String>,
    /// The version of Java that carried movers out, where it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub java: Option<String>,
    /// Where files were read and written, where any were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<String>,
    /// Where threads were held and what ran beside them, in sentences, as the kernel said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<String>,
    /// Why the run ended before its time, where it did.
    pub ended_early: Option<String>,
}

/// What was asked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StudyFacts {
    /// Its name.
    pub name: String,
    /// The name of the design, where it is not the study's own: `as-published`.
    #[serde(default)]
    pub design: Option<String>,
    /// Its heading.
    pub title: String,
    /// The question.
    pub question: String,
    /// What was expected before the run.
    pub prediction: String,
    /// The smallest difference that matters, as a share.
    pub smallest_effect: f64,
    /// The precision that was asked for, as a share.
    pub precision: f64,
    /// Confidence level of every interval: 0.95.
    pub level: f64,
    /// Time before the window, in ms.
    pub warmup_ms: u64,
    /// Length of the window, in ms.
    pub window_ms: u64,
    /// Axes with one value in all cells: axis and value.
    pub constants: Vec<(Axis, Value)>,
    /// Axes with several values, in their order.
    pub varied: Vec<Axis>,
    /// Axes of which the study names several values, or the command line any, with those values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<(Axis, Vec<Value>)>,
    /// What one message is called in words: a request, a step.
    #[serde(default)]
    pub unit: Unit,
}

/// A cell and what was found in it.
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
    /// Metrics that apply and are not available, with the reason.
    pub absent: BTreeMap<Metric, String>,
    /// Metrics by which its trials fall into two groups; those whose groups lie far apart have no
    /// estimate.
    pub two_groups: Vec<TwoGroups>,
    /// What of the payload was compared: `content`, `count` or nothing.
    pub checked: Option<String>,
    /// Its throughput as a share of what this machine reaches at most, where that was measured.
    pub ceiling: Option<CeilingShare>,
    /// Windows in which its flow stood still, where there were any.
    pub stood_still: Option<StoodStill>,
}

/// Windows of a cell in which its flow stood still for a timer of TCP. They have no bytes and next to
/// no CPU time, so that the mean rate over the time of all windows is lower by their share of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StoodStill {
    /// How many.
    pub windows: usize,
    /// Their length together.
    pub ms: f64,
    /// Their share of the time of all windows of the cell and its twin.
    pub share: f64,
}

impl CellResult {
    /// What a metric comes to; none where there is no estimate.
    pub(crate) fn value(&self, metric: Metric) -> Option<f64> {
        Some(self.estimates.get(&metric)?.value)
    }
}

/// What is promised of the comparisons of a family.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FamilyFacts {
    /// Which one.
    pub family: Family,
    /// Its comparisons in this run.
    pub comparisons: usize,
    /// Of the primary family the chance of even one false better or worse in it. Of the secondary one
    /// the share of false ones among those that are said, in the mean over tables, and the chance of
    /// even one where nothing differs. None of the exploratory one, of which neither is said.
    pub rate: Option<f64>,
}

/// An answered comparison of two cells that differ in one axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// Its place among the findings, from 0, by which all else names it.
    pub number: usize,
    /// What is compared.
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
    /// Whether the metric is the first of its comparison.
    pub first: bool,
    /// What it is tested together with.
    pub family: Family,
    /// The other's metric over the baseline's: geometric trimmed mean over blocks; of p99 and p99.9
    /// latency the ratio of the quantiles of all trials together, of the maximum the geometric mean.
    pub ratio: f64,
    /// Lower end of the 95 % interval of the ratio, which holds what varies within the run and from
    /// round to round.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Lower end of what this run's own minutes alone would give.
    #[serde(default)]
    pub within_low: f64,
    /// Upper end.
    #[serde(default)]
    pub within_high: f64,
    /// Standard deviation between rounds of the logarithm of the ratio (τ), over the root of the
    /// run's own rounds.
    #[serde(default)]
    pub between_deviation: f64,
    /// Degrees of freedom that it is known with.
    #[serde(default)]
    pub between_degrees: f64,
    /// Blocks in which both were measured.
    pub blocks: usize,
    /// Two-sided p value.
    pub p: f64,
    /// The same, corrected within its family: Holm's over all primary comparisons, Benjamini and
    /// Bogomolov's over the tables of secondary ones. None of what is not judged, and of what a
    /// caveat withholds, which is no part of its family.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p_corrected: Option<f64>,
    /// The level that the correction asks of it: of a primary one that of the first of them, of a
    /// secondary one that of the next of its table to be decided. None of what is not judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<f64>,
    /// The verdict.
    pub verdict: Verdict,
    /// Why there is no verdict although it was measured: what the caveat says that withholds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withheld: Option<String>,
    /// Why no amount is said of it: only the direction of its verdict stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amount_withheld: Option<String>,
    /// The smallest difference that this many blocks could have seen, 80 % of the time and at
    /// `level`, or at 5 % where there is none, as a share.
    pub detectable: f64,
    /// Blocks that it would take to decide, at `level` and 80 % of the time if the ratio stays,
    /// where it is not decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks_needed: Option<u32>,
    /// Whether blocks would decide it, did its ratio not differ from round to round.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rounds_prevent: bool,
}

impl Finding {
    /// What names it in every run of its study: `metric: cell against baseline value`.
    pub fn name(&self) -> String {
        format!(
            "{}: {} against {}",
            self.metric, self.cell, self.baseline_value
        )
    }

    /// Whether it compares these two cells in this metric, either of them as the baseline.
    pub fn compares(&self, metric: Metric, one: &str, other: &str) -> bool {
        let own = [self.baseline.as_str(), self.cell.as_str()];
        self.metric == metric && (own == [one, other] || own == [other, one])
    }

    /// Returns true if it is of that comparison of the study.
    pub(crate) fn is_of(&self, compare: &Compare) -> bool {
        let is_of_axis = self.axis == compare.axis && self.baseline_value == compare.baseline;
        is_of_axis && compare.compares(&self.value) && compare.metrics.contains(&self.metric)
    }

    /// Half the width of its interval within the run, as a share of its ratio: what more blocks lessen.
    pub(crate) fn half_width(&self) -> f64 {
        (self.within_high / self.within_low).sqrt() - 1.0
    }

    /// Whether one of the two is said to be better.
    pub fn is_apart(&self) -> bool {
        matches!(self.verdict, Verdict::Better | Verdict::Worse)
    }
}

/// Where along an axis one way becomes better than another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Crossover {
    /// What is compared.
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
    /// What both hold constant, of the axes that vary in the study.
    pub place: Vec<(Axis, Value)>,
    /// What it comes to.
    pub outcome: Crossing,
    /// [`Finding::number`]s behind it.
    pub findings: Vec<usize>,
    /// The values along it at which the two are not decided, or have no verdict.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open: Vec<Value>,
}

/// What becomes of two ways along an axis, by the values at which a finding decides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Crossing {
    /// The other is better than the baseline at every value.
    AlwaysBetter,
    /// The other is better at no value.
    NeverBetter,
    /// It is better at some values; where that begins and ends, in the order of the axis.
    At(Vec<CrossingPoint>),
    /// It is not shown to be better at any value, and not at each of them that it is not.
    Undecided,
}

/// Between which values along the axis the other begins to be better, or ceases to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CrossingPoint {
    /// Whether the other is the better one above this place, or below it.
    pub better_above: bool,
    /// Whether the other side of the place is no difference that matters, rather than worse.
    #[serde(default)]
    pub fades: bool,
    /// The last decided value below the place; absent where none is decided below.
    pub low: Option<Value>,
    /// The first decided value above the place; absent where none is decided above.
    pub high: Option<Value>,
}
