//! Cells that wait for the timer of delayed acknowledgements.

use itertools::Itertools as _;

use super::constructors::{cells_caveat, ids, span};
use crate::grouping::grouped;
use crate::result::CaveatFact::{Part, Sign};
use crate::result::{Caveat, StallSign};
use crate::stages::Measured;
use crate::stalls::{Signs, Waits};
use crate::trials::CellTrials;

pub(super) fn nagle(run: &Measured<'_>) -> Vec<Caveat> {
    stalled(run, Waits::Message)
}

pub(super) fn completion(run: &Measured<'_>) -> Vec<Caveat> {
    stalled(run, Waits::Completion)
}

/// A sign, and its number among the signs of a stall.
type SignOf = (StallSign, fn(&Signs) -> Option<f64>);

const SIGNS: [SignOf; 8] = [
    (StallSign::DelayedAcks, |s| s.delayed_acks),
    (StallSign::Clustered, |s| s.clustered),
    (StallSign::Waited, |s| s.waited),
    (StallSign::Latency, |s| s.latency_us),
    (StallSign::Rtt, |s| s.rtt_us),
    (StallSign::MinRtt, |s| s.min_rtt_us),
    (StallSign::Busy, |s| s.busy),
    (StallSign::Calls, |s| s.calls),
];

/// The movers whose messages wait for this, with the trials that stall.
fn stalled(run: &Measured<'_>, waits: Waits) -> Vec<Caveat> {
    let waiting = |c: &&CellTrials<'_>| run.stalls.waits(&c.id) == Some(waits);
    let stalled = run.trials.measured().filter(waiting);
    let movers = grouped(stalled.map(|c| (c.cell.mover.as_str(), c))).into_iter();
    let caveats = movers.filter_map(|(mover, cells)| {
        let stalls = cells
            .iter()
            .filter_map(|c| run.stalls.in_cell(&c.id))
            .collect_vec();
        let trials = Part {
            some: stalls.iter().map(|s| s.trials.0).sum(),
            all: stalls.iter().map(|s| s.trials.1).sum(),
        };
        let signs = SIGNS.iter().filter_map(|(sign, of)| {
            let numbers = stalls.iter().filter_map(|s| of(&s.signs));
            Some(Sign(*sign, span(numbers)?))
        });
        let facts = std::iter::once(trials).chain(signs);
        Some(cells_caveat(ids(cells), facts)?.about(mover))
    });
    caveats.collect()
}
