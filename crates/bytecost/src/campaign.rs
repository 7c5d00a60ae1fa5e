//! The measuring part of a run: block after block until the intervals are narrow enough or the
//! budget is spent.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use bytecost_analysis::{Progress, widest_interval};
use bytecost_evidence::{Copies, TimeSampler};
use bytecost_lab::files::Files;
use bytecost_lab::loopback_exchange;
use bytecost_lab::meters::reads_hardware;
use bytecost_lab::program::Program;
use bytecost_lab::protocol::ContentCheck;
use bytecost_lab::trial::Settings;
use bytecost_lab::{Event, Lab, Watch};
use bytecost_meter::MachineMeter;
use bytecost_plan::Plan;
use bytecost_spec::evidence::{Means, UNASKED_SHARE};
use bytecost_spec::sample::Block;
use bytecost_spec::survey::CounterTrial;
use bytecost_spec::{Cell, Host, Record, Sample, Study, Survey};
use bytecost_store::{Run, StoreError};

use crate::progress::Display;

/// How long a trial for evidence looks: some 2,000 looks at each CPU.
pub const EVIDENCE_WINDOW: Duration = Duration::from_millis(400);
/// How long one counts, which needs no more than that everything has happened often.
const COUNTING_WINDOW: Duration = Duration::from_millis(50);

/// Who counts these.
///
/// # Errors
/// Why they cannot be counted here, and what to do about it.
fn counting(copies: bool, counts: bool) -> Result<Watch> {
    let root = Path::new("/");
    let copies = copies.then(|| Copies::open(root)).transpose()?;
    let events = counts.then(loopback_exchange::events).transpose()?;
    Ok(Watch::counting(copies, events, COUNTING_WINDOW))
}

/// Why a means of evidence cannot be had here; none where it can.
pub fn refused(means: Means, host: &Host) -> Option<String> {
    let tried = match means {
        Means::Time => TimeSampler::check(Path::new("/"), &cpus(host)),
        Means::Copies => Copies::open(Path::new("/")).map(|_| ()),
        Means::Counts => loopback_exchange::events().map(|_| ()),
        Means::Footprint => {
            return host.caches.is_empty().then(|| {
                "the kernel reports no caches here (/sys/devices/system/cpu/*/cache)".to_owned()
            });
        }
    };
    let why = tried.err()?;
    Some(match means {
        Means::Time => why.to_string(),
        _ => format!(
            "the kernel does not allow counting (it needs root, or CAP_BPF and CAP_PERFMON): {why}"
        ),
    })
}

/// How long a trial is in which the sender looks at its footprint: some rounds of the last level.
const FOOTPRINT_WINDOW: Duration = Duration::from_millis(800);

/// How the trials of a study are made.
fn settings(study: &Study, port: Option<u16>, earlier: Duration, program: Program) -> Settings {
    Settings {
        program,
        warmup: Duration::from_millis(study.warmup_ms),
        window: Duration::from_millis(study.window_ms),
        check: ContentCheck::Quick,
        port,
        foreign_cpus: study.foreign_cpus,
        repeats_most: study.repeats_most,
        repeats_for: Duration::from_millis(study.budget_ms).mul_f64(REPEATS_SHARE),
        earlier,
    }
}

/// What reading hardware counters costs, where trials of the plan read any and the survey found
/// some: a second or two.
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
    let settings = settings(study, None, Duration::ZERO, Program::own()?);
    let lab = Lab::new(settings, MachineMeter::open(Path::new("/")));
    Ok(lab.on(host.clone()).surveyed(survey).counters_cost(stop))
}

/// The CPUs of a host that are online.
pub fn cpus(host: &Host) -> Vec<u32> {
    host.cpus.iter().map(|c| c.cpu).collect()
}

/// Share of the budget that may go into blocks that are measured again since others used the CPUs.
const REPEATS_SHARE: f64 = 0.1;

/// How often at most all blocks are measured again since a window was too short.
const MOST_RESTARTS: u32 = 3;

/// A cell that failed so often, and never gave a sample, is not tried again.
const MOST_FAILURES: u32 = 3;

/// A study under way.
pub struct Campaign<'a> {
    /// The study, with the limits of the command line.
    pub study: &'a Study,
    /// Its plan.
    pub plan: &'a Plan,
    /// The receivers' port.
    pub port: Option<u16>,
    /// Show no progress.
    pub quiet: bool,
    /// Set when the run is to end.
    pub stop: &'a AtomicBool,
}

/// How the measuring ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Every interval is as narrow as was asked.
    Precise,
    /// The budget is spent.
    BudgetSpent,
    /// All blocks were measured.
    AllBlocks,
    /// By a signal.
    Interrupted,
}

impl How {
    /// Why the run ended before its time, where it did.
    pub fn early(self) -> Option<String> {
        (self == How::Interrupted).then(|| "interrupted".to_owned())
    }
}

/// What was measured so far.
#[derive(Default)]
struct SoFar {
    samples: Vec<Sample>,
    /// Cells that a block has a record of, in the attempt that counts.
    done: HashSet<(u32, u32)>,
    /// Which attempt at a block is under way or was the last.
    attempts: BTreeMap<u32, u32>,
    /// Blocks whose last attempt is over and stands.
    whole: BTreeSet<u32>,
    /// Times that all blocks were begun again.
    restarts: u32,
    last_block: Option<Block>,
    failures: HashMap<u32, u32>,
    measured: HashSet<u32>,
    /// Cells with evidence, by its round.
    watched: HashSet<(u32, u32)>,
    spent: Duration,
}

impl SoFar {
    fn take(&mut self, record: Record) {
        if let (Some(trial), false) = (record.trial(), matches!(record, Record::Evidence(_))) {
            let attempt = self.attempts.entry(trial.block).or_default();
            *attempt = (*attempt).max(trial.attempt);
            self.done.insert((trial.block, trial.cell));
        }
        match record {
            Record::Sample(sample) => {
                let end = Duration::from_millis(sample.started_ms + sample.trial_ms);
                self.spent = self.spent.max(end);
                self.measured.insert(sample.trial.cell);
                if sample.repeated_because.is_some() {
                    // As runs of old repeat a trial.
                    self.done.remove(&(sample.trial.block, sample.trial.cell));
                    *self.attempts.entry(sample.trial.block).or_default() += 1;
                }
                self.samples.push(sample);
            }
            Record::Evidence(found) => {
                self.watched.insert((found.trial.block, found.trial.cell));
            }
            Record::Failure(failure) => {
                self.spent = self.spent.max(Duration::from_millis(failure.started_ms));
                *self.failures.entry(failure.trial.cell).or_default() += 1;
            }
            Record::Block(block) => {
                self.spent = self.spent.max(Duration::from_millis(block.ended_ms));
                match block.repeated_because {
                    Some(_) => self.again(block.block, block.attempt),
                    None => {
                        self.whole.insert(block.block);
                    }
                }
                self.last_block = Some(block);
            }
        }
    }

    /// A block is measured again as a whole.
    fn again(&mut self, block: u32, attempt: u32) {
        self.done.retain(|(of, _)| *of != block);
        self.whole.remove(&block);
        self.attempts.insert(block, attempt + 1);
    }

    fn attempt(&self, block: u32) -> u32 {
        self.attempts.get(&block).copied().unwrap_or(0)
    }

    fn given_up(&self, cell: u32) -> bool {
        !self.measured.contains(&cell)
            && self
                .failures
                .get(&cell)
                .is_some_and(|n| *n >= MOST_FAILURES)
    }
}

impl Campaign<'_> {
    /// Measures until there is reason to end. Every trial is stored as soon as it is over.
    /// `files` are those that the cells read and write, `program` plays the endpoints.
    pub fn carry_out(&self, run: &mut Run, files: Files, program: Program) -> Result<How> {
        let mut so_far = SoFar::default();
        for record in run.records()?.records {
            so_far.take(record);
        }
        let budget = Duration::from_millis(self.study.budget_ms);
        let earlier = so_far.spent;
        let began = Instant::now();
        let mut lab = Lab::new(
            settings(self.study, self.port, earlier, program),
            MachineMeter::open(Path::new("/")),
        )
        .with_files(files)
        .on(run.manifest().measurer().host.clone())
        .surveyed(&run.manifest().survey);
        if let Some(block) = &so_far.last_block {
            lab.resume(block);
        }
        let mut display = Display::new(self.plan, budget, self.quiet);
        let how = self.measure(run, &mut lab, &mut so_far, &mut display, began)?;
        if how == How::Interrupted {
            return Ok(how);
        }
        let whole = self.watch(run, &mut lab, &so_far, &mut display)?;
        Ok(if whole { how } else { How::Interrupted })
    }

    /// Block after block.
    fn measure(
        &self,
        run: &mut Run,
        lab: &mut Lab,
        so_far: &mut SoFar,
        display: &mut Display<'_>,
        began: Instant,
    ) -> Result<How> {
        let manifest = run.manifest().clone();
        let budget = Duration::from_millis(self.study.budget_ms);
        let earlier = so_far.spent;
        let spent = |began: Instant| earlier + began.elapsed();
        // Blocks of an earlier leg stay as they are.
        let first = manifest.legs.last().map_or(0, |leg| leg.first_block);
        let mut block = first;
        while block < self.study.blocks_most {
            let order = self.order(block, so_far);
            if order.is_empty() {
                block += 1;
                continue;
            }
            let widest = widest_interval(&manifest, &self.plan.cells, &so_far.samples);
            if block >= self.study.blocks_least
                && let Some(how) = self.enough(widest.as_ref())
            {
                return Ok(how);
            }
            // Fewer blocks than the least say nothing, so the first ones are measured in any case.
            let cost = display.trial_cost(self.plan.trial_ms) * order.len() as u32;
            if block >= self.study.blocks_least && spent(began) + cost > budget {
                return Ok(How::BudgetSpent);
            }
            display.block(block, widest.as_ref(), spent(began));
            let mut failed: Result<(), StoreError> = Ok(());
            let cells: Vec<_> = order
                .into_iter()
                .map(|i| (i, self.plan.cells[i as usize].clone()))
                .collect();
            let attempt = (block, so_far.attempt(block));
            let longer = |so_far: &SoFar| so_far.last_block.as_ref().map_or(0, Block::times);
            let before = longer(so_far);
            let ended = lab.block(attempt, cells, self.stop, &mut |event| match event {
                Event::TrialStarted { trial } => display.trial(trial, spent(began)),
                Event::TrialEnded(record) | Event::BlockEnded(record) => {
                    if failed.is_ok() {
                        failed = run.append(&record);
                    }
                    if failed.is_err() {
                        // Nothing more can be kept, so nothing more is measured.
                        self.stop.store(true, Ordering::Relaxed);
                    }
                    display.ended(&record);
                    so_far.take(*record);
                }
            });
            failed?;
            let Some(ended) = ended else {
                return Ok(How::Interrupted);
            };
            if longer(so_far) > before && so_far.restarts < MOST_RESTARTS {
                begin_again(run, so_far, first, &ended)?;
                block = first;
            }
            run.sync()?;
        }
        Ok(How::AllBlocks)
    }

    /// Gathers the evidence that there is to be, once in each cell that was measured: what takes
    /// little first. False when it was interrupted.
    fn watch(
        &self,
        run: &mut Run,
        lab: &mut Lab,
        so_far: &SoFar,
        display: &mut Display<'_>,
    ) -> Result<bool> {
        let manifest = run.manifest();
        let asked = |means: Means| {
            let mut all = manifest.evidence.iter();
            all.find(|e| e.means == means && e.refused.is_none())
        };
        let [copies, counts] = [Means::Copies, Means::Counts].map(asked);
        let counted = [copies, counts].into_iter().flatten();
        // One of them that was asked for has them both go through all cells.
        let unasked = counted.clone().all(|e| e.unasked);
        let share = Duration::from_millis(self.study.budget_ms).mul_f64(UNASKED_SHARE);
        let mut watches: Vec<(Watch, Option<Duration>)> = Vec::new();
        if counted.count() > 0 {
            let watch = counting(copies.is_some(), counts.is_some())?;
            watches.push((watch, unasked.then_some(share)));
        }
        if asked(Means::Time).is_some() {
            let watch = Watch::of_time(&cpus(manifest.measurer().host), EVIDENCE_WINDOW)?;
            watches.push((watch, None));
        }
        if asked(Means::Footprint).is_some() {
            watches.push((Watch::of_footprint(FOOTPRINT_WINDOW), None));
        }
        for (watch, most) in watches {
            if !self.watch_by(watch, most, run, lab, so_far, display)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// One trial of each cell that has none of that round yet.
    fn watch_by(
        &self,
        mut watch: Watch,
        most: Option<Duration>,
        run: &mut Run,
        lab: &mut Lab,
        so_far: &SoFar,
        display: &mut Display<'_>,
    ) -> Result<bool> {
        let mut left: Vec<(u32, Cell)> = Vec::new();
        for (i, cell) in self.plan.cells.iter().enumerate() {
            let i = i as u32;
            let is_seen = so_far.watched.contains(&(watch.round(), i));
            if so_far.measured.contains(&i) && !cell.twin && !is_seen && watch.is_for(cell) {
                left.push((i, cell.clone()));
            }
        }
        if left.is_empty() {
            return Ok(true);
        }
        display.evidence(left.len(), watch.window());
        let mut failed: Result<(), StoreError> = Ok(());
        let whole = lab.watched(&mut watch, left, most, self.stop, &mut |event| {
            if let Event::TrialEnded(record) = event {
                if failed.is_ok() {
                    failed = run.append(&record);
                }
                if failed.is_err() {
                    self.stop.store(true, Ordering::Relaxed);
                }
                display.ended(&record);
            }
        });
        failed?;
        run.sync()?;
        Ok(whole)
    }

    /// The cells of a block that are still to be measured, in their order.
    fn order(&self, block: u32, so_far: &SoFar) -> Vec<u32> {
        let order = self.plan.block(block).into_iter().map(|i| i as u32);
        order
            .filter(|i| !so_far.done.contains(&(block, *i)) && !so_far.given_up(*i))
            .collect()
    }

    /// Measuring stops when it is precise, never when it is significant.
    fn enough(&self, widest: Option<&Progress>) -> Option<How> {
        widest
            .filter(|w| w.half_width <= self.study.precision)
            .map(|_| How::Precise)
    }
}

/// A window was too short, and the cell's windows are longer from now on: blocks with the
/// short ones are measured again as a whole, and stay in the log.
fn begin_again(run: &mut Run, so_far: &mut SoFar, first: u32, ended: &Block) -> Result<()> {
    so_far.restarts += 1;
    for block in so_far.whole.split_off(&first) {
        let record = Record::Block(Block {
            block,
            attempt: so_far.attempt(block),
            elapsed_ns: 0,
            others_ns: 0,
            others: Vec::new(),
            kernel_threads_ns: 0,
            ..ended.clone()
        });
        run.append(&record)?;
        so_far.take(record);
    }
    Ok(())
}
