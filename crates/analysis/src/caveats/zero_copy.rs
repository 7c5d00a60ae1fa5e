//! Zero-copy: whether the kernel copied after all, and what keeps it from its best.

use bytecost_spec::{Counter, Measure, Metric, PacketSocket, Pattern, Reaping};
use itertools::Itertools as _;

use super::constructors::{both, cells_caveat, ids, span, spans};
use crate::grouping::grouped;
use crate::result::CaveatFact::{self, Copied, Count, Metric as OfMetric, Reading, Share, Sockets};
use crate::result::{Caveat, CellResult, CopiedMover};
use crate::stages::Measured;
use crate::trials::CellTrials;

pub(crate) fn copied(run: &Measured<'_>) -> Vec<CopiedMover> {
    let copied = run.cells.iter().filter_map(|cell| {
        let way = (&cell.cell.mover, cell.cell.transport);
        Some((way, (after_all(run, cell)?, &cell.id)))
    });
    grouped(copied)
        .into_iter()
        .map(|((mover, transport), of)| CopiedMover {
            mover: mover.clone(),
            transport,
            shares: of.iter().map(|(found, _)| found.share).collect(),
            is_counted: of.iter().all(|(found, _)| found.is_counted),
            cells: of.iter().map(|(_, id)| (*id).clone()).collect(),
        })
        .filter(CopiedMover::is_copied)
        .collect()
}

pub(super) fn zero_copy_copied(run: &Measured<'_>) -> Vec<Caveat> {
    let caveats = copied(run).into_iter().filter_map(|mover| {
        let own = (run.trials.cells.iter()).filter(|t| mover.cells.contains(&t.id));
        let takers = sockets(own.flat_map(packet_sockets));
        cells_caveat(mover.cells.clone(), [Copied(mover), takers])
    });
    caveats.collect()
}

pub(super) fn no_room(run: &Measured<'_>) -> Option<Caveat> {
    let times = |c: &CellTrials<'_>| c.sum(|t| t.sent(Counter::Enobufs));
    let cells = run
        .trials
        .measured()
        .filter(|c| times(c) > 0.0)
        .collect_vec();
    let times = cells.iter().map(|c| times(c)).sum();
    cells_caveat(ids(cells), [Reading(Counter::Enobufs, both(times))])
}

const COPIED_SHARE: Metric = Metric::both(Measure::CopiedShare);
/// The largest difference between the copied shares by flags and by counts.
const APART: f64 = 0.05;
/// Copied share from which on a cell is not what its mover's name says.
const MOSTLY: f64 = 0.5;

/// The share of a zero-copy mover's bytes that the kernel copied.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct AfterAll {
    /// The share of its bytes, or of its buffers where only flags are known.
    pub(crate) share: f64,
    pub(crate) is_counted: bool,
}

/// The copied share of a cell by the most reliable means; none for movers that always copy.
pub(crate) fn after_all(run: &Measured<'_>, cell: &CellResult) -> Option<AfterAll> {
    let flagged = cell.value(COPIED_SHARE)?;
    let counted = run
        .copies
        .iter()
        .find(|c| c.cell == cell.id)
        .and_then(|c| c.after_all());
    Some(AfterAll {
        // Retransmitted bytes are copied again, so that the quotient may exceed 1.
        share: counted.unwrap_or(flagged).min(1.0),
        is_counted: counted.is_some(),
    })
}

/// Returns true if most of a zero-copy cell's bytes were copied.
pub(crate) fn is_no_zero_copy(run: &Measured<'_>, id: &str) -> bool {
    let found = run.result(id).and_then(|c| after_all(run, c));
    found.is_some_and(|f| f.share >= MOSTLY)
}

/// The shares that were counted, and those that were flagged.
pub(super) fn contradicted(run: &Measured<'_>) -> Vec<Caveat> {
    let flagged = |c: &CellResult| c.value(COPIED_SHARE).unwrap_or(0.0);
    let apart = run.cells.iter().filter_map(|cell| {
        let counted = after_all(run, cell).filter(|a| a.is_counted)?.share;
        let is_apart = (counted - flagged(cell)).abs() > APART;
        is_apart.then_some((&cell.cell.mover, (cell, counted)))
    });
    let caveats = grouped(apart).into_iter().filter_map(|(mover, cells)| {
        let counts = span(cells.iter().map(|(_, counted)| *counted)).map(Share);
        let flags = span(cells.iter().map(|(cell, _)| flagged(cell)))
            .map(|shares| OfMetric(COPIED_SHARE, shares));
        let ids = cells.iter().map(|(cell, _)| cell.id.clone()).collect();
        let facts = counts.into_iter().chain(flags);
        Some(cells_caveat(ids, facts)?.about(mover))
    });
    caveats.collect()
}

fn packet_sockets<'v>(cell: &'v CellTrials<'v>) -> impl Iterator<Item = &'v PacketSocket> {
    cell.trials().flat_map(|t| &t.sample.packet_sockets)
}

/// Each of them once.
fn sockets<'v>(all: impl Iterator<Item = &'v PacketSocket>) -> CaveatFact {
    Sockets(all.unique().cloned().collect())
}

pub(super) fn packet_socket(run: &Measured<'_>) -> Option<Caveat> {
    let has_some = |c: &&CellTrials<'_>| packet_sockets(c).next().is_some();
    let cells = run.trials.measured().filter(has_some).collect_vec();
    let trials = cells.iter().flat_map(|c| c.trials());
    let heard = trials.filter(|t| !t.sample.packet_sockets.is_empty());
    let all = sockets(cells.iter().flat_map(|c| packet_sockets(c)));
    let facts = [Count(heard.count()), all];
    Some(cells_caveat(ids(cells), facts)?.disturbing())
}

/// Returns true if a cell waits for every completion, but not for a timer.
fn waits(run: &Measured<'_>, cell: &CellTrials<'_>) -> bool {
    let of_cell = cell.cell;
    cell.completes()
        && of_cell.pattern == Pattern::Stream
        && of_cell.reaping == Reaping::Full
        && of_cell.ring_slots() == 1
        && run.stalls.waits(&cell.id).is_none()
}

pub(super) fn every_completion(run: &Measured<'_>) -> Option<Caveat> {
    const TIME: Metric = Metric::both(Measure::MsPerMessage);
    let cells = run.trials.moved().filter(|c| waits(run, c));
    spans(cells, [|ms| OfMetric(TIME, ms)], |cell| {
        let rate = cell.usual(Metric::both(Measure::MessagesPerS));
        let flows = f64::from(cell.cell.threads);
        Some([rate.map(|r| 1e3 * flows / r.max(f64::MIN_POSITIVE))])
    })
}
