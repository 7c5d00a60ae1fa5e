//! The counters of a published table of servers, of each role of each measured cell.

use bytecost_spec::{Counter, Side, SideReadings};

use crate::cells::typical;
use crate::result::{NoValue, RoleCounter, RoleCounters};
use crate::trials::{CellTrials, Trials};
use crate::value::{FAULTS, Found, SWITCHES, read, served_messages};

/// A column of the table: the sum of some counters in a unit.
struct Column {
    name: &'static str,
    counters: &'static [Counter],
    /// The number of counts in a unit.
    unit: f64,
}

const fn column(name: &'static str, counters: &'static [Counter], unit: f64) -> Column {
    Column {
        name,
        counters,
        unit,
    }
}

const COLUMNS: &[Column] = &[
    column("task_clock_us", &[Counter::TaskClockNs], 1e3),
    column("context_switches", &SWITCHES, 1.0),
    column("cpu_migrations", &[Counter::Migrations], 1.0),
    column("cpu_cycles", &[Counter::Cycles], 1.0),
    column("page_faults", &FAULTS, 1.0),
    column("instructions", &[Counter::Instructions], 1.0),
    column("bus_cycles", &[Counter::BusCycles], 1.0),
    column("cache_misses", &[Counter::CacheMisses], 1.0),
    column("branch_instructions", &[Counter::Branches], 1.0),
    column("branch_misses", &[Counter::BranchMisses], 1.0),
];

/// Both roles of every measured cell with a server, in the order of the plan. Where perf events
/// were read in some, only these cells are listed, since the others lack them.
pub(crate) fn all(trials: &Trials<'_>) -> Vec<RoleCounters> {
    let served = trials.moving().filter(|c| c.cell.is_served());
    let mut cells: Vec<&CellTrials<'_>> = served.filter(|c| !c.by_block.is_empty()).collect();
    if cells.iter().any(|c| c.cell.serving.perf) {
        cells.retain(|c| c.cell.serving.perf);
    }
    let roles = [Side::Server, Side::Client];
    let each = |cell: &&CellTrials<'_>| {
        roles
            .map(|role| role_counters(cell, role))
            .into_iter()
            .flatten()
    };
    cells.iter().flat_map(each).collect()
}

/// The counters of a role in a cell; none where a trial has no such side.
fn role_counters(cell: &CellTrials<'_>, role: Side) -> Option<RoleCounters> {
    let played = cell.trials().map(|t| t.played(role).first().copied());
    let sides: Vec<&SideReadings> = played.collect::<Option<_>>()?;
    let usual = |of: &dyn Fn(&SideReadings) -> Found| {
        let found: Vec<Found> = sides.iter().map(|side| of(side)).collect();
        let known: Vec<f64> = found.iter().flatten().copied().collect();
        let why = found.into_iter().find_map(Result::err);
        typical(&known).ok_or_else(|| why.unwrap_or(NoValue::NoNumber))
    };
    let counters = COLUMNS.iter().map(|column| {
        let found = usual(&|side| {
            let sum: Found = column.counters.iter().map(|c| read(side, *c)).sum();
            let requests = served_messages(side)?;
            if requests > 0.0 {
                Ok(sum? / column.unit / requests)
            } else {
                Err(NoValue::NoResponse)
            }
        });
        RoleCounter {
            name: column.name.to_owned(),
            per_request: found.as_ref().ok().copied(),
            absent: found.err(),
        }
    });
    Some(RoleCounters {
        cell: cell.id.clone(),
        role,
        window_ms: usual(&|side| Ok(read(side, Counter::ElapsedNs)? / 1e6)).ok()?,
        requests: usual(&served_messages).ok()?,
        counters: counters.collect(),
    })
}
