//! What clients of a server take for a request, and what a connection takes of memory.

use bytecost_spec::{Axis, Connect, Counter, SideReadings};
use itertools::Itertools as _;

use super::pairs::{Answer, MeasuredWay};
use crate::cells::typical;
use crate::grouping::{by_key, grouped};
use crate::result::{Fact, Missing};
use crate::stages::Explained;
use crate::trials::CellTrials;
use crate::value::served::{memory_bytes, messages};
use crate::value::{Trial, read};

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

/// What the clients of a closed loop take for a request, and how much of the window that fills:
/// with few connections a rate is that of server and clients in turn.
pub(super) fn clients_share(run: &Explained<'_>) -> Option<Answer> {
    let closed = |c: &&CellTrials<'_>| c.cell.is_served() && c.cell.serving.rate_per_s.is_none();
    let cells = run.measured().filter(closed);
    let by_connections = by_key(cells.map(|c| (c.cell.serving.connections, c))).into_iter();
    let facts = by_connections.filter_map(|(connections, cells)| {
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
    });
    let facts = facts.collect_vec();
    Some(Answer {
        missing: facts.is_empty().then_some(Missing::Cells),
        pairs: Vec::new(),
        facts,
    })
}

fn usual(cell: &CellTrials<'_>, of: impl Fn(&Trial<'_>) -> Option<f64>) -> Option<f64> {
    typical(&cell.trials().filter_map(of).collect_vec())
}

fn client_cpu_us(side: &SideReadings) -> Option<f64> {
    let messages = messages(side).ok().filter(|n| *n > 0.0)?;
    Some(read(side, Counter::CpuNs).ok()? / messages / 1e3)
}

fn busy_share(side: &SideReadings) -> Option<f64> {
    let window_ns: u64 = side.flows.iter().map(|f| f.elapsed_ns).sum();
    let busy_ns = read(side, Counter::GeneratorBusyNs).ok()?;
    (window_ns > 0).then(|| (busy_ns / window_ns as f64).min(1.0))
}

/// Of fewer further connections what each costs drowns in what the process has anyway.
const FEWEST_MORE: u64 = 100;

/// What a further connection takes of memory, at the first place of each server.
pub(super) fn memory(run: &Explained<'_>) -> Option<Answer> {
    let fits = |c: &&CellTrials<'_>| {
        let load = &c.cell.serving;
        c.cell.is_served() && load.connect == Connect::Kept && load.rate_per_s.is_none()
    };
    let place = |c: &CellTrials<'_>| c.cell.id_without(&[Axis::Connections, Axis::Idle]);
    let groups = grouped(run.measured().filter(fits).map(|c| (place(c), c)));
    let bytes = |cell| usual(cell, |t| memory_bytes(t.sample).ok());
    let survey = &run.input.manifest.survey;
    let rows = groups.into_iter().filter_map(|(_, cells)| {
        let all = |c: &&CellTrials<'_>| c.cell.serving.all_connections();
        let (first, last) = cells.into_iter().minmax_by_key(all).into_option()?;
        let more = all(&last).saturating_sub(all(&first));
        let each = (bytes(last)? - bytes(first)?) / more as f64 / 1024.0;
        let server = last.cell.serving.server.clone()?;
        let has_tasks = survey
            .server(&server)
            .is_some_and(|s| s.task_per_connection);
        (more >= FEWEST_MORE).then(|| (server, each.max(0.0), has_tasks))
    });
    let rows = rows.unique_by(|(server, ..)| server.clone());
    let rows = rows.sorted_by(|a, b| b.1.total_cmp(&a.1)).collect_vec();
    let is_known = rows.iter().any(|(.., has_tasks)| *has_tasks);
    let facts = rows
        .into_iter()
        .map(|(server, kib, has_tasks)| Fact::ConnectionMemory {
            server,
            kib,
            has_tasks,
        });
    Some(Answer {
        missing: (!is_known).then_some(Missing::Cells),
        pairs: Vec::new(),
        facts: facts.collect(),
    })
}
