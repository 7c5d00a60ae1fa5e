//! All that is known of a run, read from its directory.

use std::collections::BTreeMap;

use anyhow::Result;
use bytecost_analysis::ceiling::{STUDY, ceiling, is_same_machine};
use bytecost_analysis::{Analysis, Ceiling, Input, analyse};
use bytecost_spec::evidence::TrialEvidence;
use bytecost_spec::sample::Block;
use bytecost_spec::{Cell, Failure, Plan, Published, Record, Sample};
use bytecost_store::{Root, Run};

use crate::failure::bad_input;
use crate::published::of_study;

/// A run with its plan and its records.
pub struct RecordedRun<'r> {
    pub run: &'r Run,
    pub plan: &'r Plan,
    pub samples: Vec<Sample>,
    pub failures: Vec<Failure>,
    blocks: Vec<Block>,
    watched: Vec<TrialEvidence>,
    ended_early: Option<String>,
    pub damage: Option<String>,
    ceiling: Option<Ceiling>,
}

impl<'r> RecordedRun<'r> {
    pub fn of(run: &'r Run) -> Result<RecordedRun<'r>> {
        let records = run.records()?.records;
        let plan = &run.manifest().plan;
        let (mut samples, mut failures) = (Vec::new(), Vec::new());
        let (mut blocks, mut watched) = (Vec::new(), Vec::new());
        for mut record in records {
            // Numbers must not come to the wrong cell.
            if let Some(trial) = record.trial()
                && plan.cells.get(trial.cell as usize).map(Cell::id) != record.cell_mut().cloned()
            {
                return Err(bad_input(format!(
                    "{}: its samples are not of the cells of its manifest: was one of them edited?",
                    run.dir().display()
                )));
            }
            match record {
                Record::Sample(sample) => samples.push(sample),
                Record::Failure(failure) => failures.push(failure),
                Record::Evidence(found) => watched.push(found),
                Record::Block(block) => blocks.push(block),
            }
        }
        let ended_early = match run.ending()? {
            Some(ending) => ending.early,
            None if run.is_locked() => Some("it is still running".to_owned()),
            None => Some("it was killed".to_owned()),
        };
        Ok(RecordedRun {
            run,
            plan,
            samples,
            failures,
            blocks,
            watched,
            ended_early,
            damage: run.damage()?,
            ceiling: newest_ceiling(run),
        })
    }

    /// The run as the analysis takes it, with what was published beside it.
    pub fn input<'e>(&'e self, published: Option<&'e Published>) -> Input<'e> {
        Input {
            manifest: self.run.manifest(),
            cells: &self.plan.cells,
            refused: &self.plan.refused,
            left_out: &self.plan.left_out,
            samples: &self.samples,
            failures: &self.failures,
            blocks: &self.blocks,
            evidence: &self.watched,
            notes: &self.plan.notes,
            ended_early: self.ended_early.as_deref(),
            damage: self.damage.as_deref(),
            published,
            ceiling: self.ceiling.as_ref(),
            claims: None,
        }
    }

    /// Returns true if the run gives its answer: no cell lost all of its trials, none more than a
    /// few by failures, and the log is whole. A stall is measured, and no failure.
    pub fn is_whole(&self) -> bool {
        self.damage.is_none() && self.cells_with_failures().all(FailedTrials::are_few)
    }

    /// The cells that have failures, a twin with its cell.
    fn cells_with_failures(&self) -> impl Iterator<Item = FailedTrials> {
        let mut cells: BTreeMap<&str, FailedTrials> = BTreeMap::new();
        for failure in &self.failures {
            let cell = cells.entry(Cell::without_twin(&failure.cell)).or_default();
            cell.failed += usize::from(!failure.stood_still());
        }
        for sample in &self.samples {
            if let Some(cell) = cells.get_mut(Cell::without_twin(&sample.cell)) {
                cell.sampled += 1;
            }
        }
        cells.into_values()
    }

    /// The run judged, with the claims that its study settles.
    pub fn analysis(&self, published: Option<&Published>) -> Result<Analysis> {
        let claims = of_study(&self.run.manifest().study.name)?;
        Ok(analyse(Input {
            claims: Some(&claims),
            ..self.input(published)
        }))
    }
}

/// The newest ceiling that was measured on the machine of a run, among the runs in the same
/// directory that its owner measured; none where none was. A ceiling has none, and what cannot be read is passed over.
fn newest_ceiling(run: &Run) -> Option<Ceiling> {
    if run.manifest().study.name == STUDY {
        return None;
    }
    let root = Root::at(run.dir().parent()?);
    let mut ceilings = newest_runs(&root, STUDY).filter(|other| {
        other.has_owner_of(run) && is_same_machine(&other.manifest().host, &run.manifest().host)
    });
    ceilings.find_map(|ceiling| measured_ceiling(&ceiling))
}

/// The runs of a study under a root, newest first; what cannot be read is passed over.
pub fn newest_runs<'r>(root: &'r Root, study: &'r str) -> impl Iterator<Item = Run> + 'r {
    let names = root.names().unwrap_or_default().into_iter().rev();
    let runs = names.filter_map(|name| root.open(&name).ok());
    runs.filter(move |run| run.manifest().study.name == study)
}

/// What a run of the study measured; none where it cannot be read, or measured nothing.
pub fn measured_ceiling(run: &Run) -> Option<Ceiling> {
    let recorded = RecordedRun::of(run).ok()?;
    ceiling(run.manifest(), &analyse(recorded.input(None)))
}

/// Share of the trials of a cell that may fail in a run that gives its answer.
const FEW_FAILED: f64 = 0.05;

/// The trials of a cell.
#[derive(Default)]
struct FailedTrials {
    failed: usize,
    sampled: usize,
}

impl FailedTrials {
    fn are_few(self) -> bool {
        let begun = (self.failed + self.sampled) as f64;
        self.sampled > 0 && self.failed as f64 <= FEW_FAILED * begun
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_gives_its_answer_while_few_trials_of_each_cell_failed() {
        for (failed, sampled, are_few) in [
            (0, 1, true),
            (1, 19, true),
            (1, 18, false),
            (0, 0, false),
            (3, 0, false),
        ] {
            let trials = FailedTrials { failed, sampled };
            assert_eq!(trials.are_few(), are_few, "{failed} of {sampled}");
        }
    }
}
