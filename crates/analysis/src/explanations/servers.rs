//! CPU time of a server's clients for a request, and memory of the server for a connection.

use bytecost_spec::{Axis, Connect, Counter, SideReadings};
use itertools::Itertools as _;

use super::pairs::{Answer, MeasuredWay};
use crate::cells::typical;
use crate::grouping::{by_key, grouped};
use crate::result::{Fact, Missing};
use crate::stages::Explained;
use crate::trials::CellTrials;
use crate::value::{Trial, read, served_messages, server_memory_bytes};

pub(super) fn serves(run: &Explained<'_>) -> bool {
    run.plans(|w| w.cell().is_served())
}

/// Returns true if its clients send a request as soon as they have a response.
pub(super) fn is_kept_busy(way: MeasuredWay<'_>) -> bool {
    let load = &way.cell().serving;
    load.rate_per_s.is_none() && !load.perf
}

pub(super) fn is_busy(way: MeasuredWay<'_>) -> bool {
    let load = &way.cell().serving;
    load.connect == Connect::Kept && load.idle == 0 && is_kept_busy(way)
}

/// CPU time of the clients of a closed loop for a request, and its share of the window: with few
/// connections a rate is that of server and clients in turn.
pub(super) fn clients_share(run: &Explained<'_>) -> Option<Answer> {
    let closed = |c: &&CellTrials<'_>| c.cell.is_served() && c.cell.serving.rate_per_s.is_none();
    let served = run.measured.trials.measured().filter(closed);
    let by_connections = by_key(served.map(|c| (c.cell.serving.connections, c))).into_iter();
    let facts = by_connections
        .filter_map(|(connections, cells)| {
            let ends = |value: fn(&SideReadings) -> Option<f64>| {
                let own = |c: &&CellTrials<'_>| usual(c, |t| value(&t.sample.sender));
                let known = cells.iter().filter_map(own).minmax();
                known.into_option().map(<[f64; 2]>::from)
            };
            Some(Fact::ClientWork {
                connections,
                cpu_us: ends(client_cpu_us)?,
                busy: ends(busy_share)?,
            })
        })
        .collect_vec();
    Some(Answer::from_facts(facts))
}

fn usual(cell: &CellTrials<'_>, of: impl Fn(&Trial<'_>) -> Option<f64>) -> Option<f64> {
    typical(&cell.trials().filter_map(of).collect_vec())
}

fn client_cpu_us(side: &SideReadings) -> Option<f64> {
    let messages = served_messages(side).ok().filter(|n| *n > 0.0)?;
    Some(read(side, Counter::CpuNs).ok()? / messages / 1e3)
}

fn busy_share(side: &SideReadings) -> Option<f64> {
    let window_ns: u64 = side.flows.iter().map(|f| f.elapsed_ns).sum();
    let busy_ns = read(side, Counter::GeneratorBusyNs).ok()?;
    (window_ns > 0).then(|| (busy_ns / window_ns as f64).min(1.0))
}

/// The fewest further connections from which the memory of one is computed; that of fewer is small
/// next to the memory of the process.
const FEWEST_MORE: u64 = 100;

/// Memory of a server for a further connection, at the first place of each server.
pub(super) fn memory(run: &Explained<'_>) -> Option<Answer> {
    let fits = |c: &&CellTrials<'_>| {
        let load = &c.cell.serving;
        c.cell.is_served() && load.connect == Connect::Kept && load.rate_per_s.is_none()
    };
    let place = |c: &CellTrials<'_>| c.cell.id_without(&[Axis::Connections, Axis::Idle]);
    let groups = grouped(
        run.measured
            .trials
            .measured()
            .filter(fits)
            .map(|c| (place(c), c)),
    );
    let bytes = |cell| usual(cell, |t| server_memory_bytes(t.sample).ok());
    let survey = &run.measured.input.manifest.survey;
    let rows = groups
        .into_iter()
        .filter_map(|(_, cells)| {
            let all = |c: &&CellTrials<'_>| c.cell.serving.all_connections();
            let (first, last) = cells.into_iter().minmax_by_key(all).into_option()?;
            let more = all(&last).saturating_sub(all(&first));
            let each = (bytes(last)? - bytes(first)?) / more as f64 / 1024.0;
            let server = last.cell.serving.server.clone()?;
            (more >= FEWEST_MORE).then(|| (server, each.max(0.0)))
        })
        .unique_by(|(server, _)| server.clone())
        .sorted_by(|(_, a), (_, b)| b.total_cmp(a))
        .collect_vec();
    let has_tasks = |name: &str| survey.server(name).is_some_and(|s| s.task_per_connection);
    let is_known = rows.iter().any(|(server, _)| has_tasks(server));
    let facts = rows
        .into_iter()
        .map(|(server, kib)| Fact::ConnectionMemory {
            has_tasks: has_tasks(&server),
            server,
            kib,
        });
    Some(Answer {
        missing: (!is_known).then_some(Missing::Cells),
        pairs: Vec::new(),
        facts: facts.collect(),
    })
}
