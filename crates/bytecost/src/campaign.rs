//! The measuring part of a run: block after block until the intervals are narrow enough or the
//! budget is spent.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use bytecost_analysis::{Progress, widest_interval};
use bytecost_evidence::{Copies, TimeSampler};
use bytecost_lab::exchange;
use bytecost_lab::files::Files;
use bytecost_lab::meters::reads_hardware;
use bytecost_lab::protocol::Check;
use bytecost_lab::trial::Settings;
use bytecost_lab::{Event, Lab, Watch};
use bytecost_meter::MachineMeter;
use bytecost_plan::Plan;
use bytecost_spec::evidence::{Means, UNASKED_SHARE};
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
    let events = counts.then(exchange::events).transpose()?;
    Ok(Watch::counting(copies, events, COUNTING_WINDOW))
}

/// Why a means of evidence cannot be had here; none where it can.
pub fn refused(means: Means, host: &Host) -> Option<String> {
    let tried = match means {
        Means::Time => TimeSampler::check(Path::new("/"), &cpus(host)),
        Means::Copies => Copies::open(Path::new("/")).map(|_| ()),
        Means::Counts => exchange::events().map(|_| ()),
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
            "the kernel cannot be asked to count (root, or CAP_BPF and CAP_PERFMON, is needed): {why}"
        ),
    })
}

/// How long a trial is in which the sender looks at its footprint: some rounds of the last level.
const FOOTPRINT_WINDOW: Duration = Duration::from_millis(800);

/// How the trials of a study are made.
fn settings(study: &Study, port: Option<u16>, earlier: Duration) -> Result<Settings> {
    Ok(Settings {
        program: std::env::current_exe()?,
        warmup: Duration::from_millis(study.warmup_ms),
        window: Duration::from_millis(study.window_ms),
        check: Check::Quick,
        port,
        neighbour_bound: study.neighbour_bound,
        repeats_most: study.repeats_most,
        repeats_share: REPEATS_SHARE,
        earlier,
    })
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
    let settings = settings(study, None, Duration::ZERO)?;
    let lab = Lab::new(settings, MachineMeter::open(Path::new("/")));
    Ok(lab.on(host.clone()).surveyed(survey).counters_cost(stop))
}

/// The CPUs of a host that are online.
pub fn cpus(host: &Host) -> Vec<u32> {
    host.cpus.iter().map(|c| c.cpu).collect()
}

/// Trials that may be repeated, as a share of all.
const REPEATS_SHARE: f64 = 0.1;

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
    /// Cells that a block has a final record of.
    done: HashSet<(u32, u32)>,
    /// Attempts that a block has made of a cell.
    attempts: HashMap<(u32, u32), u32>,
    failures: HashMap<u32, u32>,
    measured: HashSet<u32>,
    /// Cells with evidence, by its round.
    watched: HashSet<(u32, u32)>,
    spent: Duration,
}

impl SoFar {
    fn take(&mut self, record: Record) {
        let trial = record.trial();
        if !matches!(record, Record::Evidence(_)) {
            let attempts = self.attempts.entry((trial.block, trial.cell)).or_default();
            *attempts = (*attempts).max(trial.attempt + 1);
        }
        match record {
            Record::Sample(sample) => {
                let end = Duration::from_millis(sample.started_ms + sample.trial_ms);
                self.spent = self.spent.max(end);
                self.measured.insert(trial.cell);
                if sample.repeated_because.is_none() {
                    self.done.insert((trial.block, trial.cell));
                }
                self.samples.push(sample);
            }
            Record::Evidence(found) => {
                self.watched.insert((found.trial.block, found.trial.cell));
            }
            Record::Failure(failure) => {
                self.spent = self.spent.max(Duration::from_millis(failure.started_ms));
                self.done.insert((trial.block, trial.cell));
                *self.failures.entry(trial.cell).or_default() += 1;
            }
        }
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
    /// `files` are those that the cells read and write.
    pub fn carry_out(&self, run: &mut Run, files: Files) -> Result<How> {
        let mut so_far = SoFar::default();
        for record in run.records()?.records {
            so_far.take(record);
        }
        let budget = Duration::from_millis(self.study.budget_ms);
        let earlier = so_far.spent;
        let began = Instant::now();
        let mut lab = Lab::new(
            settings(self.study, self.port, earlier)?,
            MachineMeter::open(Path::new("/")),
        )
        .with_files(files)
        .on(run.manifest().host.clone())
        .surveyed(&run.manifest().survey);
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
        for block in 0..self.study.blocks_most {
            let order = self.order(block, so_far);
            if order.is_empty() {
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
                .map(|i| {
                    let first = so_far.attempts.get(&(block, i)).copied().unwrap_or(0);
                    (i, first, self.plan.cells[i as usize].clone())
                })
                .collect();
            let finished = lab.block(block, cells, self.stop, &mut |event| match event {
                Event::TrialStarted { trial } => display.trial(trial, spent(began)),
                Event::TrialEnded(record) => {
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
                Event::BlockEnded { .. } => {}
            });
            failed?;
            if !finished {
                return Ok(How::Interrupted);
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
            let watch = Watch::of_time(&cpus(&manifest.host), EVIDENCE_WINDOW)?;
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
            if so_far.measured.contains(&i) && !is_seen && watch.is_for(cell) {
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
