//! Measuring: block after block until the intervals are narrow enough or the budget is spent, and
//! then the trials for evidence.

pub mod evidence;
mod state;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use bytecost_analysis::Interim;
use bytecost_lab::files::Files;
use bytecost_lab::meters::reads_hardware;
use bytecost_lab::peer::PeerLink;
use bytecost_lab::program::Program;
use bytecost_lab::protocol::ContentCheck;
use bytecost_lab::settings::Settings;
use bytecost_lab::{Event, Lab};
use bytecost_plan::policy::{self, Next};
use bytecost_spec::sample::Block;
use bytecost_spec::study::PlannedRounds;
use bytecost_spec::survey::CounterTrial;
use bytecost_spec::{Host, Manifest, Plan, Record, Study, Survey, units};
use bytecost_store::Run;

use self::evidence::EvidenceTrials;
use self::state::{LogWriter, RunState};
use crate::progress::Display;

/// Interval at which a pause looks at the stop flag.
const PAUSE_STEP: Duration = Duration::from_millis(100);

/// A study with its plan, ready to be measured.
pub struct Campaign<'a> {
    /// The study with the limits of the command line.
    pub study: &'a Study,
    pub plan: Plan,
    /// TCP port of the receivers; a free one where there is none.
    pub port: Option<u16>,
    /// The link to the other host of a run on two hosts.
    pub peer: Option<PeerLink>,
    pub quiet: bool,
    pub stop: &'a AtomicBool,
}

/// The way in which measuring ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Precision, budget or the number of blocks was reached.
    Complete,
    Interrupted,
    /// The other host stopped responding.
    PeerLost,
}

impl Outcome {
    /// The reason of a run that ended early; none where it is complete.
    pub fn reason_ended_early(self) -> Option<String> {
        match self {
            Outcome::Interrupted => Some("interrupted".to_owned()),
            Outcome::PeerLost => Some("the other host was lost".to_owned()),
            Outcome::Complete => None,
        }
    }
}

impl<'a> Campaign<'a> {
    /// Measures until the policy ends the run, and then collects evidence. Every trial is stored as
    /// soon as it is over. Cells read and write `files`; `program` runs as the endpoints.
    pub fn carry_out(self, run: &mut Run, files: Files, program: Program) -> Result<Outcome> {
        let mut measurement = self.begin(run, files, program)?;
        match measurement.measure_blocks()? {
            Outcome::Complete => measurement.collect_evidence(),
            ended_early => Ok(ended_early),
        }
    }

    fn begin<'r>(self, run: &'r mut Run, files: Files, program: Program) -> Result<Measurement<'r>>
    where
        'a: 'r,
    {
        let mut state = RunState::default();
        for record in run.records()?.records {
            state.add(record);
        }
        let mut lab = Lab::new(settings(self.study, self.port, state.spent(), program))
            .with_files(files)
            .on(run.manifest().measurer().host.clone())
            .surveyed(&run.manifest().survey);
        if let Some(link) = self.peer {
            lab = lab.with_peer(link);
        }
        let budget = Duration::from_millis(self.study.budget_ms);
        let mut display = Display::new(&self.plan.cells, budget, self.quiet);
        if let Some(block) = state.last_block_end() {
            lab.resume(block);
            display.resume(block);
        }
        Ok(Measurement {
            study: self.study,
            plan: self.plan,
            stop: self.stop,
            clock: BudgetClock::resumed_at(state.spent()),
            round: CurrentRound::of_manifest(run.manifest()),
            run,
            lab,
            state,
            display,
        })
    }
}

/// Measures what reading hardware counters costs, if trials of the plan read any and the survey
/// found some. Takes a second or two.
pub fn counters_cost(
    study: &Study,
    plan: &Plan,
    host: &Host,
    survey: &Survey,
    stop: &AtomicBool,
) -> Result<Vec<CounterTrial>> {
    if !plan.cells.iter().any(reads_hardware) {
        return Ok(Vec::new());
    }
    let mut lab = Lab::new(settings(study, None, Duration::ZERO, Program::own()?))
        .on(host.clone())
        .surveyed(survey);
    Ok(lab.counters_cost(stop))
}

fn settings(study: &Study, port: Option<u16>, earlier: Duration, program: Program) -> Settings {
    Settings {
        program,
        warmup: Duration::from_millis(study.warmup_ms),
        window: Duration::from_millis(study.window_ms),
        reads_machine: true,
        check: ContentCheck::Quick,
        port,
        earlier,
    }
}

/// A clock of the budget: it counts earlier legs of the run, and stands still in pauses.
#[derive(Clone, Copy)]
struct BudgetClock {
    earlier_legs: Duration,
    began: Instant,
}

impl BudgetClock {
    fn resumed_at(earlier_legs: Duration) -> BudgetClock {
        BudgetClock {
            earlier_legs,
            began: Instant::now(),
        }
    }

    fn spent(&self) -> Duration {
        self.earlier_legs + self.began.elapsed()
    }

    fn leave_out(&mut self, pause: Duration) {
        self.began += pause;
    }
}

/// The round whose blocks are being measured.
#[derive(Clone, Copy)]
struct CurrentRound {
    /// From 0.
    number: u32,
    first_block: u32,
}

impl CurrentRound {
    fn of_manifest(manifest: &Manifest) -> CurrentRound {
        let first_blocks = &manifest.round_blocks;
        CurrentRound {
            number: first_blocks.len().saturating_sub(1) as u32,
            first_block: first_blocks.last().copied().unwrap_or(0),
        }
    }
}

/// A campaign under way: the lab makes records, the run stores them, the state sums them up.
struct Measurement<'a> {
    study: &'a Study,
    plan: Plan,
    stop: &'a AtomicBool,
    run: &'a mut Run,
    lab: Lab,
    state: RunState,
    display: Display,
    clock: BudgetClock,
    round: CurrentRound,
}

impl Measurement<'_> {
    /// Measures the blocks that the policy asks for, until it ends the run.
    fn measure_blocks(&mut self) -> Result<Outcome> {
        // Blocks of an earlier leg stay as they are.
        let leg = self.run.manifest().legs.last();
        let leg_first_block = leg.map_or(0, |leg| leg.first_block);
        let mut block = leg_first_block;
        while !self.stop.load(Ordering::Relaxed) {
            let cells_left = self.cells_left(block);
            let has_trials = cells_left.as_ref().is_some_and(|cells| !cells.is_empty());
            let manifest = self.run.manifest();
            let interim = has_trials
                .then(|| Interim::new(self.state.analysis_input(manifest, &self.plan.cells)));
            let widest = interim.as_ref().and_then(|interim| interim.widest.as_ref());
            let is_precise = widest.is_some_and(|w| w.half_width <= self.study.precision);
            let trial = self.display.trial_cost(self.plan.trial_ms);
            let progress = policy::Progress {
                block,
                leg_first_block,
                all_count_from: self.state.first_counting_block(),
                round: self.round.number,
                round_first_block: self.round.first_block,
                cells_left: cells_left.as_ref().map(Vec::len),
                has_begun: self.state.has_begun(block),
                cells: self.plan.cells.len(),
                is_precise,
                spent_ms: milliseconds(self.clock.spent()),
                trial_ms: milliseconds(trial),
            };
            let windows_may_grow = match policy::next(self.study, &progress) {
                Next::Stop(_) => return Ok(Outcome::Complete),
                Next::NextBlock => {
                    block += 1;
                    continue;
                }
                Next::Round => {
                    if !self.begin_round(block)? {
                        return Ok(Outcome::Interrupted);
                    }
                    continue;
                }
                Next::Block { windows_may_grow } => windows_may_grow,
            };
            let cells = cells_left.unwrap_or_default();
            let spent = self.clock.spent();
            let least_left = self.least_blocks_left(block);
            self.display.note_over_budget(
                spent + trial * cells.len() as u32 * least_left,
                &format!(
                    "{} are needed at least",
                    units::count(self.study.blocks_least as usize, "block")
                ),
            );
            (self.display).block(block, cells.len(), widest, self.clock.spent());
            if let Some(interim) = &interim {
                self.display.estimates(block, interim.estimates.as_ref());
            }
            if let Some(ended_early) = self.measure_block(block, cells, windows_may_grow)? {
                return Ok(ended_early);
            }
        }
        Ok(Outcome::Interrupted)
    }

    /// The cells of a block that are still to be measured, in their order; none if the block is
    /// beyond the plan.
    fn cells_left(&self, block: u32) -> Option<Vec<u32>> {
        let order = self.plan.orders.get(block as usize)?;
        let state = &self.state;
        let spent_ms = milliseconds(state.spent());
        let is_given_up = |cell: u32| {
            !state.has_sample(cell)
                && policy::is_given_up(self.study, state.failures(cell), spent_ms)
        };
        let is_left = |cell: &u32| !state.has_finished(block, *cell) && !is_given_up(*cell);
        Some(order.iter().copied().filter(is_left).collect())
    }

    /// The number of blocks, with this one, that the study needs at least before it may end.
    fn least_blocks_left(&self, block: u32) -> u32 {
        let counting = block.saturating_sub(self.state.first_counting_block());
        self.study.blocks_least.saturating_sub(counting).max(1)
    }

    /// Measures cells of one block. Returns the outcome of the run if it ended within the block.
    fn measure_block(
        &mut self,
        block: u32,
        cells: Vec<u32>,
        windows_may_grow: bool,
    ) -> Result<Option<Outcome>> {
        let Measurement {
            study,
            plan,
            stop,
            lab,
            state,
            display,
            clock,
            ..
        } = self;
        let trials = (cells.into_iter()).map(|cell| (cell, plan.cells[cell as usize].clone()));
        let attempt = (block, state.attempt(block));
        let mut log = LogWriter::new(self.run, stop);
        lab.keep_windows(!windows_may_grow);
        let block_end = lab.block(attempt, trials, stop, &mut |event| match event {
            Event::TrialStarted { trial } => display.trial(trial, clock.spent()),
            Event::TrialEnded(record) => store(*record, &mut log, display, state),
        });
        if let Some(ended) = &block_end {
            let repeated_because = policy::repeat(study, ended, state.spent_on_repeats());
            let record = Record::Block(Block {
                repeated_because,
                ..ended.clone()
            });
            store(record, &mut log, display, state);
        }
        log.finish()?;
        Ok(match block_end {
            Some(_) => None,
            None if lab.lost_peer().is_some() => Some(Outcome::PeerLost),
            None => Some(Outcome::Interrupted),
        })
    }

    /// Pauses, and then begins the next round with this block. Returns false if the pause was
    /// interrupted.
    fn begin_round(&mut self, block: u32) -> Result<bool> {
        let Some(rounds) = self.study.rounds else {
            return Ok(true);
        };
        let pause_began = Instant::now();
        if !self.pause(rounds) {
            return Ok(false);
        }
        self.run.begin_round(block)?;
        self.round = CurrentRound::of_manifest(self.run.manifest());
        self.clock.leave_out(pause_began.elapsed());
        Ok(true)
    }

    /// Waits before the next round, while no process of the run exists. Returns false if it was
    /// interrupted.
    fn pause(&mut self, rounds: PlannedRounds) -> bool {
        let (stop, display) = (self.stop, &mut self.display);
        let next_round = self.round.number + 1;
        let pause = Duration::from_millis(rounds.pause_ms);
        display.pause(next_round, rounds.count, pause);
        let until = Instant::now() + pause;
        self.lab.paused(|| {
            while !stop.load(Ordering::Relaxed) {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return true;
                }
                display.waits(next_round, rounds.count, left);
                thread::sleep(left.min(PAUSE_STEP));
            }
            false
        })
    }

    fn collect_evidence(&mut self) -> Result<Outcome> {
        let trials = EvidenceTrials {
            study: self.study,
            plan: &self.plan,
            state: &self.state,
            stop: self.stop,
        };
        let is_complete = trials.collect(self.run, &mut self.lab, &mut self.display)?;
        Ok(if is_complete {
            Outcome::Complete
        } else {
            Outcome::Interrupted
        })
    }
}

/// Appends a record to the log, shows it, and adds it to the state.
fn store(record: Record, log: &mut LogWriter<'_>, display: &mut Display, state: &mut RunState) {
    log.append(&record);
    display.ended(&record);
    state.add(record);
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
