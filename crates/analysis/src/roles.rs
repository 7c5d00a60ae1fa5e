//! The counters of a published table of servers, of each role of each measured cell.

use bytecost_spec::{Counter, Side, SideReadings};

use crate::cells::typical;
use crate::result::{RoleCounter, RoleCounters};
use crate::trials::{CellTrials, Trials};
use crate::value::served::messages;
use crate::value::{FAULTS, Found, SWITCHES, read};

/// Its columns: the name here, the counters that it is the sum of, how many of these are one unit.
const COLUMNS: &[(&str, &[Counter], f64)] = &[
    ("task_clock_us", &[Counter::TaskClockNs], 1e3),
    ("context_switches", &SWITCHES, 1.0),
    ("cpu_migrations", &[Counter::Migrations], 1.0),
    ("cpu_cycles", &[Counter::Cycles], 1.0),
    ("page_faults", &FAULTS, 1.0),
    ("instructions", &[Counter::Instructions], 1.0),
    ("bus_cycles", &[Counter::BusCycles], 1.0),
    ("cache_misses", &[Counter::CacheMisses], 1.0),
    ("branch_instructions", &[Counter::Branches], 1.0),
    ("branch_misses", &[Counter::BranchMisses], 1.0),
];

/// Both roles of every measured cell with a server, in the order of the plan. Where perf events
/// were read in some, they are what the others lack, and these alone are told.
pub(crate) fn all(trials: &Trials<'_>) -> Vec<RoleCounters> {
    let served = trials.moving().filter(|c| c.cell.is_served());
    let mut cells: Vec<&CellTrials<'_>> = served.filter(|c| !c.by_block.is_empty()).collect();
    if cells.iter().any(|c| c.cell.serving.perf) {
        cells.retain(|c| c.cell.serving.perf);
    }
    let roles = [Side::Server, Side::Client];
    let each = |cell: &&CellTrials<'_>| roles.map(|role| of(cell, role)).into_iter().flatten();
    cells.iter().flat_map(each).collect()
}

/// None where a trial has no such side.
fn of(cell: &CellTrials<'_>, role: Side) -> Option<RoleCounters> {
    let sides = cell.trials().map(|t| t.played(role).first().copied());
    let sides: Vec<&SideReadings> = sides.collect::<Option<_>>()?;
    let usual = |of: &dyn Fn(&SideReadings) -> Found| {
        let found: Vec<Found> = sides.iter().map(|side| of(side)).collect();
        let known: Vec<f64> = found.iter().flatten().copied().collect();
        let why = found.into_iter().find_map(Result::err);
        typical(&known).ok_or_else(|| why.unwrap_or_default())
    };
    let counters = COLUMNS.iter().map(|(name, counters, of_one)| {
        let found = usual(&|side| {
            let sum: Found = counters.iter().map(|c| read(side, *c)).sum();
            let requests = messages(side)?;
            match requests > 0.0 {
                true => Ok(sum? / of_one / requests),
                false => Err("no request had a response".to_owned()),
            }
        });
        RoleCounter {
            name: (*name).to_owned(),
            per_request: found.as_ref().ok().copied(),
            absent: found.err(),
        }
    });
    Some(RoleCounters {
        cell: cell.id.clone(),
        role,
        window_ms: usual(&|side| Ok(read(side, Counter::ElapsedNs)? / 1e6)).ok()?,
        requests: usual(&messages).ok()?,
        counters: counters.collect(),
    })
}
