//! Progress on standard error: a bar on a terminal, else lines. Nothing ticks within a trial.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use bytecost_analysis::{LiveEstimates, Progress};
use bytecost_spec::axis::AXES;
use bytecost_spec::sample::Block;
use bytecost_spec::{Axis, Cell, Plan, Record, Study, TrialKey, units};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use itertools::Itertools as _;

/// What a run is about to measure, in a line: its study, its question, and how much there is to do.
pub fn announced(study: &Study, plan: &Plan) -> String {
    let block_ms = (plan.trial_ms * plan.cells.len() as u64).max(1);
    let blocks = (study.budget_ms / block_ms).min(u64::from(study.blocks_most));
    let blocks = blocks.max(u64::from(study.blocks_least.min(study.blocks_most)));
    let rounds = study.rounds.map_or_else(String::new, |rounds| {
        let pause = units::duration(Duration::from_millis(rounds.pause_ms));
        format!(" in {} rounds with pauses of {pause}", rounds.count)
    });
    format!(
        "{}: {} {}, about {}, {}{rounds}",
        study.name,
        study.question,
        units::count(plan.cells.len(), "cell"),
        units::count(blocks as usize, "block"),
        units::duration(Duration::from_millis(study.budget_ms))
    )
}

/// Share of the budget above which a run reports that it takes longer.
const OVER_BUDGET: f64 = 1.1;

pub struct Display {
    cells: Vec<Cell>,
    varied: Vec<Axis>,
    budget: Duration,
    /// Hidden where there is no terminal.
    bar: ProgressBar,
    lines: bool,
    trials: u32,
    trial_ms: u64,
    widest: String,
    /// The budget will not hold, and that was said.
    is_over_budget: bool,
    /// How many times as long as usual the windows of cells are.
    longer: BTreeMap<String, u32>,
}

impl Display {
    pub fn new(cells: &[Cell], budget: Duration, quiet: bool) -> Display {
        let terminal = io::stderr().is_terminal();
        let target = match terminal && !quiet {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(Some(budget.as_millis() as u64), target);
        bar.set_style(style("{bar:24} {wide_msg}"));
        let varies = |a: &Axis| cells.windows(2).any(|w| w[0].value(*a) != w[1].value(*a));
        Display {
            cells: cells.to_vec(),
            varied: AXES.iter().map(|row| row.axis).filter(varies).collect(),
            budget,
            bar,
            lines: !terminal && !quiet,
            trials: 0,
            trial_ms: 0,
            widest: String::new(),
            is_over_budget: false,
            longer: BTreeMap::new(),
        }
    }

    /// The last block of a run that is resumed.
    pub fn resume(&mut self, block: &Block) {
        self.longer.clone_from(&block.longer);
    }

    /// Says once that the run will last longer than its budget, as soon as that is known.
    pub fn expect(&mut self, whole: Duration, why: &str) {
        if whole <= self.budget.mul_f64(OVER_BUDGET) || self.is_over_budget || !self.shows() {
            return;
        }
        self.is_over_budget = true;
        let budget = units::duration(self.budget);
        let seconds = whole.as_secs_f64().ceil();
        self.line(&format!(
            "the budget of {budget} does not suffice: {why}; the run takes {seconds} s or more"
        ));
    }

    /// What a trial costs, as measured; as planned before the first.
    pub fn trial_cost(&self, planned_ms: u64) -> Duration {
        if self.trials == 0 {
            return Duration::from_millis(planned_ms);
        }
        Duration::from_micros(self.trial_ms * 1000 / u64::from(self.trials))
    }

    pub fn block(&mut self, block: u32, cells: usize, widest: Option<&Progress>, spent: Duration) {
        self.widest = widest.map_or(String::new(), |w| {
            format!(", widest interval ±{}", units::percent(w.half_width))
        });
        // Elsewhere a few lines say as much.
        if self.lines && (block + 1).is_power_of_two() {
            let left = self.budget.saturating_sub(spent).as_secs();
            self.line(&format!(
                "block {}: {}, {left} s of the budget left{}",
                block + 1,
                units::count(cells, "cell"),
                self.widest
            ));
        }
    }

    /// How precise the first comparison is as a block begins: below the bar, or in a line at the
    /// same blocks that have one.
    pub fn estimates(&mut self, block: u32, found: impl FnOnce() -> Option<LiveEstimates>) {
        let is_due = !self.bar.is_hidden() || self.lines && (block + 1).is_power_of_two();
        let Some(found) = is_due.then(found).flatten() else {
            return;
        };
        let heading = units::one_line(&self.heading(&found));
        let ways = found.ways.iter().map(|way| {
            let precision = units::percent(way.half_width);
            (
                units::one_line(&way.value.to_string()),
                units::number(way.ratio),
                precision,
            )
        });
        if self.bar.is_hidden() {
            let mut words =
                ways.map(|(value, ratio, precision)| format!("{value} {ratio}× ±{precision}"));
            return self.line(&format!("{heading}: {}", words.join(", ")));
        }
        let longest = found
            .ways
            .iter()
            .map(|w| w.value.to_string().len())
            .max()
            .unwrap_or(0);
        let rows = ways.map(|(value, ratio, precision)| {
            format!("\n  {value:<longest$}  {ratio:>5}×  ±{precision}")
        });
        self.bar.set_style(style("{bar:24} {wide_msg}\n{prefix}"));
        self.bar
            .set_prefix(format!("{heading}{}", rows.collect::<String>()));
    }

    fn heading(&self, found: &LiveEstimates) -> String {
        let others = self.varied.iter().filter(|a| **a != found.axis);
        let place = match words(others, &found.baseline) {
            place if place.is_empty() => place,
            place => format!(" at {place}"),
        };
        format!(
            "so far, without a verdict: {} relative to {}{place}",
            found.metric.title(found.unit),
            words(&[found.axis], &found.baseline),
        )
    }

    /// A pause before a round begins: this one of so many, counted from 0.
    pub fn pause(&mut self, round: u32, count: u32, pause: Duration) {
        if self.lines {
            let pause = units::duration(pause);
            self.line(&format!(
                "waiting {pause} before round {} of {count}",
                round + 1
            ));
        }
    }

    /// How much of the pause is left, for the bar.
    pub fn waits(&self, round: u32, count: u32, left: Duration) {
        let (round, left) = (round + 1, left.as_secs());
        let text = format!("round {round} of {count} begins in {left} s");
        self.bar.set_message(units::one_line(&text));
        self.bar.tick();
    }

    /// The trials for evidence begin: how many there are, and how long each is.
    pub fn evidence(&mut self, cells: usize, window: Duration) {
        if self.shows() {
            self.line(&format!(
                "evidence: {} of {:.1} s, not timed",
                units::count(cells, "more trial"),
                window.as_secs_f64()
            ));
        }
    }

    pub fn trial(&mut self, trial: TrialKey, spent: Duration) {
        self.expect(spent, "trials take longer than planned");
        let cell = self.cells.get(trial.cell as usize);
        let cell = cell.map_or_else(String::new, |cell| words(&self.varied, cell));
        self.bar
            .set_position((spent.as_millis() as u64).min(self.budget.as_millis() as u64));
        let left = self.budget.saturating_sub(spent).as_secs();
        self.bar.set_message(units::one_line(&format!(
            "block {}{}, {left} s left: {cell}",
            trial.block + 1,
            self.widest
        )));
        self.bar.tick();
    }

    pub fn ended(&mut self, record: &Record) {
        match record {
            Record::Sample(sample) => {
                self.trials += 1;
                self.trial_ms += sample.trial_ms;
            }
            Record::Evidence(_) => {}
            Record::Failure(failure) => {
                self.line(&format!("failed: {}: {}", failure.cell, failure.reason));
            }
            Record::Block(ended) => {
                if let Some(why) = ended.repeated_because.as_ref().filter(|_| self.shows()) {
                    self.line(&format!(
                        "block {} is measured again: {why}",
                        ended.block + 1
                    ));
                }
                self.longer_windows(ended);
            }
        }
    }

    /// Reports cells whose windows are longer from the next block on.
    fn longer_windows(&mut self, ended: &Block) {
        for cell in self.cells.iter().filter(|cell| !cell.twin) {
            let id = cell.id();
            let times = ended.longer.get(&id);
            if let Some(times) = times.filter(|times| self.longer.get(&id) != Some(times))
                && self.shows()
            {
                self.line(&format!(
                    "block {}: a flow of {id} moved nothing in its window: from now on its windows are {times} times as long, and its earlier trials do not count",
                    ended.block + 1
                ));
            }
        }
        self.longer.clone_from(&ended.longer);
    }

    /// Whether anything but failures is shown.
    fn shows(&self) -> bool {
        self.lines || !self.bar.is_hidden()
    }

    fn line(&self, line: &str) {
        let line = units::one_line(line);
        let write = || drop(writeln!(io::stderr(), "{line}"));
        self.bar.suspend(write);
    }
}

fn words<'a>(axes: impl IntoIterator<Item = &'a Axis>, cell: &Cell) -> String {
    let mut values = axes.into_iter().map(|a| cell.value(*a));
    values.join(" ")
}

impl Drop for Display {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
