//! The trials that count, by cell and block.

use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap};

use bytecost_spec::axis::{AXES, CellFacts};
use bytecost_spec::manifest::RoundNoise;
use bytecost_spec::sample::{Repeat, last_short_windows};
use bytecost_spec::survey::{MoverFacts, Route};
use bytecost_spec::{
    Axis, Cell, CircumstanceKind, Counter, Failure, Manifest, Metric, PeerSide, Study, Survey,
    Transport, Unit, Value,
};
use bytecost_stats::{BlockTrials, Moderation, mean, median};
use itertools::Itertools as _;

use crate::confidence::ERROR_RATE;
use crate::corrections::{TestFamily, corrected};
use crate::input::Input;
use crate::outside_time::{IdleRates, OutsideTime};
use crate::result::StoodStill;
use crate::value::Trial;
use crate::window_books::WindowBooks;

/// The name of the mover that moves nothing, for surveys that do not list it.
const NULL: &str = "null";

/// The priors of the variance of log ratios, by compared metric.
pub(crate) type Moderations = BTreeMap<Metric, Moderation>;

/// The cells of the plan with their trials that count. A twin is no cell here: its trials are those of its
/// baseline's second measurement.
#[derive(Debug)]
pub(crate) struct Trials<'a> {
    pub(crate) cells: Vec<CellTrials<'a>>,
    pub(crate) unit: Unit,
    pub(crate) study: &'a Study,
    /// By block, the attempt that counts; only blocks whose end is recorded.
    pub(crate) counting_attempts: BTreeMap<u32, u32>,
    pub(crate) manifest: &'a Manifest,
    /// Computed from the study's comparisons at the first use.
    pub(crate) moderations: OnceCell<Moderations>,
    /// The deviation of ratios between rounds, computed at the first use.
    pub(crate) round_noise: OnceCell<RoundNoise>,
}

#[derive(Debug)]
pub(crate) struct CellTrials<'a> {
    pub(crate) id: String,
    pub(crate) cell: &'a Cell,
    pub(crate) manifest: &'a Manifest,
    /// True if the mover moves nothing, so that it is never compared and never drawn.
    pub(crate) idle: bool,
    pub(crate) route: Route,
    /// The facts that decide which axes apply to it.
    pub(crate) facts: CellFacts<'a>,
    /// The sample that counts, by block.
    pub(crate) by_block: BTreeMap<u32, Trial<'a>>,
    /// The same of its twin, where it has one: the second measurement of a baseline in a block.
    pub(crate) twin: BTreeMap<u32, Trial<'a>>,
    pub(crate) failures: Vec<&'a Failure>,
    pub(crate) outside: OutsideTime,
}

impl<'a> Trials<'a> {
    /// The trials of a run that count. Of the attempts at a block these are those of the one that was not
    /// measured again; without a recorded end of the block, the last attempt at each cell. Trials of a
    /// cell before its windows last became longer, and samples of unknown cells, do not count.
    pub(crate) fn of_run(input: &Input<'a>) -> Trials<'a> {
        let final_attempts = input.blocks.iter().filter(|b| b.repeated_because.is_none());
        Trials::of_attempts(
            input,
            final_attempts.map(|b| (b.block, b.attempt)).collect(),
        )
    }

    /// The trials with the first attempts instead at blocks that were measured again since other processes
    /// used CPU time; none if no block was.
    pub(crate) fn first_attempts(input: &Input<'a>) -> Option<Trials<'a>> {
        let mut attempts = BTreeMap::new();
        for block in input.blocks {
            let anew = block.repeated_because.as_ref();
            if anew.is_some_and(|why| !matches!(why, Repeat::OtherProcesses { .. })) {
                // This attempt was stopped, so that it does not count as the first.
                attempts.remove(&block.block);
            } else {
                attempts.entry(block.block).or_insert(block.attempt);
            }
        }
        let differs = input.blocks.iter().any(|b| {
            matches!(b.repeated_because, Some(Repeat::OtherProcesses { .. }))
                && attempts.get(&b.block) == Some(&b.attempt)
        });
        differs.then(|| Trials::of_attempts(input, attempts))
    }

    fn of_attempts(input: &Input<'a>, attempts: BTreeMap<u32, u32>) -> Trials<'a> {
        let survey = &input.manifest.survey;
        let planned = input.cells.iter().filter(|cell| !cell.twin);
        let cells = planned.map(|cell| CellTrials::empty(cell, input.manifest));
        let mut trials = Trials {
            cells: cells.collect(),
            unit: Unit::default(),
            study: &input.manifest.study,
            counting_attempts: attempts,
            manifest: input.manifest,
            moderations: OnceCell::new(),
            round_noise: OnceCell::new(),
        };
        trials.unit = Unit::of_all(trials.moving().map(|c| c.facts.unit()));
        // By id, the index of the cell; true if the id is that of its twin.
        let mut indices: HashMap<String, (usize, bool)> = HashMap::new();
        for (index, c) in trials.cells.iter().enumerate() {
            indices.insert(c.id.clone(), (index, false));
            indices.insert(c.cell.other_twin().id(), (index, true));
        }
        let short_windows = last_short_windows(input.blocks);
        for sample in input.samples {
            let Some(&(index, is_twin)) = indices.get(&sample.cell) else {
                continue;
            };
            let (block, attempt) = (sample.trial.block, sample.trial.attempt);
            let last_short = short_windows.get(sample.cell.as_str());
            if last_short.is_some_and(|last| sample.trial.attempt_at_block() <= *last) {
                continue;
            }
            let counting = trials.counting_attempts.get(&block);
            if counting.is_some_and(|counting| attempt != *counting) {
                continue;
            }
            let slot = &mut trials.cells[index];
            let by_block = if is_twin {
                &mut slot.twin
            } else {
                &mut slot.by_block
            };
            let earlier = by_block.get(&block).map(|t| t.sample.trial.attempt);
            if earlier.is_none_or(|earlier| earlier <= attempt) {
                let trial = Trial::new(sample, slot.cell, survey.mover(&slot.cell.mover));
                by_block.insert(block, trial);
            }
        }
        for failure in input.failures {
            if let Some(&(index, _)) = indices.get(&failure.cell) {
                trials.cells[index].failures.push(failure);
            }
        }
        trials.read_outside_time(input);
        trials
    }

    /// Reads the CPU time outside of the sides of each cell, and adds interrupts on idle CPUs to the cost of
    /// all cells where they are expected or shown to matter. Elsewhere nothing is added: the coarse reading
    /// of such a share would widen every interval.
    fn read_outside_time(&mut self, input: &Input<'a>) {
        let idle = self
            .cells
            .iter()
            .filter(|c| c.idle)
            .flat_map(|c| c.window_books(None))
            .collect_vec();
        let accounts = input.evidence.iter().filter_map(|e| e.accounts.as_ref());
        let idle = IdleRates::new(&idle, accounts);
        let smallest_effect = self.study.smallest_effect.ln_1p();
        for cell in self.cells.iter_mut().filter(|c| !c.idle) {
            let there = input.peer_side(cell.cell);
            let counted = input
                .evidence
                .iter()
                .filter(|e| e.cell == cell.id)
                .filter_map(|e| e.accounts.as_ref())
                .collect_vec();
            let windows = cell.window_books(there);
            cell.outside = OutsideTime::new(&windows, &counted, idle, smallest_effect);
        }
        if self.expects_interrupts() || self.shows_interrupts() {
            self.charge_interrupts();
        }
    }

    /// Returns true where another CPU may receive packets than the one that sent them: they come from
    /// a card, or a discipline holds them back until a timer fires.
    fn expects_interrupts(&self) -> bool {
        let is_held_back = |t: &Trial<'_>| {
            let mut obstacles = t.sample.obstacles.iter();
            obstacles.any(|o| o.limits && o.kind == CircumstanceKind::Qdisc)
        };
        let mut cells = self.moving();
        cells.any(|c| c.cell.transport == Transport::Peer || c.trials().any(is_held_back))
    }

    /// Returns true where interrupts on idle CPUs are shown to matter in a cell.
    fn shows_interrupts(&self) -> bool {
        let each = self
            .moving()
            .filter_map(|c| c.outside.p_of_interrupts())
            .collect_vec();
        let corrected = corrected(TestFamily::IdleInterrupts, &each);
        corrected.into_iter().any(|p| p < ERROR_RATE)
    }

    fn charge_interrupts(&mut self) {
        for cell in self.cells.iter_mut().filter(|c| !c.idle) {
            cell.outside.is_charged = true;
            let Some(charged) = cell.outside.charged() else {
                continue;
            };
            for trial in cell.by_block.values_mut().chain(cell.twin.values_mut()) {
                trial.charge_interrupts(charged.value);
            }
        }
    }

    pub(crate) fn by_id(&self, id: &str) -> Option<&CellTrials<'a>> {
        self.cells.iter().find(|c| c.id == id)
    }

    pub(crate) fn moving(&self) -> impl Iterator<Item = &CellTrials<'a>> + Clone {
        self.cells.iter().filter(|c| !c.idle)
    }

    /// Cells with another end and at least one trial that counts.
    pub(crate) fn measured(&self) -> impl Iterator<Item = &CellTrials<'a>> {
        self.moving().filter(|c| !c.by_block.is_empty())
    }

    /// The same without those that have a server: what moves bytes by a mover.
    pub(crate) fn moved(&self) -> impl Iterator<Item = &CellTrials<'a>> {
        self.measured().filter(|c| !c.cell.is_served())
    }
}

impl<'a> CellTrials<'a> {
    fn empty(cell: &'a Cell, manifest: &'a Manifest) -> CellTrials<'a> {
        let survey = &manifest.survey;
        let facts = survey.mover(&cell.mover);
        CellTrials {
            id: cell.id(),
            cell,
            manifest,
            idle: idle(survey, &cell.mover),
            route: facts.map_or(Route::Nowhere, |m| m.route),
            facts: CellFacts::new(cell, survey),
            by_block: BTreeMap::new(),
            twin: BTreeMap::new(),
            failures: Vec::new(),
            outside: OutsideTime::default(),
        }
    }

    /// Values that are constant at a cell, of the axes that vary and apply to it: the path of what is
    /// sent, the state of a file's pages, and values other than the default.
    pub(crate) fn place(
        &self,
        axis: Axis,
        along: Option<Axis>,
        varied: &[Axis],
    ) -> Vec<(Axis, Value)> {
        let (cell, facts) = (self.cell, &self.facts);
        let is_path = |a: Axis| a == Axis::Transport && facts.is_sent();
        let is_usual = |a: Axis| cell.value(a) == a.row().default;
        let differs = |a: Axis| {
            let is_named = !is_usual(a) || matches!(a, Axis::Size | Axis::Mover);
            varied.contains(&a) && facts.applies(a) && is_named
        };
        let is_of_file = |a: Axis| a == Axis::Cache && facts.applies(a) && !is_usual(a);
        let is_size = |a: Axis| match a {
            Axis::Size => facts.is_sent() || facts.is_of_files(),
            Axis::Connections => facts.is_served(),
            _ => false,
        };
        let axes = AXES.iter().map(|row| row.axis).filter(|a| {
            let is_held = *a != axis && Some(*a) != along;
            is_held && (is_path(*a) || is_of_file(*a) || differs(*a) || is_size(*a))
        });
        axes.map(|a| (a, cell.value(a))).collect()
    }

    /// The books of the windows that have them, those of a twin after the cell's own.
    pub(crate) fn window_books(&self, there: Option<PeerSide>) -> Vec<WindowBooks> {
        let trials = self.trials().chain(self.twin.values());
        trials
            .filter_map(|t| WindowBooks::new(t.sample, there))
            .collect()
    }

    /// Returns true if the kernel reports the completion of buffers, or that is not known.
    pub(crate) fn completes(&self) -> bool {
        self.facts.applies(Axis::Reaping)
    }

    /// Threads that its flows keep running on one machine: two of a flow, over wire one responder
    /// for all flows, and one side's where the other plays on another host.
    pub(crate) fn threads_of_both_sides(&self) -> usize {
        let flows = self.cell.threads as usize;
        match self.cell.transport {
            Transport::Peer => flows,
            over if over.has_receiver() => 2 * flows,
            _ => flows + 1,
        }
    }

    /// The trials of a block: its own, and that of its twin.
    pub(crate) fn both(&self, block: u32) -> impl Iterator<Item = &Trial<'a>> {
        let both = [&self.by_block, &self.twin].into_iter();
        both.filter_map(move |trials| trials.get(&block))
    }

    /// The values of a metric in a block: of the cell's own trial, and of its twin's.
    pub(crate) fn known(&self, block: u32, metric: Metric) -> Vec<f64> {
        self.both(block).filter_map(|t| t.value(metric)).collect()
    }

    /// The distributions of latencies in a block: of its own trial, and of its twin's.
    pub(crate) fn spread(&self, block: u32) -> BlockTrials<'_> {
        self.both(block).filter_map(Trial::distribution).collect()
    }

    /// The median over the trials that have a number.
    pub(crate) fn typical(&self, of: impl Fn(&Trial<'a>) -> Option<f64>) -> Option<f64> {
        median(&self.trials().filter_map(of).collect::<Vec<f64>>())
    }

    pub(crate) fn usual(&self, metric: Metric) -> Option<f64> {
        self.typical(|t| t.value(metric))
    }

    pub(crate) fn sum(&self, of: impl Fn(&Trial<'a>) -> Option<f64>) -> f64 {
        self.trials().filter_map(of).sum()
    }

    /// The trials that count, in the order of blocks; those of a twin are not among them.
    pub(crate) fn trials(&self) -> impl Iterator<Item = &Trial<'a>> {
        self.by_block.values()
    }

    /// The windows in which its flow stood still; none where there is none of known length.
    pub(crate) fn stood_still(&self) -> Option<StoodStill> {
        let still = self
            .failures
            .iter()
            .filter_map(|f| f.stood_still_ns)
            .map(|ns| ns as f64)
            .collect_vec();
        let moved = self
            .by_block
            .values()
            .chain(self.twin.values())
            .filter_map(|trial| trial.sent(Counter::ElapsedNs));
        let still_ns: f64 = still.iter().sum();
        (!still.is_empty()).then(|| StoodStill {
            windows: still.len(),
            ms: still_ns / 1e6,
            share: still_ns / (still_ns + moved.sum::<f64>()),
        })
    }
}

/// The value of a block: the mean of its trials on a log scale, or of the values where one is zero.
pub(crate) fn block_value(values: &[f64]) -> Option<f64> {
    match values {
        [one] => Some(*one),
        all if all.iter().all(|v| *v > 0.0) => {
            let logs: Vec<f64> = all.iter().map(|v| v.ln()).collect();
            mean(&logs).map(f64::exp)
        }
        all => mean(all),
    }
}

pub(crate) fn idle(survey: &Survey, mover: &str) -> bool {
    survey
        .mover(mover)
        .map_or(mover == NULL, MoverFacts::moves_nothing)
}
