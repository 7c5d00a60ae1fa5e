//! Caveats about the transport `wire`: one side alone, and faults of its responder.

use bytecost_spec::Counter;
use itertools::Itertools as _;

use super::constructors::{cells_caveat, ids, machine_sums, spans};
use crate::result::Caveat;
use crate::result::CaveatFact::Share;
use crate::stages::Measured;
use crate::trials::CellTrials;
use crate::value::Trial;

/// The kernel's work on the responder's account over the sender's CPU time, passed over.
const ASIDE: f64 = 0.05;

fn over_wire<'v>(run: &Measured<'v>) -> impl Iterator<Item = &'v CellTrials<'v>> {
    let is_wire = |c: &&CellTrials<'_>| c.cell.transport.is_wire();
    run.trials.measured().filter(is_wire)
}

/// The sums of some counters over the trials of some cells.
fn summed<const N: usize>(cells: &[&CellTrials<'_>], counters: [Counter; N]) -> Option<Caveat> {
    cells_caveat(ids(cells.iter().copied()), machine_sums(cells, counters))
}

/// No fault, but a condition of every number over wire.
pub(super) fn one_side(run: &Measured<'_>) -> Option<Caveat> {
    let counters = [Counter::WirePackets, Counter::WireAcknowledgements];
    summed(&over_wire(run).collect_vec(), counters)
}

pub(super) fn strays(run: &Measured<'_>) -> Option<Caveat> {
    let has_strays = |c: &&CellTrials<'_>| {
        let sum = |counter| c.sum(|t| t.of_all(counter));
        sum(Counter::WireGaps) > 0.0 || sum(Counter::WireRepeats) > 0.0
    };
    let cells = over_wire(run).filter(has_strays).collect_vec();
    let counters = [
        Counter::WireGaps,
        Counter::WireRepeats,
        Counter::WirePackets,
    ];
    summed(&cells, counters)
}

pub(super) fn responder(run: &Measured<'_>) -> Option<Caveat> {
    let aside = |t: &Trial<'_>| {
        let cpu = t.sent(Counter::CpuNs).filter(|ns| *ns > 0.0)?;
        Some(t.of_all(Counter::ResponderWritingNs)? / cpu)
    };
    spans(over_wire(run), [Share], |cell| {
        Some([Some(cell.typical(aside).filter(|s| *s > ASIDE)?)])
    })
}
