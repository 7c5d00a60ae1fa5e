//! A study: a question, a prediction, the axes it varies, what it compares and draws.
//!
//! Written as TOML, as in `studies/*.toml`: [`Study::parse`] reads it, [`Study::set_axis`] changes
//! axes for the command line, and [`Study::check`] compares the result with the survey's tables.

use std::time::Duration;

use itertools::Itertools as _;
use serde::{Deserialize, Serialize};

use crate::axis::{Axis, CellFacts, Value};
use crate::cell::{Arrivals, Cell, Invalid, PAIRS, Transport};
use crate::metric::Metric;
use crate::survey::Survey;
use crate::units;

mod expect;
mod family;
mod fit;
mod pair;
pub(crate) mod raw;

pub use expect::{Expect, Outcome};
pub use family::{ERROR_RATE, FALSE_DISCOVERY_RATE, Family, PrimaryPart};
pub use pair::Pair;

/// The longest window, and the longest time before it, in ms.
pub const MAX_WINDOW_MS: u64 = 60_000;
/// The longest budget, in ms: a day.
pub const MAX_BUDGET_MS: u64 = 86_400_000;

/// The most cells that a study may spread out to.
pub const MAX_CELLS: usize = 20_000;
/// Most blocks of a run.
pub const MAX_BLOCKS: u32 = 10_000;
/// Most comparisons that a study names, and most figures, expectations and pairs.
pub const MAX_PARTS: usize = 200;

/// A question with all that is needed to answer it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Study {
    /// Its name, which `bytecost run` takes.
    pub name: String,
    /// Its heading.
    pub title: String,
    /// What it asks.
    pub question: String,
    /// What was expected before it ran.
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
    /// Fewest blocks: fewer say nothing.
    pub blocks_least: u32,
    /// Most blocks.
    pub blocks_most: u32,
    /// The rounds in which the blocks are measured; none where all are one round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<PlannedRounds>,
    /// CPUs that other processes may use in the mean over a block, above which the block is
    /// measured again.
    pub foreign_cpus: f64,
    /// How often at most one block is measured again.
    pub repeats_most: u32,
    /// The cells, in the order in which a budget pays for them.
    pub tiers: Vec<Tier>,
    /// What is compared with what.
    pub compare: Vec<Compare>,
    /// What is drawn.
    pub figures: Vec<Figure>,
    /// The prediction, or a part of it, in a form that can be held against findings.
    pub expects: Vec<Expect>,
    /// The cells as someone else published them, for studies that set up a published one again:
    /// what [`Study::choose_as_published`] puts in the place of the tiers.
    pub as_published: Vec<Tier>,
    /// How often the publication ran each, where its own number of repetitions is kept to.
    pub as_published_blocks: Option<u32>,
    /// The pairs of ways whose speed-up the overview shows.
    pub pairs: Vec<Pair>,
    /// The axes whose values the command line named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<Axis>,
    /// [`AS_PUBLISHED`] where that was chosen.
    pub design: Option<String>,
    /// Whether baselines are measured twice in each block, as a new run has it.
    pub twins: bool,
}

/// Groups of blocks with pauses between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlannedRounds {
    /// How many: two or more.
    pub count: u32,
    /// Time between two of them, in ms, in which nothing is measured.
    pub pause_ms: u64,
}

/// The most rounds of a run.
pub const MAX_ROUNDS: u32 = 100;
/// The longest pause between two rounds, in ms: an hour.
pub const MAX_PAUSE_MS: u64 = 3_600_000;
/// Fewest blocks of a round: fewer have no interval.
pub const MIN_ROUND_BLOCKS: u32 = 3;

/// The name of the design that follows a publication to the letter.
pub const AS_PUBLISHED: &str = "as-published";

/// A part of the grid: the product of its axes; axes that it does not name have one value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tier {
    /// What the part is for.
    pub title: String,
    /// Values by axis.
    pub axes: Vec<(Axis, Vec<Value>)>,
}

/// A comparison: cells that differ in one axis only, each against the baseline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Compare {
    /// The axis.
    pub axis: Axis,
    /// The value that the others are compared with.
    pub baseline: Value,
    /// The others, where not all values are compared with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<Value>,
    /// The axis over all of whose values the first metric is compared at once, as a comparison of
    /// its own: a main effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over: Option<Axis>,
    /// What is compared; the first is what the answer speaks of.
    pub metrics: Vec<Metric>,
    /// What it is for; [`Compare::family_of`] says what that means of one of its cells.
    #[serde(default, skip_serializing_if = "crate::usual::is_usual")]
    pub family: Family,
    /// Its primary parts, where it is not primary as a whole.
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
    /// Across.
    pub x: Axis,
    /// Up.
    pub y: Metric,
    /// One line each.
    pub series: Axis,
    /// Draw the ratio to the baseline of the comparison over the series axis, not the value.
    #[serde(default)]
    pub relative: bool,
    /// Up, where `y` cannot be had in any cell.
    pub or: Option<Metric>,
}

/// What is wrong with a study file, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub struct StudyError {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong and what to write instead.
    pub message: String,
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

    /// Takes the published design in the place of the study's own, unless it has none.
    pub fn choose_as_published(&mut self) -> Result<(), Invalid> {
        if self.as_published.is_empty() {
            return Err(Invalid(format!(
                "study `{}` has no published design: leave --as-published out",
                self.name
            )));
        }
        self.tiers.clone_from(&self.as_published);
        self.make_whole();
        if let Some(blocks) = self.as_published_blocks {
            (self.blocks_least, self.blocks_most) = (blocks, blocks);
        }
        self.design = Some(AS_PUBLISHED.to_owned());
        Ok(())
    }

    /// Gives axes the values of the command line. What is asked for is compared: an axis with
    /// several values that the study holds no baseline for gets its default as one, or else its
    /// first value, unless the study goes along it anyway and compares something else. Fails as
    /// [`Study::set_axis`].
    pub fn ask(&mut self, asked: &[(Axis, Vec<String>)]) -> Result<(), Invalid> {
        let is_place = |axis: &Axis| self.tiers.iter().any(|tier| tier.values(*axis).len() > 1);
        let axes = asked.iter().map(|(axis, _)| *axis);
        let places: Vec<Axis> = axes.clone().filter(is_place).collect();
        for (axis, values) in asked {
            self.set_axis(*axis, values)?;
        }
        self.name_arrivals();
        self.asked = axes.collect();
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
            if values.len() < 2 || has_baseline || is_compared && places.contains(&axis) {
                continue;
            }
            let usual = |word: &str| values.iter().find(|value| *value == word);
            let default = usual(axis.row().default).or_else(|| usual("off"));
            let baseline = default.unwrap_or(&values[0]);
            self.compare
                .push(Compare::of(axis, baseline.clone(), metrics.clone()));
        }
        Ok(())
    }

    /// Names the arrivals of each part that has a rate and names none: requests due as those of
    /// many clients.
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

    /// Gives an axis its values. The study is then its first part alone, with these values. `both`
    /// stands for `on` and `off` of a switch. Fails for no value or a wrong one.
    pub fn set_axis(&mut self, axis: Axis, values: &[impl AsRef<str>]) -> Result<(), Invalid> {
        if values.is_empty() {
            return Err(Invalid(format!("{axis} needs at least one value")));
        }
        let values = values.iter().flat_map(|value| match value.as_ref() {
            "both" if axis.is_switch() => vec!["on", "off"],
            other => vec![other],
        });
        let read = values.map(|value| axis.read(value));
        let written: Vec<Value> = read.process_results(|read| read.unique().collect())?;
        self.tiers.truncate(1);
        if let Some(tier) = self.tiers.first_mut() {
            tier.title = "as asked".to_owned();
            tier.axes.retain(|(a, _)| *a != axis);
            tier.axes.push((axis, written.clone()));
        }
        // A part of the comparison that lacks its baseline is gone.
        self.compare.retain(|compare| {
            let is_part = compare.axis == axis && !compare.values.is_empty();
            !is_part || written.contains(&compare.baseline)
        });
        self.make_whole();
        if let Some(first) = self.compare.iter_mut().find(|c| c.axis == axis) {
            first.family = Family::Primary;
        }
        for compare in &mut self.compare {
            if compare.axis == axis {
                compare.values.clear();
            }
            if compare.axis == axis && !written.contains(&compare.baseline) {
                compare.baseline.clone_from(&written[0]);
            }
        }
        Ok(())
    }

    /// Other cells are asked for than those that the primary parts name.
    fn make_whole(&mut self) {
        for compare in self.compare.iter_mut().filter(|c| !c.primary.is_empty()) {
            compare.primary.clear();
            compare.family = Family::Primary;
        }
    }

    /// Has go to another host what goes over TCP between two ends of one machine; what the study
    /// says of the one is then said of the other, but its prediction, which says what it is of.
    pub fn go_to_peer(&mut self) {
        if !self.prediction.is_empty() {
            self.prediction.insert_str(0, "Of one machine: ");
        }
        let [there, loopback, veth] =
            [Transport::Peer, Transport::Loopback, Transport::Veth].map(|t| Value::from(t.name()));
        self.change_values(|axis, value| {
            if axis == Axis::Transport && (*value == loopback || *value == veth) {
                value.clone_from(&there);
            }
        });
        for tier in self.tiers.iter_mut().chain(&mut self.as_published) {
            match tier.axes.iter_mut().find(|(a, _)| *a == Axis::Transport) {
                Some((_, values)) => *values = values.drain(..).unique().collect(),
                None => tier.axes.push((Axis::Transport, vec![there.clone()])),
            }
        }
    }

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

    /// Returns true if a part asks for [`PAIRS`], whose place the pairs have to take.
    pub fn asks_for_pairs(&self) -> bool {
        let mut tiers = self.tiers.iter().chain(&self.as_published);
        tiers.any(|tier| tier.values(Axis::Placement).iter().any(|v| v == PAIRS))
    }

    /// Puts pairs of CPUs in the place of their word; a baseline of that word becomes `nearest`.
    pub fn take_pairs(&mut self, pairs: &[Value], nearest: &Value) {
        let tiers = self.tiers.iter_mut().chain(&mut self.as_published);
        let axes = tiers.flat_map(|tier| &mut tier.axes);
        for (_, values) in axes.filter(|(axis, _)| *axis == Axis::Placement) {
            let all = values.drain(..).flat_map(|value| {
                if value == PAIRS {
                    pairs.to_vec()
                } else {
                    vec![value]
                }
            });
            *values = all.unique().collect();
        }
        for compare in &mut self.compare {
            if compare.axis == Axis::Placement && compare.baseline == PAIRS {
                compare.baseline.clone_from(nearest);
            }
        }
    }

    /// Compares names and fields with the tables of a survey: fails for a time out of bounds, a
    /// study that [`Study::check_counts`] refuses, or as [`Survey::check`].
    pub fn check(&self, survey: &Survey) -> Result<(), Invalid> {
        for (what, ms, most) in [
            ("window", self.window_ms, MAX_WINDOW_MS),
            ("warmup", self.warmup_ms, MAX_WINDOW_MS),
            ("budget", self.budget_ms, MAX_BUDGET_MS),
        ] {
            if !(1..=most).contains(&ms) {
                let most = units::duration(Duration::from_millis(most));
                let message = format!("{what} is out of bounds: from 1ms to {most}");
                return Err(Invalid(message));
            }
        }
        self.check_counts()?;
        for (_, cell) in self.cells() {
            survey.check(&cell)?;
        }
        Ok(())
    }

    /// Checks how much the study has of each thing, before any of it is made.
    ///
    /// # Errors
    /// More than [`MAX_CELLS`] cells, [`MAX_BLOCKS`] blocks, [`MAX_ROUNDS`] rounds, or [`MAX_PARTS`]
    /// comparisons, figures, expectations or pairs.
    pub fn check_counts(&self) -> Result<(), Invalid> {
        let cells = [&self.tiers, &self.as_published].map(|tiers| {
            let sizes = tiers.iter().map(Tier::size);
            sizes.fold(0, usize::saturating_add)
        });
        let rounds = self.rounds.map_or(0, |rounds| rounds.count);
        for (what, count, most) in [
            ("cells", cells[0].max(cells[1]), MAX_CELLS),
            ("blocks", self.blocks_most as usize, MAX_BLOCKS as usize),
            ("rounds", rounds as usize, MAX_ROUNDS as usize),
            ("comparisons", self.compare.len(), MAX_PARTS),
            ("figures", self.figures.len(), MAX_PARTS),
            ("expectations", self.expects.len(), MAX_PARTS),
            ("pairs", self.pairs.len(), MAX_PARTS),
        ] {
            if count > most {
                let message = format!("the study has {count} {what}; at most {most} are possible");
                return Err(Invalid(format!("{message}: name fewer values")));
            }
        }
        Ok(())
    }

    /// The cells of all tiers in their order, each once, with the number of its tier.
    pub fn cells(&self) -> Vec<(usize, Cell)> {
        let tiers = self.tiers.iter().enumerate();
        let cells = tiers.flat_map(|(number, tier)| {
            let cells = tier.cells().into_iter();
            cells.map(move |cell| (number, cell))
        });
        cells.unique_by(|(_, cell)| cell.clone()).collect()
    }
}

impl Compare {
    /// Every value of an axis against a baseline; its first metric is primary.
    pub fn of(axis: Axis, baseline: impl Into<Value>, metrics: Vec<Metric>) -> Compare {
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
    /// Of a primary comparison the first metric is primary, or its primary parts where it names
    /// some; what is left of it is secondary.
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

    /// Whether a value is compared with the baseline.
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

    /// How many cells the product has.
    pub fn size(&self) -> usize {
        let values = self.axes.iter().map(|(_, values)| values.len());
        values.fold(1, usize::saturating_mul)
    }

    /// The product of the axes; the last axis varies fastest. Values were checked when they
    /// were read; one that is none is left at its default.
    pub fn cells(&self) -> Vec<Cell> {
        let mut cells = vec![Cell::default()];
        for (axis, values) in &self.axes {
            let mut next =
                Vec::with_capacity(cells.len().saturating_mul(values.len()).min(MAX_CELLS + 1));
            for cell in &cells {
                for value in values {
                    let mut cell = cell.clone();
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
