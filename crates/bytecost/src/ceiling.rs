//! The ceiling of the machine that a run was made on, found among the runs beside it.

use bytecost_analysis::analyse;
use bytecost_analysis::ceiling::{Ceiling, STUDY, ceiling, is_same_machine};
use bytecost_spec::Host;
use bytecost_store::{Root, Run};

use crate::recorded_run::RecordedRun;

/// The newest ceiling that was measured on the machine of a run, among the runs in the same
/// directory; none where none was. A ceiling has none, and what cannot be read is passed over.
pub fn of(run: &Run) -> Option<Ceiling> {
    if run.manifest().study.name == STUDY {
        return None;
    }
    find(&Root::at(run.dir().parent()?), &run.manifest().host)
}

fn find(root: &Root, host: &Host) -> Option<Ceiling> {
    let runs = root.runs().ok()?.into_iter().rev();
    let mut ceilings = runs.filter(|r| r.facts.as_ref().is_ok_and(|f| f.study == STUDY));
    ceilings.find_map(|summary| {
        let run = root.open(&summary.id).ok()?;
        if !is_same_machine(&run.manifest().host, host) {
            return None;
        }
        measured(&run)
    })
}

/// What a run of the study measured; none where it cannot be read, or measured nothing.
pub fn measured(run: &Run) -> Option<Ceiling> {
    let evidence = RecordedRun::of(run).ok()?;
    ceiling(run.manifest(), &analyse(evidence.input(None)))
}
