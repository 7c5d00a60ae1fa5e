//! Obstacles on the path of packets, and limits around the whole run.

use std::collections::BTreeMap;

use bytecost_spec::CircumstanceKind;
use bytecost_spec::Counter;
use bytecost_spec::host::Obstacle;
use itertools::Itertools as _;

use super::constructors::{both, cells_caveat, ids, span};
use crate::grouping::by_key;
use crate::result::Caveat;
use crate::result::CaveatFact::{self, Count, Obstacle as InTheWay, Reading, Seconds};
use crate::stages::Measured;
use crate::trials::CellTrials;
use crate::value::machine;

/// Share of the time up to which pauses by a quota go unremarked.
const HELD: f64 = 0.001;

/// Each obstacle on the path of packets, with the cells that met it.
fn by_obstacle<'v>(
    run: &Measured<'v>,
    limits: bool,
) -> BTreeMap<&'v Obstacle, Vec<&'v CellTrials<'v>>> {
    by_key(run.trials.measured().flat_map(|cell| {
        cell.trials()
            .flat_map(|t| &t.sample.obstacles)
            .filter(move |o| o.kind != CircumstanceKind::Tracer && o.limits == limits)
            .sorted()
            .dedup()
            .map(move |o| (o, cell))
    }))
}

pub(super) fn limits(run: &Measured<'_>) -> Vec<Caveat> {
    by_obstacle(run, true)
        .into_iter()
        .filter_map(|(obstacle, cells)| in_the_way(&[obstacle], &cells, []))
        .collect()
}

pub(super) fn costs(run: &Measured<'_>) -> Option<Caveat> {
    let all = by_obstacle(run, false);
    let obstacles = all.keys().copied().collect_vec();
    let cells = all
        .values()
        .flatten()
        .copied()
        .unique_by(|c| &c.id)
        .collect_vec();
    let is_of_sockets = |o: &&Obstacle| o.kind == CircumstanceKind::SocketMemory;
    let buffers = if obstacles.iter().any(is_of_sockets) {
        buffers(&cells)
    } else {
        Vec::new()
    };
    in_the_way(&obstacles, &cells, buffers)
}

/// Obstacles with the number of trials of some cells that met one of them.
fn in_the_way(
    obstacles: &[&Obstacle],
    cells: &[&CellTrials<'_>],
    further: impl IntoIterator<Item = CaveatFact>,
) -> Option<Caveat> {
    let is_one = |o: &Obstacle| obstacles.contains(&o);
    let trials = cells
        .iter()
        .flat_map(|c| c.trials())
        .filter(|t| t.sample.obstacles.iter().any(is_one));
    let facts = obstacles
        .iter()
        .map(|o| InTheWay((*o).clone()))
        .chain([Count(trials.count())])
        .chain(further);
    Some(cells_caveat(ids(cells.iter().copied()), facts)?.disturbing())
}

pub(super) fn tracer(run: &Measured<'_>) -> Option<Caveat> {
    let is_tracer = |o: &&Obstacle| o.kind == CircumstanceKind::Tracer;
    let traced = |cell: &CellTrials<'_>| {
        cell.trials()
            .any(|t| t.sample.obstacles.iter().any(|o| is_tracer(&o)))
    };
    let cells = run.trials.measured().filter(|c| traced(c)).collect_vec();
    let first = cells
        .iter()
        .flat_map(|c| c.trials())
        .flat_map(|t| &t.sample.obstacles)
        .filter(is_tracer)
        .min_by_key(|o| &o.found)?;
    Some(cells_caveat(ids(cells.iter().copied()), [InTheWay(first.clone())])?.disturbing())
}

/// The buffers that sockets got.
fn buffers(cells: &[&CellTrials<'_>]) -> Vec<CaveatFact> {
    let trials = || cells.iter().flat_map(|c| c.trials());
    let sent = span(trials().filter_map(|t| t.sent(Counter::SendBufferBytes)))
        .map(|bytes| Reading(Counter::SendBufferBytes, bytes));
    let received = span(trials().filter_map(|t| t.received(Counter::ReceiveBufferBytes)))
        .map(|bytes| Reading(Counter::ReceiveBufferBytes, bytes));
    sent.into_iter().chain(received).collect()
}

pub(super) fn quota(run: &Measured<'_>) -> Option<Caveat> {
    // Those that do not count were stopped as well, and their time is in no other.
    let samples = || run.input.samples.iter();
    let sum = |counter| -> f64 { samples().filter_map(|s| machine(s, counter).ok()).sum() };
    let held_ns = sum(Counter::QuotaThrottledNs);
    let of_s = samples().map(|s| s.trial_ms as f64).sum::<f64>() / 1e3;
    let periods = sum(Counter::QuotaThrottledPeriods);
    let quotas = run
        .input
        .manifest
        .host
        .obstacles
        .iter()
        .filter(|o| o.kind == CircumstanceKind::Quota);
    let facts = [
        Reading(Counter::QuotaThrottledPeriods, both(periods)),
        Reading(Counter::QuotaThrottledNs, both(held_ns)),
        Seconds(of_s),
    ]
    .into_iter()
    .chain(quotas.cloned().map(InTheWay));
    let caveat = cells_caveat(ids(run.trials.measured()), facts).map(Caveat::disturbing);
    caveat.filter(|_| held_ns / 1e9 > HELD * of_s)
}
