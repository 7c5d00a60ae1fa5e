//! The state of a run that is being measured, as its log gives it, and the writer of that log.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytecost_analysis::Input;
use bytecost_plan::policy;
use bytecost_spec::sample::{Block, last_short_windows};
use bytecost_spec::{Cell, Manifest, Record, Sample};
use bytecost_store::{Run, StoreError};

/// Writer of a run's log that stops the run at the first record it cannot write.
pub struct LogWriter<'r> {
    run: &'r mut Run,
    stop: &'r AtomicBool,
    written: Result<(), StoreError>,
}

impl LogWriter<'_> {
    pub fn new<'r>(run: &'r mut Run, stop: &'r AtomicBool) -> LogWriter<'r> {
        LogWriter {
            run,
            stop,
            written: Ok(()),
        }
    }

    /// Appends a record. After an error all further records are dropped, and the stop flag is set,
    /// since a trial that cannot be stored need not be measured.
    pub fn append(&mut self, record: &Record) {
        if self.written.is_ok() {
            self.written = self.run.append(record);
        }
        if self.written.is_err() {
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    /// Returns the first error of an append; without one, syncs the log to the disk.
    pub fn finish(self) -> Result<(), StoreError> {
        self.written?;
        self.run.sync()
    }
}

/// Samples, failures and block ends of the log, with the counts that the choice of the next trial needs.
#[derive(Default)]
pub struct RunState {
    samples: Vec<Sample>,
    /// Block and cell of each trial that is over, in the last attempt at its block.
    finished: HashSet<(u32, u32)>,
    /// The last attempt at each block that has begun, from 0.
    attempts: BTreeMap<u32, u32>,
    block_ends: Vec<Block>,
    /// Number of failures of each cell.
    failures: HashMap<u32, u32>,
    /// Number of trials for evidence, failed ones included, by evidence round and cell.
    evidence_trials: HashMap<(u32, u32), u32>,
    spent: Duration,
    /// The part of it that went into blocks that were measured again.
    spent_on_repeats: Duration,
}

impl RunState {
    /// Adds a record of the log.
    pub fn add(&mut self, record: Record) {
        if let Some(trial) = record.trial() {
            if record.is_for_evidence() {
                let evidence_round = trial.block;
                let trials = self.evidence_trials.entry((evidence_round, trial.cell));
                *trials.or_default() += 1;
            } else {
                let attempt = self.attempts.entry(trial.block).or_default();
                *attempt = (*attempt).max(trial.attempt);
                self.finished.insert((trial.block, trial.cell));
            }
        }
        match record {
            Record::Sample(sample) => {
                let end = Duration::from_millis(sample.started_ms + sample.trial_ms);
                self.spent = self.spent.max(end);
                self.samples.push(sample);
            }
            Record::Evidence(_) => {}
            Record::Failure(failure) => {
                self.spent = self.spent.max(Duration::from_millis(failure.started_ms));
                if !failure.for_evidence {
                    *self.failures.entry(failure.trial.cell).or_default() += 1;
                }
            }
            Record::Block(block) => {
                self.spent = self.spent.max(Duration::from_millis(block.ended_ms));
                if block.repeated_because.is_some() {
                    self.spent_on_repeats += policy::running_time(&block);
                    self.begin_attempt(block.block, block.attempt + 1);
                }
                self.block_ends.push(block);
            }
        }
    }

    /// Forgets that trials of a block are over, since it is measured again as a whole.
    fn begin_attempt(&mut self, block: u32, attempt: u32) {
        self.finished.retain(|(finished, _)| *finished != block);
        self.attempts.insert(block, attempt);
    }

    /// Time from the start of the first leg to the last record.
    pub fn spent(&self) -> Duration {
        self.spent
    }

    pub fn last_block_end(&self) -> Option<&Block> {
        self.block_ends.last()
    }

    pub fn attempt(&self, block: u32) -> u32 {
        self.attempts.get(&block).copied().unwrap_or(0)
    }

    pub fn has_begun(&self, block: u32) -> bool {
        self.attempts.contains_key(&block)
    }

    pub fn has_finished(&self, block: u32, cell: u32) -> bool {
        self.finished.contains(&(block, cell))
    }

    pub fn has_sample(&self, cell: u32) -> bool {
        self.samples.iter().any(|sample| sample.trial.cell == cell)
    }

    /// Number of failed trials of a cell, those for evidence left out.
    pub fn failures(&self, cell: u32) -> u32 {
        self.failures.get(&cell).copied().unwrap_or(0)
    }

    /// Time that went into blocks that were measured again.
    pub fn spent_on_repeats(&self) -> Duration {
        self.spent_on_repeats
    }

    pub fn evidence_trials(&self, round: u32, cell: u32) -> u32 {
        let trials = self.evidence_trials.get(&(round, cell));
        trials.copied().unwrap_or(0)
    }

    /// The first block from which on the trials of all cells count: the one after the last block in which the
    /// window of a cell was too short.
    pub fn first_counting_block(&self) -> u32 {
        last_short_windows(&self.block_ends)
            .into_values()
            .map(|(block, _)| block + 1)
            .max()
            .unwrap_or(0)
    }

    /// The samples and blocks of these cells as the analysis takes them.
    pub fn analysis_input<'a>(&'a self, manifest: &'a Manifest, cells: &'a [Cell]) -> Input<'a> {
        Input {
            blocks: &self.block_ends,
            ..Input::of(manifest, cells, &self.samples)
        }
    }
}

#[cfg(test)]
mod tests {
    use bytecost_spec::sample::{Failure, TrialKey};

    use super::*;

    #[test]
    fn a_failed_trial_for_evidence_belongs_to_no_block_and_is_not_made_again() {
        let failure = |for_evidence| {
            Record::Failure(Failure {
                trial: TrialKey::first(1, 0),
                cell: String::new(),
                started_ms: 0,
                reason: "no more open files".to_owned(),
                stood_still_ns: None,
                wrong_bytes: false,
                for_evidence,
            })
        };
        let mut state = RunState::default();
        for _ in 0..3 {
            state.add(failure(true));
        }
        assert!(!state.has_begun(1) && !state.has_finished(1, 0));
        assert_eq!((state.failures(0), state.evidence_trials(1, 0)), (0, 3));
        state.add(failure(false));
        assert!(state.has_finished(1, 0));
        assert_eq!((state.failures(0), state.evidence_trials(1, 0)), (1, 3));
    }
}
