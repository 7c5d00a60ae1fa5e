//! What was in the way: on the path of the packets, and around the whole run.

use std::collections::BTreeMap;

use bytecost_spec::CircumstanceKind;
use bytecost_spec::host::Obstacle;
use bytecost_spec::{Counter, units};
use itertools::Itertools as _;

use super::{Caveat, clause, ids, known, of_circumstance};
use crate::grouping::by_key;
use crate::phrases;
use crate::stages::Measured;
use crate::trials::CellTrials;
use crate::value::{Trial, machine};

/// Share of the time up to which pauses by a quota go unremarked.
const HELD: f64 = 0.001;

/// What stood in the way of each cell's packets, with the cells.
fn by_obstacle<'v>(
    run: &Measured<'v>,
    limits: bool,
) -> BTreeMap<&'v Obstacle, Vec<&'v CellTrials<'v>>> {
    by_key(run.measured().flat_map(|cell| {
        let of_cell = cell.trials().flat_map(|t| &t.sample.obstacles);
        let of_path = of_cell.filter(|o| o.kind != CircumstanceKind::Tracer);
        let own = of_path.filter(move |o| o.limits == limits).sorted().dedup();
        own.map(move |o| (o, cell))
    }))
}

pub(super) fn limits(run: &Measured<'_>) -> Vec<Caveat> {
    let all = by_obstacle(run, true).into_iter();
    let told = all.filter_map(|(obstacle, cells)| {
        let Obstacle { place, found, .. } = obstacle;
        let what = match obstacle.kind {
            CircumstanceKind::TcFilter => "A filter of tc",
            _ => "A queueing discipline",
        };
        let caveat = of_circumstance(
            obstacle.kind,
            format!("{found} limits {place}"),
            format!(
                "{what} limits {place}: {found}. It sets the rates and latencies of these cells, not the movers."
            ),
            evidence(&[obstacle], &cells),
            ids(cells),
        )?;
        Some(Caveat {
            remedy: obstacle.remedy(),
            ..caveat
        })
    });
    told.collect()
}

pub(super) fn costs(run: &Measured<'_>) -> Option<Caveat> {
    let all = by_obstacle(run, false);
    let first = all.keys().next()?;
    let obstacles = all.keys().copied().collect_vec();
    let names = phrases::list(obstacles.iter().map(|o| named(o)).dedup());
    let kinds = obstacles.iter().map(|o| o.kind).dedup();
    let means = kinds.map(|kind| kind.row().means).join("; ");
    let means = phrases::sentence(&phrases::capital(&means));
    let cells = all.values().flatten().copied();
    let cells = cells.unique_by(|c| &c.id).collect_vec();
    let sockets = match obstacles
        .iter()
        .any(|o| o.kind == CircumstanceKind::SocketMemory)
    {
        true => buffers(&cells),
        false => String::new(),
    };
    let caveat = of_circumstance(
        first.kind,
        names.clone(),
        format!(
            "The path is not as a kernel makes it: {names}. {means} Costs, rates and their ratios hold for this path; what they are without that was not measured."
        ),
        evidence(&obstacles, &cells) + &sockets,
        ids(cells),
    )?;
    Some(Caveat {
        remedy: first.remedy(),
        ..caveat
    })
}

pub(super) fn tracer(run: &Measured<'_>) -> Option<Caveat> {
    let is_tracer = |o: &&Obstacle| o.kind == CircumstanceKind::Tracer;
    let traced = |cell: &CellTrials<'_>| {
        cell.trials()
            .any(|t| t.sample.obstacles.iter().any(|o| is_tracer(&o)))
    };
    let cells = run.measured().filter(|c| traced(c)).collect_vec();
    let found = cells
        .iter()
        .flat_map(|c| c.trials())
        .flat_map(|t| &t.sample.obstacles);
    let found = found.filter(is_tracer).map(|o| &o.found).min()?;
    of_circumstance(
        CircumstanceKind::Tracer,
        format!("the processes were {found}"),
        "A tracer stopped the threads of these cells at their system calls: costs, rates and latencies are the tracer's, and movers with more calls look worse than they are.",
        format!("TracerPid in /proc/PID/status: {found}"),
        ids(cells),
    )
}

/// The buffers that sockets got: `; SO_SNDBUF 4,096 B, SO_RCVBUF 8,192 B`.
fn buffers(cells: &[&CellTrials<'_>]) -> String {
    let span_of = |read: fn(&Trial<'_>) -> Option<f64>| {
        let read = cells.iter().flat_map(|c| c.trials()).filter_map(read);
        known(&read.collect_vec(), |bytes| {
            format!("{} B", units::number(bytes))
        })
    };
    let sent = span_of(|t| t.sent(Counter::SendBufferBytes));
    let received = span_of(|t| t.received(Counter::ReceiveBufferBytes));
    clause("; SO_SNDBUF {}", &sent) + &clause(", SO_RCVBUF {}", &received)
}

fn named(obstacle: &Obstacle) -> String {
    let Obstacle { found, place, .. } = obstacle;
    match obstacle.kind {
        CircumstanceKind::Qdisc => format!("the queueing discipline {found} on {place}"),
        CircumstanceKind::Filter | CircumstanceKind::Tracking | CircumstanceKind::SocketMemory => {
            found.clone()
        }
        _ => format!("{found} on {place}"),
    }
}

fn evidence(obstacles: &[&Obstacle], cells: &[&CellTrials<'_>]) -> String {
    let has = |o: &Obstacle| obstacles.contains(&o);
    let all = cells.iter().flat_map(|c| c.trials());
    let trials = all.filter(|t| t.sample.obstacles.iter().any(has)).count();
    "read from the kernel after ".to_owned() + &phrases::count(trials, "trial")
}

pub(super) fn quota(run: &Measured<'_>) -> Option<Caveat> {
    // Those that do not count were stopped as well, and their time is in no other.
    let samples = || run.input.samples.iter();
    let sum = |counter| -> f64 { samples().filter_map(|s| machine(s, counter).ok()).sum() };
    let periods = sum(Counter::QuotaThrottledPeriods);
    let held_s = sum(Counter::QuotaThrottledNs) / 1e9;
    let of_s = samples().map(|s| s.trial_ms as f64).sum::<f64>() / 1e3;
    if held_s <= HELD * of_s {
        return None;
    }
    let all = run.input.manifest.host.obstacles.iter();
    let quotas = all.filter(|o| o.kind == CircumstanceKind::Quota);
    let known = |o: &Obstacle| format!("; {} at {}", o.found, o.place);
    let known: String = quotas.map(known).collect();
    let [held, of] = [held_s, of_s].map(units::number);
    let periods = phrases::count(periods as usize, "period");
    of_circumstance(
        CircumstanceKind::Quota,
        format!("a CPU quota held threads back for {held} s in {of} s"),
        "A CPU quota around the whole run stopped its threads: rates and latencies include these pauses. CPU time does not.",
        format!(
            "cpu.stat: used up in {periods} (nr_throttled), threads held back for {held} s in {of} s of trials{known}"
        ),
        ids(run.measured()),
    )
}
