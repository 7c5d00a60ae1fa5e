//! A run as its directory has it: manifest, log, ending.

use std::collections::BTreeMap;

use anyhow::Result;
use bytecost_analysis::ceiling::{STUDY, ceiling, is_same_machine};
use bytecost_analysis::{Analysis, Ceiling, Input, analyse};
use bytecost_spec::evidence::TrialEvidence;
use bytecost_spec::sample::Block;
use bytecost_spec::{Cell, Failure, Plan, Published, Record, Sample};
use bytecost_store::{Root, Run};

use crate::failure::bad_input;
use crate::published::settled_by;

/// A run with its plan and the records of its log, by their kinds.
pub struct RecordedRun<'r> {
    pub run: &'r Run,
    pub plan: &'r Plan,
    pub samples: Vec<Sample>,
    pub failures: Vec<Failure>,
    blocks: Vec<Block>,
    evidence: Vec<TrialEvidence>,
    /// The reason if it did not end by its policy.
    ended_early: Option<String>,
    /// The reason if the log is not whole.
    pub damage: Option<String>,
    /// The newest ceiling of the same machine.
    ceiling: Option<Ceiling>,
}

impl<'r> RecordedRun<'r> {
    /// Reads the log. A log whose cells are not those of the manifest is refused, since its numbers
    /// would be those of other cells.
    pub fn read(run: &'r Run) -> Result<RecordedRun<'r>> {
        let records = run.records()?.records;
        let plan = &run.manifest().plan;
        let (mut samples, mut failures) = (Vec::new(), Vec::new());
        let (mut blocks, mut evidence) = (Vec::new(), Vec::new());
        for mut record in records {
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
                Record::Evidence(found) => evidence.push(found),
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
            evidence,
            ended_early,
            damage: run.damage()?,
            ceiling: newest_ceiling(run),
        })
    }

    /// The input of the analysis, with a published table to compare with.
    pub fn input<'e>(&'e self, published: Option<&'e Published>) -> Input<'e> {
        Input {
            manifest: self.run.manifest(),
            cells: &self.plan.cells,
            refused: &self.plan.refused,
            left_out: &self.plan.left_out,
            samples: &self.samples,
            failures: &self.failures,
            blocks: &self.blocks,
            evidence: &self.evidence,
            notes: &self.plan.notes,
            ended_early: self.ended_early.as_deref(),
            damage: self.damage.as_deref(),
            published,
            ceiling: self.ceiling.as_ref(),
            claims: None,
        }
    }

    /// Returns true if the run answers its question: the log is whole, and each cell has samples and
    /// at most [`FEW_FAILED`] failures. A stall is a result, not a failure.
    pub fn is_whole(&self) -> bool {
        self.damage.is_none() && (self.cells_with_failures()).all(TrialCounts::has_few_failures)
    }

    /// The trials of each cell that has failures; those of a twin are its cell's.
    fn cells_with_failures(&self) -> impl Iterator<Item = TrialCounts> {
        let mut cells: BTreeMap<&str, TrialCounts> = BTreeMap::new();
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

    /// The findings of the run, with the claims that its study settles.
    pub fn analysis(&self, published: Option<&Published>) -> Result<Analysis> {
        let claims = settled_by(&self.run.manifest().study.name)?;
        Ok(analyse(Input {
            claims: Some(&claims),
            ..self.input(published)
        }))
    }
}

/// The newest ceiling of the machine of a run, among the runs of the same owner in the same
/// directory; none for a run that is one itself. Runs that cannot be read are passed over.
fn newest_ceiling(run: &Run) -> Option<Ceiling> {
    if run.manifest().study.name == STUDY {
        return None;
    }
    let root = Root::at(run.dir().parent()?);
    newest_runs(&root, STUDY)
        .filter(|other| {
            other.has_owner_of(run) && is_same_machine(&other.manifest().host, &run.manifest().host)
        })
        .find_map(|ceiling| measured_ceiling(&ceiling))
}

/// The runs of a study in a directory, newest first. Those that cannot be read are passed over.
pub fn newest_runs<'r>(root: &'r Root, study: &'r str) -> impl Iterator<Item = Run> + 'r {
    let names = root.names().unwrap_or_default().into_iter().rev();
    names
        .filter_map(|name| root.open(&name).ok())
        .filter(move |run| run.manifest().study.name == study)
}

/// The ceiling that a run of its study measured; none if the run cannot be read, or has no rates.
pub fn measured_ceiling(run: &Run) -> Option<Ceiling> {
    let recorded = RecordedRun::read(run).ok()?;
    ceiling(run.manifest(), &analyse(recorded.input(None)))
}

/// Share of the trials of each cell that may fail in a run that answers its question.
const FEW_FAILED: f64 = 0.05;

/// The numbers of trials of a cell that failed and that gave a sample.
#[derive(Default)]
struct TrialCounts {
    failed: usize,
    sampled: usize,
}

impl TrialCounts {
    fn has_few_failures(self) -> bool {
        let begun = (self.failed + self.sampled) as f64;
        self.sampled > 0 && self.failed as f64 <= FEW_FAILED * begun
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_answers_its_question_while_few_trials_of_each_cell_failed() {
        for (failed, sampled, has_few) in [
            (0, 1, true),
            (1, 19, true),
            (1, 18, false),
            (0, 0, false),
            (3, 0, false),
        ] {
            let trials = TrialCounts { failed, sampled };
            assert_eq!(trials.has_few_failures(), has_few, "{failed}, {sampled}");
        }
    }
}
