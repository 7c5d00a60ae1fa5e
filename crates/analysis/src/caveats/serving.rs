//! Caveats about servers: clients that were too slow themselves, and requests that failed.

use bytecost_spec::{CircumstanceKind, Counter, units};
use bytecost_stats::median;
use itertools::Itertools as _;

use super::{Caveat, caveat, ids, of_circumstance};
use crate::pairing::Pairing;
use crate::phrases::{self, percent};
use crate::stages::Measured;
use crate::trials::CellTrials;
use crate::value::Trial;
use crate::value::served::{ERRORS, is_limited};

/// Failed requests, as a share of all, that go unremarked.
const FAILED: f64 = 0.0001;
/// Failed requests, as a share of all, up to which the verdicts stand.
const MANY_FAILED: f64 = 0.05;

/// Whether the clients may have limited what was found, in most trials of a cell. What is then said
/// of the server is what a request costs it: its CPU time.
pub(crate) fn clients_limit(cell: &CellTrials<'_>) -> bool {
    let of = cell.trials().filter(|t| is_limited(t.sample)).count();
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
/// clients', and what is left to compare is what a request costs the server.
pub(crate) fn are_clients_of_both_busy(pair: &Pairing<'_, '_>) -> bool {
    are_clients_busy(pair.baseline) && are_clients_busy(pair.other)
}

pub(super) fn clients_busy_on_both_sides(run: &Measured<'_>) -> Option<Caveat> {
    let cells = served(run).filter(|c| are_clients_busy(c)).collect_vec();
    let busy = cells
        .iter()
        .flat_map(|c| c.trials())
        .filter_map(clients_busy);
    let busy = busy.minmax().into_option()?;
    let [least, most] = [busy.0, busy.1].map(|share| percent(share.min(1.0)));
    caveat(
        format!(
            "The clients were busy for {} of the window or more: a rate or a latency may be theirs. Between two such cells these have no verdict, and what a request costs the server in CPU time has one.",
            percent(CLIENTS_BUSY)
        ),
        format!("the busiest thread of the clients was busy for {least} to {most} of the window"),
        "--placement with more CPUs for the clients, or --threads for more of them",
        ids(cells),
    )
}

fn served<'v>(run: &Measured<'v>) -> impl Iterator<Item = &'v CellTrials<'v>> {
    run.measured().filter(|c| c.cell.is_served())
}

pub(super) fn generator(run: &Measured<'_>) -> Option<Caveat> {
    let cells = served(run).filter(|c| clients_limit(c)).collect_vec();
    let trials = cells.iter().flat_map(|c| c.trials());
    let read = trials.filter_map(|t| {
        let late_ns = t.sent(Counter::GeneratorLateNsP99).unwrap_or(0.0);
        Some((clients_busy(t)?, late_ns))
    });
    let (busy, late): (Vec<f64>, Vec<f64>) = read.unzip();
    let [busy, late_ns] = [busy, late].map(|all| all.into_iter().fold(0.0, f64::max));
    let (busy, late_ms) = (percent(busy.min(1.0)), late_ns / 1e6);
    caveat(
        "The clients were themselves what limited these rates, or sent their requests late: rates and latencies say nothing of the servers there, the CPU time of the server for a request does. A server that they did not limit and that was slower beside one that they did is slower by at least as much.",
        format!(
            "a thread of the clients was busy for up to {busy} of the window, and sent 1 of 100 requests up to {late_ms:.1} ms late"
        ),
        "--placement with a CPU for the clients alone, --threads for more of them, or a lower --rate",
        ids(cells),
    )
}

/// A connection that found the queue full was tried again after a second, which is not the model's.
pub(super) fn listen_queue(run: &Measured<'_>) -> Option<Caveat> {
    let drops = |cell: &CellTrials<'_>| cell.sum(|t| t.of_all(Counter::TcpListenDrops));
    let cells = served(run).filter(|c| drops(c) > 0.0).collect_vec();
    cells.first()?;
    let count = units::number(cells.iter().map(|c| drops(c)).sum());
    of_circumstance(
        CircumstanceKind::ListenQueue,
        format!("the kernel's queue of new connections overflowed and dropped {count} of them"),
        "The queue of new connections of a listening socket was full. A connection that is dropped is tried again after 1 s, then 2 s later: that wait is the kernel's, and not the concurrency model's.",
        format!("{count} connections dropped (TcpExt ListenDrops), sum over trials"),
        ids(cells),
    )
}

/// The same wait where the queue had room: the network or a packet filter dropped what connects.
pub(super) fn connected_again(run: &Measured<'_>) -> Option<Caveat> {
    let sum = |cell: &CellTrials<'_>, counter| cell.sum(|t| t.of_all(counter));
    let again = |cell: &CellTrials<'_>| sum(cell, Counter::TcpSynRetransmits);
    let has_room = |cell: &CellTrials<'_>| sum(cell, Counter::TcpListenDrops) == 0.0;
    let cells = served(run).filter(|c| again(c) > 0.0 && has_room(c));
    let cells = cells.collect_vec();
    let count = units::number(cells.iter().map(|c| again(c)).sum());
    caveat(
        "Connections were tried again after 1 s, then 2 s later, since their SYN had no response: that wait is the kernel's, and not the concurrency model's.",
        format!("{count} SYN segments sent again (TcpExt TCPSynRetrans), sum over trials"),
        "find what drops them: `nft list ruleset`, `tc -s qdisc`, `nstat`; or stop other programs",
        ids(cells),
    )
}

pub(super) fn failed_requests(run: &Measured<'_>) -> Option<Caveat> {
    let text =
        "Requests failed, warm-up included: rates and latencies are of those that had a response.";
    failed_between(run, FAILED, MANY_FAILED, text)
}

/// What is missing is not missing by chance.
pub(super) fn many_failed_requests(run: &Measured<'_>) -> Option<Caveat> {
    let many = percent(MANY_FAILED);
    let text = format!(
        "More than {many} of the requests failed: rates and latencies of those that had a response say little of the server."
    );
    failed_between(run, MANY_FAILED, f64::INFINITY, &text)
}

/// The cells of which more than one share of the requests failed and no more than another.
fn failed_between<'v>(run: &Measured<'v>, few: f64, many: f64, text: &str) -> Option<Caveat> {
    let is_told = |cell: &&'v CellTrials<'v>| {
        let sum = |counter| cell.sum(|t| t.sent(counter));
        let failed: f64 = ERRORS.iter().map(|(counter, _)| sum(*counter)).sum();
        let share = failed / (failed + sum(Counter::Messages));
        failed > 0.0 && share > few && share <= many
    };
    let cells = served(run).filter(is_told).collect_vec();
    let sum = |counter| -> f64 { cells.iter().map(|c| c.sum(|t| t.sent(counter))).sum() };
    let kinds = ERRORS.iter().map(|(counter, what)| (sum(*counter), what));
    let kinds = kinds.filter(|(sum, _)| *sum > 0.0);
    let kinds = phrases::list(kinds.map(|(sum, what)| format!("{} {what}", units::number(sum))));
    let answers = units::number(sum(Counter::Messages));
    caveat(
        text,
        format!("{kinds}, beside {answers} answers"),
        "fewer --connections, a lower --rate, or --connect kept",
        ids(cells),
    )
}
