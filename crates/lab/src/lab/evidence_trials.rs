//! Trials for evidence: each is watched, and its counts of copied bytes are checked by known transfers,
//! whose copies are known in advance.

use std::sync::atomic::AtomicBool;

use bytecost_spec::Cell;
use bytecost_spec::evidence::TrialEvidence;

use crate::testbed::Testbed;
use crate::trial;
use crate::trial_error::TrialError;
use crate::watch::{Watch, copied, counts};

mod known;

/// Runs and watches one trial of a cell. The caller fills in the key and the times of the evidence.
pub(crate) fn collect(
    bed: &mut Testbed,
    watch: &mut Watch,
    cell: &Cell,
    stop: &AtomicBool,
) -> Result<TrialEvidence, TrialError> {
    if let Some(why) = bed.no_evidence_reason(cell) {
        return Err(TrialError::failed(why));
    }
    let uncounted_places = known::affected(bed, watch, cell, stop)?;
    let output = trial::attempt(bed, cell, watch.window(), Some(watch), stop)?;
    let flows = &output.sender.side.flows;
    let copies = copied(cell, &output)
        .map(|copied| known::believed(copied, cell, &uncounted_places, &bed.local.files));
    Ok(TrialEvidence {
        sent_bytes: flows.iter().map(|f| f.bytes).sum(),
        sent_messages: flows.iter().map(|f| f.messages).sum(),
        elapsed_ns: flows.iter().map(|f| f.elapsed_ns).max().unwrap_or(0),
        copies,
        counts: counts(cell, &output),
        time: output.evidence.time,
        accounts: output.evidence.accounts,
        footprint: output.sender.footprint,
        ..TrialEvidence::default()
    })
}
