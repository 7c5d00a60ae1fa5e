//! Measuring: block after block until the intervals are narrow enough or the budget is spent.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use bytecost_analysis::{Input, Interim, pairs_to_count};
use bytecost_evidence::{Copies, TimeSampler};
use bytecost_lab::files::Files;
use bytecost_lab::loopback_exchange;
use bytecost_lab::meters::reads_hardware;
use bytecost_lab::peer::PeerLink;
use bytecost_lab::program::Program;
use bytecost_lab::protocol::ContentCheck;
use bytecost_lab::settings::Settings;
use bytecost_lab::{Event, Lab, Watch};
use bytecost_plan::policy::{self, Next};
use bytecost_spec::evidence::{COUNTED_TRIALS, Means, UNASKED_SHARE};
use bytecost_spec::sample::{Block, last_short_windows};
use bytecost_spec::study::PlannedRounds;
use bytecost_spec::survey::CounterTrial;
use bytecost_spec::{Cell, Host, Manifest, Plan, Record, Sample, Study, Survey, units};
use bytecost_store::{Run, StoreError};

use crate::progress::Display;

/// How long a trial for evidence looks: some 2,000 looks at each CPU.
pub const EVIDENCE_WINDOW: Duration = Duration::from_millis(400);
/// How long one counts, which needs no more than that everything has happened often.
const COUNTING_WINDOW: Duration = Duration::from_millis(50);

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
    let lab = Lab::new(settings);
    let mut lab = lab.on(host.clone()).surveyed(survey);
    Ok(lab.counters_cost(stop))
}

pub fn cpus(host: &Host) -> Vec<u32> {
    host.cpus.iter().map(|c| c.cpu).collect()
}

/// Share of the budget that may go into blocks that are measured again since others used the CPUs.
const REPEATS_SHARE: f64 = 0.1;

/// Share of the time for counting that goes into cells whose counts are compared; each of the
/// others is counted once in the rest, as far as that goes.
const COMPARED_SHARE: f64 = 0.8;

/// A cell that failed so often, and never gave a sample, is not tried again; after the budget's end
/// once is enough.
const MOST_FAILURES: u32 = 3;

pub struct Campaign<'a> {
    /// The study, with the limits of the command line.
    pub study: &'a Study,
    /// Its plan.
    pub plan: Plan,
    pub port: Option<u16>,
    /// The other host, where one side plays there.
    pub peer: Option<PeerLink>,
    pub quiet: bool,
    pub stop: &'a AtomicBool,
}

/// How the measuring ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// There was reason to end: precision, budget or the number of blocks.
    Whole,
    Interrupted,
    /// The other host answers no more.
    PeerLost,
}

impl How {
    /// Why the run ended before its time, where it did.
    pub fn early(self) -> Option<String> {
        match self {
            How::Interrupted => Some("interrupted".to_owned()),
            How::PeerLost => Some("the other host was lost".to_owned()),
            How::Whole => None,
        }
    }
}

/// How often a pause looks whether the run is to end.
const PAUSE_STEP: Duration = Duration::from_millis(100);

/// A round that is under way.
#[derive(Clone, Copy)]
struct Round {
    /// Its number, from 0.
    number: u32,
    first_block: u32,
}

impl Round {
    fn under_way(manifest: &Manifest) -> Round {
        let begun = &manifest.round_blocks;
        Round {
            number: begun.len().saturating_sub(1) as u32,
            first_block: begun.last().copied().unwrap_or(0),
        }
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

struct KeptLog<'r> {
    run: &'r mut Run,
    stop: &'r AtomicBool,
    failed: Result<(), StoreError>,
}

impl KeptLog<'_> {
    fn keep(&mut self, record: &Record) {
        if self.failed.is_ok() {
            self.failed = self.run.append(record);
        }
        if self.failed.is_err() {
            // Nothing more can be kept, so nothing more is measured.
            self.stop.store(true, Ordering::Relaxed);
        }
    }
}

#[derive(Default)]
struct SoFar {
    samples: Vec<Sample>,
    /// Cells that a block has a record of, in the attempt that counts.
    done: HashSet<(u32, u32)>,
    /// Which attempt at a block is under way or was the last.
    attempts: BTreeMap<u32, u32>,
    ends: Vec<Block>,
    failures: HashMap<u32, u32>,
    /// How many trials for evidence a cell has, by its round.
    watched: HashMap<(u32, u32), u32>,
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
                self.samples.push(sample);
            }
            Record::Evidence(found) => {
                let watched = (found.trial.block, found.trial.cell);
                *self.watched.entry(watched).or_default() += 1;
            }
            Record::Failure(failure) => {
                self.spent = self.spent.max(Duration::from_millis(failure.started_ms));
                *self.failures.entry(failure.trial.cell).or_default() += 1;
            }
            Record::Block(block) => {
                self.spent = self.spent.max(Duration::from_millis(block.ended_ms));
                if block.repeated_because.is_some() {
                    self.again(block.block, block.attempt);
                }
                self.ends.push(block);
            }
        }
    }

    /// A block is measured again as a whole.
    fn again(&mut self, block: u32, attempt: u32) {
        self.done.retain(|(of, _)| *of != block);
        self.attempts.insert(block, attempt + 1);
    }

    fn attempt(&self, block: u32) -> u32 {
        self.attempts.get(&block).copied().unwrap_or(0)
    }

    fn has_begun(&self, block: u32) -> bool {
        self.attempts.contains_key(&block)
    }

    /// The first block from which on all trials of all cells count.
    fn all_count_from(&self) -> u32 {
        let last_short = last_short_windows(&self.ends).into_values();
        last_short.map(|(block, _)| block + 1).max().unwrap_or(0)
    }

    fn given_up(&self, cell: u32, budget: Duration) -> bool {
        let most = if self.spent > budget {
            1
        } else {
            MOST_FAILURES
        };
        let failed = self.failures.get(&cell);
        failed.is_some_and(|n| *n >= most) && !self.has_measured(cell)
    }

    fn has_measured(&self, cell: u32) -> bool {
        self.samples.iter().any(|sample| sample.trial.cell == cell)
    }
}

impl Campaign<'_> {
    /// Measures until there is reason to end. Every trial is stored as soon as it is over.
    /// `files` are those that the cells read and write, `program` plays the endpoints.
    pub fn carry_out(mut self, run: &mut Run, files: Files, program: Program) -> Result<How> {
        let mut so_far = SoFar::default();
        for record in run.records()?.records {
            so_far.take(record);
        }
        let budget = Duration::from_millis(self.study.budget_ms);
        let earlier = so_far.spent;
        let began = Instant::now();
        let mut lab = Lab::new(settings(self.study, self.port, earlier, program))
            .with_files(files)
            .on(run.manifest().measurer().host.clone())
            .surveyed(&run.manifest().survey);
        if let Some(link) = self.peer.take() {
            lab = lab.with_peer(link);
        }
        let mut display = Display::new(&self.plan.cells, budget, self.quiet);
        if let Some(block) = so_far.ends.last() {
            lab.resume(block);
            display.resume(block);
        }
        let how = self.measure(run, &mut lab, &mut so_far, &mut display, began)?;
        if matches!(how, How::Interrupted | How::PeerLost) {
            return Ok(how);
        }
        let whole = self.watch(run, &mut lab, &so_far, &mut display)?;
        Ok(if whole { how } else { How::Interrupted })
    }

    fn measure(
        &self,
        run: &mut Run,
        lab: &mut Lab,
        so_far: &mut SoFar,
        display: &mut Display,
        mut began: Instant,
    ) -> Result<How> {
        let mut round = Round::under_way(run.manifest());
        let earlier = so_far.spent;
        let spent = |began: Instant| earlier + began.elapsed();
        // Blocks of an earlier leg stay as they are.
        let leg = run.manifest().legs.last();
        let first = leg.map_or(0, |leg| leg.first_block);
        let mut block = first;
        while !self.stop.load(Ordering::Relaxed) {
            let order = self.order(block, so_far);
            let cells_left = order.as_ref().map(Vec::len);
            // As of now, since it gets the rounds that begin.
            let manifest = run.manifest().clone();
            let interim = cells_left.filter(|left| *left > 0);
            let interim = interim.map(|_| Interim::new(self.input(&manifest, so_far)));
            let widest = interim.as_ref().and_then(Interim::widest_interval);
            let trial = display.trial_cost(self.plan.trial_ms);
            let all_count_from = so_far.all_count_from();
            let progress = policy::Progress {
                block,
                leg_first_block: first,
                all_count_from,
                round: round.number,
                round_first_block: round.first_block,
                cells_left,
                has_begun: so_far.has_begun(block),
                cells: self.plan.cells.len(),
                is_precise: (widest.as_ref()).is_some_and(|w| w.half_width <= self.study.precision),
                spent_ms: milliseconds(spent(began)),
                trial_ms: milliseconds(trial),
            };
            let windows_may_grow = match policy::next(self.study, &progress) {
                Next::Stop(_) => return Ok(How::Whole),
                Next::NextBlock => {
                    block += 1;
                    continue;
                }
                Next::Round => {
                    match self.begin_round(run, (&mut round, block), lab, display)? {
                        Some(paused) => began += paused,
                        None => return Ok(How::Interrupted),
                    }
                    continue;
                }
                Next::Block { windows_may_grow } => windows_may_grow,
            };
            let order = order.unwrap_or_default();
            let cost = trial * order.len() as u32;
            let all_counting = block.saturating_sub(all_count_from);
            let needed = self.study.blocks_least.saturating_sub(all_counting).max(1);
            let least = units::count(self.study.blocks_least as usize, "block");
            let why = format!("{least} are needed at least");
            display.expect(spent(began) + cost * needed, &why);
            display.block(block, order.len(), widest.as_ref(), spent(began));
            if let Some(interim) = &interim {
                display.estimates(block, || interim.estimates());
            }
            let mut log = self.log(run);
            let cell = |i: u32| (i, self.plan.cells[i as usize].clone());
            let cells = order.into_iter().map(cell);
            let attempt = (block, so_far.attempt(block));
            lab.keep_windows(!windows_may_grow);
            let ended = lab.block(attempt, cells, self.stop, &mut |event| match event {
                Event::TrialStarted { trial } => display.trial(trial, spent(began)),
                Event::TrialEnded(record) | Event::BlockEnded(record) => {
                    log.keep(&record);
                    display.ended(&record);
                    so_far.take(*record);
                }
            });
            log.failed?;
            if ended.is_none() {
                return Ok(lab.lost_peer().map_or(How::Interrupted, |_| How::PeerLost));
            }
            run.sync()?;
        }
        Ok(How::Interrupted)
    }

    /// Waits and begins another round with this block. Gives the time that it waited; none where that was
    /// interrupted.
    fn begin_round(
        &self,
        run: &mut Run,
        (round, block): (&mut Round, u32),
        lab: &mut Lab,
        display: &mut Display,
    ) -> Result<Option<Duration>> {
        let Some(rounds) = self.study.rounds else {
            return Ok(Some(Duration::ZERO));
        };
        let began = Instant::now();
        if !self.pause(round.number + 1, rounds, lab, display) {
            return Ok(None);
        }
        run.begin_round(block)?;
        *round = Round::under_way(run.manifest());
        Ok(Some(began.elapsed()))
    }

    /// Waits before this round, while nothing of the run is there; false where that was interrupted.
    fn pause(
        &self,
        round: u32,
        rounds: PlannedRounds,
        lab: &mut Lab,
        display: &mut Display,
    ) -> bool {
        let pause = Duration::from_millis(rounds.pause_ms);
        display.pause(round, rounds.count, pause);
        let until = Instant::now() + pause;
        lab.paused(|| {
            while !self.stop.load(Ordering::Relaxed) {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return true;
                }
                display.waits(round, rounds.count, left);
                thread::sleep(left.min(PAUSE_STEP));
            }
            false
        })
    }

    /// Gathers the evidence there is to be, what takes little first. False when it was interrupted.
    fn watch(
        &self,
        run: &mut Run,
        lab: &mut Lab,
        so_far: &SoFar,
        display: &mut Display,
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
        let mut watches: Vec<(Watch, Vec<u32>, Option<Duration>)> = Vec::new();
        if counted.count() > 0 {
            let open = |_| Copies::open(Path::new("/"));
            let copies = copies.map(open).transpose()?;
            let events = counts.map(|_| loopback_exchange::events()).transpose()?;
            let watch = Watch::counting(copies, events, COUNTING_WINDOW);
            let compared = self.compared(manifest, so_far, share, display);
            watches.push((watch, compared, unasked.then_some(share)));
        }
        if asked(Means::Time).is_some() {
            let watch = Watch::of_time(&cpus(manifest.measurer().host), EVIDENCE_WINDOW)?;
            watches.push((watch, Vec::new(), None));
        }
        if asked(Means::Footprint).is_some() {
            let watch = Watch::of_footprint(FOOTPRINT_WINDOW);
            watches.push((watch, Vec::new(), None));
        }
        for (watch, compared, most) in watches {
            let trials = self.trials_left(&watch, &compared, so_far);
            if !self.watch_by(watch, trials, most, run, lab, display)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The cells whose counts are to be compared: of the decided pairs as many as a part of the
    /// time pays for, those that differ most first.
    fn compared(
        &self,
        manifest: &Manifest,
        so_far: &SoFar,
        share: Duration,
        display: &Display,
    ) -> Vec<u32> {
        let timed = display.trial_cost(self.plan.trial_ms);
        let window = Duration::from_millis(self.study.window_ms);
        let cost = timed.saturating_sub(window) + COUNTING_WINDOW;
        let each = cost.as_secs_f64() * COUNTED_TRIALS as f64;
        let pays_for = (share.mul_f64(COMPARED_SHARE).as_secs_f64() / each) as usize;
        let ids: Vec<String> = self.plan.cells.iter().map(Cell::id).collect();
        let mut compared: Vec<u32> = Vec::new();
        for pair in pairs_to_count(self.input(manifest, so_far)) {
            let number = |id: &String| ids.iter().position(|i| i == id).map(|i| i as u32);
            let pair = pair.iter().filter_map(number);
            let new: Vec<u32> = pair.filter(|i| !compared.contains(i)).collect();
            if compared.len() + new.len() <= pays_for {
                compared.extend(new);
            }
        }
        compared
    }

    /// What a watch has still to see: cells that are compared several times, in rounds that begin
    /// with another one each, and then all others once.
    fn trials_left(
        &self,
        watch: &Watch,
        compared: &[u32],
        so_far: &SoFar,
    ) -> Vec<(u32, u32, Cell)> {
        let cell = |i: u32| &self.plan.cells[i as usize];
        let seen = |i: u32| so_far.watched.get(&(watch.round(), i)).copied();
        let is_wanted = |i: &u32| {
            let cell = cell(*i);
            so_far.has_measured(*i) && !cell.twin && watch.is_for(cell)
        };
        let mut order: Vec<u32> = compared.iter().copied().filter(is_wanted).collect();
        let mut left = Vec::new();
        for round in 0..COUNTED_TRIALS as u32 {
            let begun = order.iter().filter(|i| seen(**i).unwrap_or(0) <= round);
            left.extend(begun.map(|i| (round, *i, cell(*i).clone())));
            let step = order.len().min(1);
            order.rotate_left(step);
        }
        let others = (0..self.plan.cells.len() as u32).filter(is_wanted);
        let others = others.filter(|i| !compared.contains(i) && seen(*i).is_none());
        // Each mover once, then each a second time, since time may end.
        let mut of_mover: HashMap<&str, u32> = HashMap::new();
        let mut turns: Vec<(u32, u32)> = Vec::new();
        for i in others {
            let turn = of_mover.entry(&cell(i).mover).or_default();
            turns.push((*turn, i));
            *turn += 1;
        }
        turns.sort_unstable();
        left.extend(turns.into_iter().map(|(_, i)| (0, i, cell(i).clone())));
        left
    }

    fn watch_by(
        &self,
        mut watch: Watch,
        left: Vec<(u32, u32, Cell)>,
        most: Option<Duration>,
        run: &mut Run,
        lab: &mut Lab,
        display: &mut Display,
    ) -> Result<bool> {
        if left.is_empty() {
            return Ok(true);
        }
        display.evidence(left.len(), watch.window());
        let mut log = self.log(run);
        let whole = lab.watch(&mut watch, left, most, self.stop, &mut |event| {
            if let Event::TrialEnded(record) = event {
                log.keep(&record);
                display.ended(&record);
            }
        });
        log.failed?;
        run.sync()?;
        Ok(whole)
    }

    fn log<'r>(&'r self, run: &'r mut Run) -> KeptLog<'r> {
        KeptLog {
            run,
            stop: self.stop,
            failed: Ok(()),
        }
    }

    fn input<'a>(&'a self, manifest: &'a Manifest, so_far: &'a SoFar) -> Input<'a> {
        Input {
            blocks: &so_far.ends,
            ..Input::of(manifest, &self.plan.cells, &so_far.samples)
        }
    }

    /// The cells of a block still to be measured, in their order; none of a block beyond the plan.
    fn order(&self, block: u32, so_far: &SoFar) -> Option<Vec<u32>> {
        let planned = self.plan.orders.get(block as usize)?;
        let budget = Duration::from_millis(self.study.budget_ms);
        let is_left =
            |cell: &u32| !so_far.done.contains(&(block, *cell)) && !so_far.given_up(*cell, budget);
        Some(planned.iter().copied().filter(is_left).collect())
    }
}
