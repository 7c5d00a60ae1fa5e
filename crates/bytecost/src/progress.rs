//! Progress on standard error: a bar on a terminal, else lines. Nothing is drawn within a trial.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use bytecost_analysis::{LiveEstimates, Progress};
use bytecost_spec::axis::AXES;
use bytecost_spec::sample::Block;
use bytecost_spec::{Axis, Cell, Plan, Record, Study, TrialKey, units};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use itertools::Itertools as _;

/// The line that a run begins with: study, question, and the numbers of cells, blocks and rounds.
pub fn announcement(study: &Study, plan: &Plan) -> String {
    let block_ms = (plan.trial_ms * plan.cells.len() as u64).max(1);
    let blocks = (study.budget_ms / block_ms)
        .min(u64::from(study.blocks_most))
        .max(u64::from(study.blocks_least.min(study.blocks_most)));
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

/// The progress of a run: a bar, or lines where standard error is no terminal.
pub struct Display {
    cells: Vec<Cell>,
    varied: Vec<Axis>,
    budget: Duration,
    /// Hidden where there is no terminal.
    bar: ProgressBar,
    /// Progress is printed in lines.
    lines: bool,
    /// Samples so far, without failed trials and those for evidence.
    trials: u32,
    /// Their total duration.
    trial_ms: u64,
    /// The precision of the widest interval, as the bar shows it.
    widest: String,
    /// The note that the budget does not suffice has been printed.
    over_budget_noted: bool,
    /// The factor by which windows of a cell are longer than usual, by its id.
    longer: BTreeMap<String, u32>,
}

impl Display {
    pub fn new(cells: &[Cell], budget: Duration, quiet: bool) -> Display {
        let terminal = io::stderr().is_terminal();
        let target = if terminal && !quiet {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
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
            over_budget_noted: false,
            longer: BTreeMap::new(),
        }
    }

    /// Takes over the lengths of windows from the last block of a run that is resumed.
    pub fn resume(&mut self, block: &Block) {
        self.longer.clone_from(&block.longer);
    }

    /// Prints once that the run takes longer than its budget by more than a tenth: `total` is the expected
    /// duration, or the time already spent.
    pub fn note_over_budget(&mut self, total: Duration, why: &str) {
        if total <= self.budget.mul_f64(OVER_BUDGET) || self.over_budget_noted || !self.is_shown() {
            return;
        }
        self.over_budget_noted = true;
        let budget = units::duration(self.budget);
        let seconds = total.as_secs_f64().ceil();
        self.line(&format!(
            "the budget of {budget} does not suffice: {why}; the run takes {seconds} s or more"
        ));
    }

    /// Mean duration of the trials so far; the planned one before the first.
    pub fn trial_cost(&self, planned_ms: u64) -> Duration {
        if self.trials == 0 {
            return Duration::from_millis(planned_ms);
        }
        Duration::from_micros(self.trial_ms * 1000 / u64::from(self.trials))
    }

    /// A block begins.
    pub fn block(&mut self, block: u32, cells: usize, widest: Option<&Progress>, spent: Duration) {
        self.widest = widest.map_or(String::new(), |w| {
            format!(", widest interval ±{}", units::percent(w.half_width))
        });
        // Blocks 1, 2, 4, 8 and so on have a line, so that a long run has few.
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

    /// The ratios of the first comparison so far, at the start of a block: below the bar, or in a
    /// line behind that of the block.
    pub fn estimates(&mut self, block: u32, estimates: Option<&LiveEstimates>) {
        let is_due = !self.bar.is_hidden() || self.lines && (block + 1).is_power_of_two();
        let Some(estimates) = estimates.filter(|_| is_due) else {
            return;
        };
        let heading = units::one_line(&self.heading(estimates));
        if self.bar.is_hidden() {
            let ratios = estimates.ways.iter().map(|way| {
                format!(
                    "{} {}× ±{}",
                    units::one_line(&way.value.to_string()),
                    units::number(way.ratio),
                    units::percent(way.half_width)
                )
            });
            return self.line(&format!("{heading}: {}", ratios.format(", ")));
        }
        let lengths = estimates.ways.iter().map(|w| w.value.to_string().len());
        let width = lengths.max().unwrap_or(0);
        let rows = estimates.ways.iter().map(|way| {
            format!(
                "\n  {:<width$}  {:>5}×  ±{}",
                units::one_line(&way.value.to_string()),
                units::number(way.ratio),
                units::percent(way.half_width)
            )
        });
        self.bar.set_style(style("{bar:24} {wide_msg}\n{prefix}"));
        self.bar.set_prefix(format!("{heading}{}", rows.format("")));
    }

    fn heading(&self, estimates: &LiveEstimates) -> String {
        let other_axes = self.varied.iter().filter(|a| **a != estimates.axis);
        let place = match values(other_axes, &estimates.baseline) {
            place if place.is_empty() => place,
            place => format!(" at {place}"),
        };
        format!(
            "so far, without a verdict: {} relative to {}{place}",
            estimates.metric.title(estimates.unit),
            values(&[estimates.axis], &estimates.baseline),
        )
    }

    /// A pause begins, before the round of this number from 0.
    pub fn pause(&mut self, round: u32, count: u32, pause: Duration) {
        if self.lines {
            let pause = units::duration(pause);
            self.line(&format!(
                "waiting {pause} before round {} of {count}",
                round + 1
            ));
        }
    }

    /// Shows the time that is left of a pause, in the bar alone.
    pub fn waits(&self, round: u32, count: u32, left: Duration) {
        let (round, left) = (round + 1, left.as_secs());
        let text = format!("round {round} of {count} begins in {left} s");
        self.bar.set_message(units::one_line(&text));
        self.bar.tick();
    }

    /// Prints that so many trials for evidence begin, each with this window: they count events that explain
    /// costs, and their times are no results.
    pub fn evidence(&mut self, trials: usize, window: Duration) {
        if self.is_shown() {
            self.line(&format!(
                "evidence: {} of {:.1} s, not timed",
                units::count(trials, "more trial"),
                window.as_secs_f64()
            ));
        }
    }

    /// A trial begins.
    pub fn trial(&mut self, trial: TrialKey, spent: Duration) {
        self.note_over_budget(spent, "trials take longer than planned");
        let cell = self
            .cells
            .get(trial.cell as usize)
            .map_or_else(String::new, |cell| values(&self.varied, cell));
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

    /// A trial or a block has ended with this record.
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
                if let Some(why) = ended.repeated_because.as_ref()
                    && self.is_shown()
                {
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
            if let Some(times) = ended.longer.get(&id)
                && self.longer.get(&id) != Some(times)
                && self.is_shown()
            {
                self.line(&format!(
                    "block {}: a flow of {id} moved nothing in its window: from now on its windows are {times} times as long, and its earlier trials do not count",
                    ended.block + 1
                ));
            }
        }
        self.longer.clone_from(&ended.longer);
    }

    /// Returns false with `--quiet`, where only failures are printed.
    fn is_shown(&self) -> bool {
        self.lines || !self.bar.is_hidden()
    }

    fn line(&self, line: &str) {
        let line = units::one_line(line);
        let write = || drop(writeln!(io::stderr(), "{line}"));
        self.bar.suspend(write);
    }
}

/// The values of a cell on these axes, in one line.
fn values<'a>(axes: impl IntoIterator<Item = &'a Axis>, cell: &Cell) -> String {
    axes.into_iter().map(|a| cell.value(*a)).join(" ")
}

impl Drop for Display {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
