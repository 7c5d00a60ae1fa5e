//! A study: a question with its prediction, the axes that it varies, its comparisons and figures.
//!
//! Studies are TOML, as in `studies/*.toml`: [`Study::parse`] reads one, [`Study::ask`] applies the
//! axes of the command line, and [`Study::check`] compares the result with a survey.

use std::time::Duration;

use itertools::Itertools as _;
use serde::{Deserialize, Serialize};

use crate::axis::{Axis, CellFacts, Value};
use crate::cell::{Arrivals, Cell, Invalid, MAX_CELLS, PAIRS, Transport};
use crate::metric::Metric;
use crate::survey::Survey;
use crate::units;

mod expect;
mod family;
mod fit;
mod pair;
mod raw;

pub use expect::{Expect, Outcome};
pub use family::{ERROR_RATE, FALSE_DISCOVERY_RATE, Family, PrimaryPart};
pub use pair::Pair;

/// The longest window, and the longest warm-up, in ms.
pub const MAX_WINDOW_MS: u64 = 60_000;
/// The longest budget, in ms: a day.
pub const MAX_BUDGET_MS: u64 = 86_400_000;

/// The most blocks of a run.
pub const MAX_BLOCKS: u32 = 10_000;
/// The most comparisons of a study, and the most figures, expectations and pairs.
pub const MAX_PARTS: usize = 200;

/// A question with all that a run needs to answer it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Study {
    /// Its name, which `bytecost run` takes.
    pub name: String,
    /// Its heading.
    pub title: String,
    /// The question.
    pub question: String,
    /// The expected answer, written before the first run.
    pub prediction: String,
    /// The smallest difference that matters, as a share: 0.05 is 5 %.
    pub smallest_effect: f64,
    /// Half the width of the intervals at which measuring may stop, as a share.
    pub precision: f64,
    /// Time that a run may take, in ms.
    pub budget_ms: u64,
    /// Time before the window, in ms.
    pub warmup_ms: u64,
    /// Length of the window, in ms.
    pub window_ms: u64,
    /// Fewest blocks of a run.
    pub blocks_least: u32,
    /// Most blocks.
    pub blocks_most: u32,
    /// The rounds in which the blocks are measured; none where all are one round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<PlannedRounds>,
    /// CPUs that other processes may use, mean over a block. A block with more is measured again.
    pub foreign_cpus: f64,
    /// The most times that one block is measured again.
    pub repeats_most: u32,
    /// The cells, in the order in which a budget pays for them.
    pub tiers: Vec<Tier>,
    /// The comparisons; the answer is about the first.
    pub compare: Vec<Compare>,
    /// The figures.
    pub figures: Vec<Figure>,
    /// The prediction, or parts of it, in a form that is compared with findings.
    pub expects: Vec<Expect>,
    /// The cells of the publication, for a study that reproduces one. They replace the tiers in
    /// [`Study::choose_as_published`].
    pub as_published: Vec<Tier>,
    /// Number of blocks in the publication, if it is to be reproduced.
    pub as_published_blocks: Option<u32>,
    /// The pairs of ways whose speed-up the overview shows.
    pub pairs: Vec<Pair>,
    /// The axes whose values the command line named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<Axis>,
    /// [`AS_PUBLISHED`] where that was chosen.
    pub design: Option<String>,
    /// True if each block measures baselines twice, which new runs do.
    pub twins: bool,
}

/// The division of a run into rounds, groups of blocks with pauses between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlannedRounds {
    /// Number of rounds: two or more.
    pub count: u32,
    /// Pause between two rounds, in ms.
    pub pause_ms: u64,
}

/// The most rounds of a run.
pub const MAX_ROUNDS: u32 = 100;
/// The longest pause between two rounds, in ms: an hour.
pub const MAX_PAUSE_MS: u64 = 3_600_000;
/// The fewest blocks of a round: fewer give no interval.
pub const MIN_ROUND_BLOCKS: u32 = 3;

/// The name of the design that follows a publication exactly.
pub const AS_PUBLISHED: &str = "as-published";

/// A part of the grid: the product of the values of its axes; axes that it does not name have one value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tier {
    /// Its heading.
    pub title: String,
    /// Values by axis.
    pub axes: Vec<(Axis, Vec<Value>)>,
}

/// A comparison of the values of one axis with a baseline, between cells that are otherwise equal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Compare {
    /// The axis.
    pub axis: Axis,
    /// The value that the others are compared with.
    pub baseline: Value,
    /// The compared values; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<Value>,
    /// An axis over all of whose values the first metric is compared at once, as a comparison of its
    /// own: a main effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over: Option<Axis>,
    /// The compared metrics; the answer is about the first.
    pub metrics: Vec<Metric>,
    /// Its family; [`Compare::family_of`] gives the family of one of its cells.
    #[serde(default, skip_serializing_if = "crate::defaults::is_default")]
    pub family: Family,
    /// Its primary parts, if it is not primary as a whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub primary: Vec<PrimaryPart>,
}

/// A figure: one metric over one axis, a line for each value of another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Its heading.
    pub title: String,
    /// The axis of the abscissa.
    pub x: Axis,
    /// The metric of the ordinate.
    pub y: Metric,
    /// The axis with one line for each value.
    pub series: Axis,
    /// True to draw the ratio to the baseline of the comparison over the series axis.
    #[serde(default)]
    pub relative: bool,
    /// The metric of the ordinate if `y` is absent in all cells.
    pub or: Option<Metric>,
}

impl Study {
    /// The number of rounds in which the blocks are measured.
    pub fn round_count(&self) -> u32 {
        self.rounds.map_or(1, |rounds| rounds.count.max(1))
    }

    /// Fewest blocks of each round.
    pub fn round_blocks_least(&self) -> u32 {
        self.blocks_least / self.round_count()
    }

    /// Replaces the study's cells by the published ones. Fails if the study has no published design.
    pub fn choose_as_published(&mut self) -> Result<(), Invalid> {
        if self.as_published.is_empty() {
            return Err(Invalid(format!(
                "study `{}` has no published design: leave --as-published out",
                self.name
            )));
        }
        self.tiers.clone_from(&self.as_published);
        self.make_all_primary();
        if let Some(blocks) = self.as_published_blocks {
            (self.blocks_least, self.blocks_most) = (blocks, blocks);
        }
        self.design = Some(AS_PUBLISHED.to_owned());
        Ok(())
    }

    /// Gives axes the values of the command line, and compares them: an axis with several values that
    /// the study has no baseline for gets its default as a baseline, or else its first value, unless
    /// the study already varies that axis and compares another one. Fails as [`Study::set_axis`].
    pub fn ask(&mut self, asked: &[(Axis, Vec<String>)]) -> Result<(), Invalid> {
        let varied: Vec<Axis> = (asked.iter().map(|(axis, _)| *axis))
            .filter(|axis| self.tiers.iter().any(|tier| tier.values(*axis).len() > 1))
            .collect();
        for (axis, values) in asked {
            self.set_axis(*axis, values)?;
        }
        self.name_arrivals();
        self.asked = asked.iter().map(|(axis, _)| *axis).collect();
        let Some(tier) = self.tiers.first().filter(|_| !asked.is_empty()) else {
            return Ok(());
        };
        let is_compared = self.compare.iter().any(|c| tier.values(c.axis).len() > 1);
        let Some(metrics) = self.compare.first().map(|c| c.metrics.clone()) else {
            return Ok(());
        };
        for &axis in &self.asked {
            let values = tier.values(axis);
            let has_baseline = self.compare.iter().any(|c| c.axis == axis);
            if values.len() < 2 || has_baseline || is_compared && varied.contains(&axis) {
                continue;
            }
            let has_value = |word: &str| values.iter().find(|value| *value == word);
            let baseline = has_value(axis.row().default)
                .or_else(|| has_value("off"))
                .unwrap_or(&values[0]);
            self.compare
                .push(Compare::new(axis, baseline.clone(), metrics.clone()));
        }
        Ok(())
    }

    /// Makes arrivals a Poisson process, as of many independent clients, in each part that has a rate and
    /// names no arrivals.
    fn name_arrivals(&mut self) {
        for tier in self.tiers.iter_mut().chain(&mut self.as_published) {
            let rates = tier.values(Axis::Rate);
            let is_open = rates.iter().any(|rate| rate != Axis::Rate.row().default);
            if is_open && tier.values(Axis::Arrivals).is_empty() {
                let poisson = Arrivals::Poisson.name().into();
                tier.axes.push((Axis::Arrivals, vec![poisson]));
            }
        }
    }

    /// Gives an axis its values; the study is then its first part alone. `both` means `on` and `off` of
    /// a switch. Fails for no value and for a wrong one.
    pub fn set_axis(&mut self, axis: Axis, values: &[impl AsRef<str>]) -> Result<(), Invalid> {
        if values.is_empty() {
            return Err(Invalid(format!("{axis} needs at least one value")));
        }
        let values: Vec<Value> = (values.iter())
            .flat_map(|value| match value.as_ref() {
                "both" if axis.is_switch() => vec!["on", "off"],
                other => vec![other],
            })
            .map(|value| axis.read(value))
            .process_results(|values| values.unique().collect())?;
        self.tiers.truncate(1);
        if let Some(tier) = self.tiers.first_mut() {
            tier.title = "as asked".to_owned();
            tier.axes.retain(|(a, _)| *a != axis);
            tier.axes.push((axis, values.clone()));
        }
        // A partial comparison without its baseline is removed.
        self.compare.retain(|compare| {
            let is_part = compare.axis == axis && !compare.values.is_empty();
            !is_part || values.contains(&compare.baseline)
        });
        self.make_all_primary();
        if let Some(first) = self.compare.iter_mut().find(|c| c.axis == axis) {
            first.family = Family::Primary;
        }
        for compare in &mut self.compare {
            if compare.axis == axis {
                compare.values.clear();
            }
            if compare.axis == axis && !values.contains(&compare.baseline) {
                compare.baseline.clone_from(&values[0]);
            }
        }
        Ok(())
    }

    /// Makes comparisons with primary parts primary as a whole: the cells are no longer those that the
    /// parts name.
    fn make_all_primary(&mut self) {
        for compare in self.compare.iter_mut().filter(|c| !c.primary.is_empty()) {
            compare.primary.clear();
            compare.family = Family::Primary;
        }
    }

    /// Replaces TCP within one machine by TCP to another host, in cells, comparisons and expectations.
    /// The prediction stays, with a note that it is of one machine.
    pub fn go_to_peer(&mut self) {
        if !self.prediction.is_empty() {
            self.prediction.insert_str(0, "Of one machine: ");
        }
        let [peer, loopback, veth] =
            [Transport::Peer, Transport::Loopback, Transport::Veth].map(|t| Value::from(t.name()));
        self.change_values(|axis, value| {
            if axis == Axis::Transport && (*value == loopback || *value == veth) {
                value.clone_from(&peer);
            }
        });
        for tier in self.tiers.iter_mut().chain(&mut self.as_published) {
            match tier.axes.iter_mut().find(|(a, _)| *a == Axis::Transport) {
                Some((_, values)) => *values = values.drain(..).unique().collect(),
                None => tier.axes.push((Axis::Transport, vec![peer.clone()])),
            }
        }
    }

    /// Applies a function to every value of every axis in the study.
    fn change_values(&mut self, change: impl Fn(Axis, &mut Value)) {
        for (axis, values) in (self.tiers.iter_mut().chain(&mut self.as_published))
            .flat_map(|tier| &mut tier.axes)
            .chain(self.expects.iter_mut().flat_map(|expect| &mut expect.at))
            .chain(self.pairs.iter_mut().flat_map(|pair| &mut pair.at))
        {
            values.iter_mut().for_each(|value| change(*axis, value));
        }
        for compare in &mut self.compare {
            change(compare.axis, &mut compare.baseline);
            (compare.values.iter_mut()).for_each(|value| change(compare.axis, value));
            for part in &mut compare.primary {
                (part.values.iter_mut()).for_each(|value| change(compare.axis, value));
                for (axis, values) in &mut part.at {
                    values.iter_mut().for_each(|value| change(*axis, value));
                }
            }
        }
        for expect in &mut self.expects {
            change(expect.axis, &mut expect.baseline);
            change(expect.axis, &mut expect.value);
        }
        for pair in &mut self.pairs {
            change(pair.axis, &mut pair.against);
            (pair.values.iter_mut()).for_each(|value| change(pair.axis, value));
        }
    }

    /// Returns true if a part names [`PAIRS`], which pairs of CPUs must replace.
    pub fn asks_for_pairs(&self) -> bool {
        let mut tiers = self.tiers.iter().chain(&self.as_published);
        tiers.any(|tier| tier.values(Axis::Placement).iter().any(|v| v == PAIRS))
    }

    /// Replaces [`PAIRS`] by pairs of CPUs; as a baseline it becomes `nearest`.
    pub fn take_pairs(&mut self, pairs: &[Value], nearest: &Value) {
        let tiers = self.tiers.iter_mut().chain(&mut self.as_published);
        let axes = tiers.flat_map(|tier| &mut tier.axes);
        for (_, values) in axes.filter(|(axis, _)| *axis == Axis::Placement) {
            *values = (values.drain(..))
                .flat_map(|value| {
                    if value == PAIRS {
                        pairs.to_vec()
                    } else {
                        vec![value]
                    }
                })
                .unique()
                .collect();
        }
        for compare in &mut self.compare {
            if compare.axis == Axis::Placement && compare.baseline == PAIRS {
                compare.baseline.clone_from(nearest);
            }
        }
    }

    /// Compares the study with a survey. Fails for a time out of bounds, for a study that
    /// [`Study::check_counts`] refuses, or as [`Survey::check`].
    pub fn check(&self, survey: &Survey) -> Result<(), Invalid> {
        for (time, ms, most) in [
            ("window", self.window_ms, MAX_WINDOW_MS),
            ("warmup", self.warmup_ms, MAX_WINDOW_MS),
            ("budget", self.budget_ms, MAX_BUDGET_MS),
        ] {
            if !(1..=most).contains(&ms) {
                let most = units::duration(Duration::from_millis(most));
                let message = format!("{time} is out of bounds: from 1ms to {most}");
                return Err(Invalid(message));
            }
        }
        self.check_counts()?;
        for (_, cell) in self.cells() {
            survey.check(&cell)?;
        }
        Ok(())
    }

    /// Checks the size of the study before its cells are made.
    ///
    /// # Errors
    /// More than [`MAX_CELLS`] cells, [`MAX_BLOCKS`] blocks, [`MAX_ROUNDS`] rounds, or [`MAX_PARTS`]
    /// comparisons, figures, expectations or pairs.
    pub fn check_counts(&self) -> Result<(), Invalid> {
        let cells = [&self.tiers, &self.as_published]
            .map(|tiers| tiers.iter().map(Tier::size).fold(0, usize::saturating_add));
        let rounds = self.rounds.map_or(0, |rounds| rounds.count);
        for (parts, count, most) in [
            ("cells", cells[0].max(cells[1]), MAX_CELLS),
            ("blocks", self.blocks_most as usize, MAX_BLOCKS as usize),
            ("rounds", rounds as usize, MAX_ROUNDS as usize),
            ("comparisons", self.compare.len(), MAX_PARTS),
            ("figures", self.figures.len(), MAX_PARTS),
            ("expectations", self.expects.len(), MAX_PARTS),
            ("pairs", self.pairs.len(), MAX_PARTS),
        ] {
            if count > most {
                let message = format!("the study has {count} {parts}; at most {most} are possible");
                return Err(Invalid(format!("{message}: name fewer values")));
            }
        }
        Ok(())
    }

    /// The cells of all tiers in their order, each once, with the index of its tier.
    pub fn cells(&self) -> Vec<(usize, Cell)> {
        (self.tiers.iter().enumerate())
            .flat_map(|(index, tier)| tier.cells().into_iter().map(move |cell| (index, cell)))
            .unique_by(|(_, cell)| cell.clone())
            .collect()
    }
}

impl Compare {
    /// A comparison of every value of an axis with a baseline; its first metric is primary.
    pub fn new(axis: Axis, baseline: impl Into<Value>, metrics: Vec<Metric>) -> Compare {
        Compare {
            axis,
            baseline: baseline.into(),
            values: Vec::new(),
            over: None,
            metrics,
            family: Family::default(),
            primary: Vec::new(),
        }
    }

    /// The family of the comparison of a cell with its baseline in a metric.
    ///
    /// In a primary comparison the first metric is primary, or its primary parts if it has some; the
    /// remainder is secondary.
    pub fn family_of(&self, cell: &CellFacts<'_>, metric: Metric) -> Family {
        let first = self.metrics.first();
        let is_primary = match self.primary.as_slice() {
            [] => self.family == Family::Primary && first == Some(&metric),
            parts => parts.iter().any(|part| {
                let of_metric = part.metric.as_ref().or(first) == Some(&metric);
                of_metric && part.holds_at(self.axis, cell)
            }),
        };
        match (is_primary, self.family) {
            (true, _) => Family::Primary,
            (false, Family::Exploratory) => Family::Exploratory,
            (false, _) => Family::Secondary,
        }
    }

    /// Returns true if a value is compared with the baseline.
    pub fn compares(&self, value: &Value) -> bool {
        self.values.is_empty() || self.values.contains(value)
    }
}

impl Tier {
    /// The values of an axis; none where the part does not name it.
    pub fn values(&self, axis: Axis) -> &[Value] {
        let named = self.axes.iter().find(|(a, _)| *a == axis);
        named.map_or(&[], |(_, values)| values)
    }

    /// Number of cells in the product.
    pub fn size(&self) -> usize {
        let values = self.axes.iter().map(|(_, values)| values.len());
        values.fold(1, usize::saturating_mul)
    }

    /// The product of the axes; the last axis varies fastest. Values were checked when they were
    /// parsed; an invalid one leaves the axis at its default.
    pub fn cells(&self) -> Vec<Cell> {
        let mut cells = vec![Cell::default()];
        for (axis, values) in &self.axes {
            let mut next =
                Vec::with_capacity(cells.len().saturating_mul(values.len()).min(MAX_CELLS + 1));
            for base in &cells {
                for value in values {
                    let mut cell = base.clone();
                    let _ = cell.set_value(*axis, value);
                    next.push(cell);
                }
            }
            cells = next;
        }
        cells
    }
}

#[cfg(test)]
mod tests;
