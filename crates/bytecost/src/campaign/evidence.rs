//! Trials for evidence: after the last block, without timing, each by a fresh pair of processes.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Result;
use bytecost_analysis::pairs_to_count;
use bytecost_lab::{Event, EvidenceTrial, Lab, Watch};
use bytecost_plan::{PlannedEvidence, evidence_left};
use bytecost_spec::evidence::{EvidenceAsked, Means, UNASKED_SHARE};
use bytecost_spec::{Manifest, Plan, Study};
use bytecost_store::Run;

use super::state::{LogWriter, RunState};
use crate::progress::Display;

/// Window of a trial whose CPU time is sampled: some 2,000 samples of each CPU.
const TIME_WINDOW: Duration = Duration::from_millis(400);
/// Window of a trial whose events are counted: long enough for many of them, as counts need no more time.
const COUNTING_WINDOW: Duration = Duration::from_millis(50);
/// Window of a trial in which the sender measures its footprint: long enough for some rounds of probes of
/// the last cache level.
const FOOTPRINT_WINDOW: Duration = Duration::from_millis(800);

/// The trials for evidence of a run whose blocks are measured.
pub struct EvidenceTrials<'a> {
    pub study: &'a Study,
    pub plan: &'a Plan,
    pub state: &'a RunState,
    pub stop: &'a AtomicBool,
}

/// One pass over cells with one instrument.
struct Pass {
    watch: Watch,
    /// Cells that are counted several times, since their counts are compared.
    compared: Vec<u32>,
    /// Maximum duration; none where the user asked for this evidence.
    limit: Option<Duration>,
}

impl EvidenceTrials<'_> {
    /// Collects all evidence of the manifest, the cheapest first. Returns false if it was interrupted.
    pub fn collect(&self, run: &mut Run, lab: &mut Lab, display: &mut Display) -> Result<bool> {
        for pass in self.passes(run.manifest(), display) {
            let Pass {
                mut watch,
                compared,
                limit,
            } = pass;
            let trials = self.trials_left(&watch, &compared);
            if trials.is_empty() {
                continue;
            }
            display.evidence(trials.len(), watch.window());
            let mut log = LogWriter::new(run, self.stop);
            let is_complete = lab.watch(&mut watch, trials, limit, self.stop, &mut |event| {
                if let Event::TrialEnded(record) = event {
                    log.append(&record);
                    display.ended(&record);
                }
            });
            log.finish()?;
            if !is_complete {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn passes(&self, manifest: &Manifest, display: &Display) -> Vec<Pass> {
        let available = |means: Means| {
            let is_wanted = |e: &&EvidenceAsked| e.means == means && e.refused.is_none();
            manifest.evidence.iter().find(is_wanted)
        };
        let mut passes = Vec::new();
        let (copies, counts) = (available(Means::Copies), available(Means::Counts));
        let counted: Vec<&EvidenceAsked> = copies.into_iter().chain(counts).collect();
        if !counted.is_empty() {
            let share = Duration::from_millis(self.study.budget_ms).mul_f64(UNASKED_SHARE);
            // If the user asked for one of them, both count in all cells.
            let is_limited = counted.iter().all(|e| e.unasked);
            let means: Vec<Means> = counted.iter().map(|e| e.means).collect();
            passes.push(Pass {
                watch: Watch::by(&means, COUNTING_WINDOW),
                compared: self.compared_cells(manifest, share, display),
                limit: is_limited.then_some(share),
            });
        }
        let mut add_unlimited = |watch| {
            passes.push(Pass {
                watch,
                compared: Vec::new(),
                limit: None,
            });
        };
        if available(Means::Time).is_some() {
            add_unlimited(Watch::by(&[Means::Time], TIME_WINDOW));
        }
        if available(Means::Footprint).is_some() {
            add_unlimited(Watch::by(&[Means::Footprint], FOOTPRINT_WINDOW));
        }
        passes
    }

    /// The cells whose counts are compared: of the decided pairs, those that differ most first, as
    /// many as fit into the time.
    fn compared_cells(&self, manifest: &Manifest, time: Duration, display: &Display) -> Vec<u32> {
        let timed_trial = display.trial_cost(self.plan.trial_ms);
        let window = Duration::from_millis(self.study.window_ms);
        let counted_trial = timed_trial.saturating_sub(window) + COUNTING_WINDOW;
        let cells = &self.plan.cells;
        let pairs = pairs_to_count(self.state.analysis_input(manifest, cells));
        bytecost_plan::compared_cells(cells, &pairs, time, counted_trial)
    }

    /// The trials that a pass has still to make, of cells that gave samples.
    fn trials_left(&self, watch: &Watch, compared: &[u32]) -> Vec<EvidenceTrial> {
        let cells = &self.plan.cells;
        let made = |number: u32| {
            let cell = &cells[number as usize];
            let is_wanted = self.state.has_sample(number) && !cell.twin && watch.is_for(cell);
            is_wanted.then(|| self.state.evidence_trials(watch.round(), number))
        };
        let left = evidence_left(cells, compared, made).into_iter();
        left.map(|PlannedEvidence { round, cell }| EvidenceTrial {
            round,
            number: cell,
            cell: cells[cell as usize].clone(),
        })
        .collect()
    }
}
