//! Caveats about servers: clients that were too slow themselves, and requests that failed.

use bytecost_spec::Counter;
use bytecost_stats::median;
use itertools::Itertools as _;

use super::constructors::{both, cells_caveat, ids, machine_sums, span};
use crate::comparison::Pairing;
use crate::result::Caveat;
use crate::result::CaveatFact::{Bound, Reading, Share};
use crate::stages::Measured;
use crate::trials::CellTrials;
use crate::value::{Trial, is_generator_limited};

/// Failed requests, as a share of all, that go unremarked.
const FAILED: f64 = 0.0001;
/// Failed requests, as a share of all, up to which the verdicts stand.
const MANY_FAILED: f64 = 0.05;

/// Returns true if the clients may have limited the rate in most trials of a cell. Such a server is
/// compared by its CPU time for a request.
pub(crate) fn clients_limit(cell: &CellTrials<'_>) -> bool {
    let of = cell
        .trials()
        .filter(|t| is_generator_limited(t.sample))
        .count();
    2 * of > cell.by_block.len()
}

/// Share of the window for which a thread of the clients is busy, from which the clients may set the
/// rate whatever serves them.
const CLIENTS_BUSY: f64 = 0.9;

/// Returns true if the clients of a cell were busy nearly all the time, in half of its trials or more.
fn are_clients_busy(cell: &CellTrials<'_>) -> bool {
    let shares: Vec<f64> = cell.trials().filter_map(clients_busy).collect();
    median(&shares).is_some_and(|share| share >= CLIENTS_BUSY)
}

/// Share of the window for which the busiest thread of the clients was busy.
fn clients_busy(trial: &Trial<'_>) -> Option<f64> {
    let window_ns = trial.sent(Counter::ElapsedNs)?.max(1.0);
    Some(trial.sent(Counter::GeneratorBusyNs)? / window_ns)
}

/// Returns true if the clients of both cells were busy nearly all the time: their rates may be the
/// clients', and only the cost of a request to the server can be compared.
pub(crate) fn are_clients_of_both_busy(pair: &Pairing<'_>) -> bool {
    are_clients_busy(pair.baseline) && are_clients_busy(pair.other)
}

pub(super) fn clients_busy_on_both_sides(run: &Measured<'_>) -> Option<Caveat> {
    let cells = served(run).filter(|c| are_clients_busy(c)).collect_vec();
    let busy = cells
        .iter()
        .flat_map(|c| c.trials())
        .filter_map(clients_busy);
    let facts = span(busy.map(|share| share.min(1.0))).map(Share);
    cells_caveat(
        ids(cells.iter().copied()),
        [Bound(CLIENTS_BUSY)].into_iter().chain(facts),
    )
}

fn served<'v>(run: &Measured<'v>) -> impl Iterator<Item = &'v CellTrials<'v>> {
    run.trials.measured().filter(|c| c.cell.is_served())
}

pub(super) fn generator(run: &Measured<'_>) -> Option<Caveat> {
    let cells = served(run).filter(|c| clients_limit(c)).collect_vec();
    let trials = cells.iter().flat_map(|c| c.trials());
    let read = trials.filter_map(|t| {
        let late_ns = t.sent(Counter::GeneratorLateNsP99).unwrap_or(0.0);
        Some((clients_busy(t)?, late_ns))
    });
    let (busy, late_ns): (Vec<f64>, Vec<f64>) = read.unzip();
    let late_ns = span(late_ns).map(|late_ns| Reading(Counter::GeneratorLateNsP99, late_ns));
    let facts = span(busy).map(Share).into_iter().chain(late_ns);
    cells_caveat(ids(cells.iter().copied()), facts)
}

/// A connection that found the queue full was tried again after a second, which is not the model's.
pub(super) fn listen_queue(run: &Measured<'_>) -> Option<Caveat> {
    let has_drops = |c: &&CellTrials<'_>| c.sum(|t| t.of_all(Counter::TcpListenDrops)) > 0.0;
    let cells = served(run).filter(has_drops).collect_vec();
    let drops = machine_sums(&cells, [Counter::TcpListenDrops]);
    Some(cells_caveat(ids(cells), drops)?.disturbing())
}

/// The same wait where the queue has room: the network or a packet filter dropped the request to connect.
pub(super) fn connected_again(run: &Measured<'_>) -> Option<Caveat> {
    let sum_of = |cell: &CellTrials<'_>, counter| cell.sum(|t| t.of_all(counter));
    let again = |c: &&CellTrials<'_>| {
        let has_room = sum_of(c, Counter::TcpListenDrops) == 0.0;
        has_room && sum_of(c, Counter::TcpSynRetransmits) > 0.0
    };
    let cells = served(run).filter(again).collect_vec();
    let retransmits = machine_sums(&cells, [Counter::TcpSynRetransmits]);
    cells_caveat(ids(cells), retransmits)
}

pub(super) fn failed_requests(run: &Measured<'_>) -> Option<Caveat> {
    failed_between(run, FAILED, MANY_FAILED)
}

/// Servers with so many failed requests that the others are no random sample.
pub(super) fn many_failed_requests(run: &Measured<'_>) -> Option<Caveat> {
    Some(failed_between(run, MANY_FAILED, f64::INFINITY)?.and(Bound(MANY_FAILED)))
}

/// The cells of which more than one share of the requests failed and no more than another.
fn failed_between(run: &Measured<'_>, few: f64, many: f64) -> Option<Caveat> {
    let is_between = |cell: &&CellTrials<'_>| {
        let sum = |counter| cell.sum(|t| t.sent(counter));
        let failed: f64 = Counter::REQUEST_ERRORS.into_iter().map(sum).sum();
        let share = failed / (failed + sum(Counter::Messages));
        failed > 0.0 && share > few && share <= many
    };
    let cells = served(run).filter(is_between).collect_vec();
    let counters = Counter::REQUEST_ERRORS
        .into_iter()
        .chain([Counter::Messages]);
    let sums = counters.map(|counter| {
        let sums = cells.iter().map(|c| c.sum(|t| t.sent(counter)));
        Reading(counter, both(sums.sum()))
    });
    cells_caveat(ids(cells.iter().copied()), sums.collect_vec())
}
