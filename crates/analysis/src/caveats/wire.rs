//! Caveats about the transport `wire`: what it leaves out, and whether it did what it should.

use bytecost_spec::Counter;
use itertools::Itertools as _;

use super::{Caveat, both, ids, of_cells, spans};
use crate::result::CaveatFact::{Reading, Share};
use crate::stages::Measured;
use crate::trials::CellTrials;
use crate::value::Trial;

/// The kernel's work on the responder's account over the sender's CPU time, passed over.
const ASIDE: f64 = 0.05;

fn over_wire<'v>(run: &Measured<'v>) -> impl Iterator<Item = &'v CellTrials<'v>> {
    let is_wire = |c: &&CellTrials<'_>| c.cell.transport.is_wire();
    run.measured().filter(is_wire)
}

/// The sums of some counters over the trials of some cells.
fn of_sums<const N: usize>(cells: &[&CellTrials<'_>], counters: [Counter; N]) -> Option<Caveat> {
    let sums = counters.map(|counter| {
        let sums = cells.iter().map(|c| c.sum(|t| t.of_all(counter)));
        Reading(counter, both(sums.sum()))
    });
    of_cells(ids(cells.iter().copied()), sums)
}

/// No fault, but what every number over wire must be read with.
pub(super) fn one_side(run: &Measured<'_>) -> Option<Caveat> {
    let counters = [Counter::WirePackets, Counter::WireAcknowledgements];
    of_sums(&over_wire(run).collect_vec(), counters)
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
    of_sums(&cells, counters)
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
