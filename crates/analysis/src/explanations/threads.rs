//! How threads interact with caches, told apart from there being more threads than CPUs.

use bytecost_spec::{Axis, Measure, Metric};

use super::cache_levels::LEVELS;
use super::ranges::estimate;
use super::sockets::is_about_sockets;
use super::{Answers, Explained, Missing, Question, Why, why_absent};
use crate::grid;
use crate::grouping::grouped;
use crate::pairing::Pairing;
use crate::phrases;
use crate::trials::CellTrials;

pub(super) const QUESTION: Question = Question {
    key: "threads-and-caches",
    text: "How do threads interact with the caches, apart from there being more threads than CPUs?",
    asks: is_about_sockets,
    answers: Answers::Own(ask),
    would_change: "a machine with more CPUs, threads that are kept on CPUs of their own (--placement), or payload that does not fit into the caches (--ring)",
};

/// Threads of one flow: one sends, one receives.
const THREADS_OF_A_FLOW: usize = 2;

fn ask(why: &Why<'_>) -> Option<Explained> {
    let cells = most_flows(why);
    let cpus = why.view.cpus();
    Some(Explained {
        numbers: cells.iter().filter_map(|c| row(why, c)).collect(),
        evidence: vec![format!(
            "{}, {THREADS_OF_A_FLOW} threads a flow: up to {} each thread has a CPU",
            phrases::count(cpus, "CPU"),
            phrases::count(cpus / THREADS_OF_A_FLOW, "flow"),
        )],
        ..Explained::of(answer(why, &cells))
    })
}

/// The way that was measured at most numbers of flows, all else alike, the largest messages of
/// these first, by rising number; none where each was measured at one.
fn most_flows<'v>(why: &Why<'v>) -> Vec<&'v CellTrials<'v>> {
    let measured = why.view.measured();
    let groups = grouped(measured.map(|c| (c.cell.id_without(&[Axis::Threads]), c))).into_iter();
    let stalls = |c: &&CellTrials<'_>| why.view.stalls.waits(&c.id).is_some();
    let mut groups: Vec<Vec<&CellTrials<'_>>> = groups.map(|(_, cells)| cells).collect();
    groups.retain(|cells| cells.len() > 1 && !cells.iter().any(stalls));
    // The first of equals: the order of the plan.
    groups.sort_by_key(|cells| std::cmp::Reverse((cells.len(), cells[0].cell.size_bytes)));
    let mut cells = groups.into_iter().next().unwrap_or_default();
    cells.sort_by_key(|c| c.cell.threads);
    cells
}

fn flows(cell: &CellTrials<'_>) -> String {
    phrases::count(cell.cell.threads as usize, "flow")
}

fn fits(why: &Why<'_>, cell: &CellTrials<'_>) -> bool {
    THREADS_OF_A_FLOW * cell.cell.threads as usize <= why.view.cpus()
}

fn row(why: &Why<'_>, cell: &CellTrials<'_>) -> Option<String> {
    let result = why.result(&cell.id)?;
    let known = [
        Measure::ThroughputGbitPerS,
        Measure::ContextSwitchesPerMessage,
        Measure::L1dLoadMissesPerKib,
        Measure::LlcLoadMissesPerKib,
    ];
    let known = known.map(Metric::both).into_iter();
    let parts = known.filter_map(|metric| {
        let e = result.estimates.get(&metric)?;
        let told = format!("{} {}", phrases::metric(metric), estimate(e, metric));
        let of_each = metric.measure == Measure::ThroughputGbitPerS && cell.cell.threads > 1;
        let each = bytecost_spec::units::number(e.value / f64::from(cell.cell.threads));
        Some(if of_each {
            format!("{told}; {each} Gbit/s a flow")
        } else {
            told
        })
    });
    let crowded = if fits(why, cell) {
        ""
    } else {
        ", more threads than CPUs"
    };
    let held = why.varied.iter().copied().filter(|a| *a != Axis::Threads);
    let place = grid::coordinates(cell.cell, &held.collect::<Vec<_>>());
    let place = phrases::circumstances(&place);
    let parts = parts.collect::<Vec<_>>().join("; ");
    Some(format!("{}{crowded} ({place}): {parts}", flows(cell)))
}

/// How the misses of each counted level change between two numbers of flows.
fn misses<'v>(
    why: &Why<'v>,
    baseline: &'v CellTrials<'v>,
    other: &'v CellTrials<'v>,
) -> Option<String> {
    let pairing = Pairing {
        axis: Axis::Threads,
        baseline,
        other,
    };
    let levels = LEVELS.iter().filter_map(|(name, measure)| {
        let r = why.view.contrast(pairing, Metric::both(*measure))?.ratio();
        Some(format!(
            "{} in the {name}",
            phrases::ratio(r.value, r.low, r.high)
        ))
    });
    let levels: Vec<String> = levels.collect();
    (!levels.is_empty()).then(|| phrases::list(&levels))
}

fn answer<'v>(why: &Why<'v>, cells: &[&'v CellTrials<'v>]) -> Result<String, Missing> {
    let metric = Metric::both(LEVELS[1].1);
    if let Some(counter) = super::cache_levels::uncounted(why) {
        let missing = format!(
            "misses of the {counter} are not counted: {}",
            why_absent(why.view, metric)
        );
        return Err(Missing {
            why: missing,
            ever: true,
        });
    }
    let (Some(first), Some(last)) = (cells.first(), cells.last()) else {
        return Err("needs cells with several numbers of flows (--threads 1,2,4)".into());
    };
    let fitting = cells.iter().rev().find(|c| fits(why, c));
    let alone = fitting.filter(|c| c.cell.threads > first.cell.threads);
    let alone = alone.and_then(|c| Some((flows(c), misses(why, first, c)?)));
    let is_crowded = !fits(why, last);
    let crowded = is_crowded
        .then(|| misses(why, fitting.unwrap_or(first), last))
        .flatten();
    let (start, end) = (flows(first), flows(last));
    match (alone, crowded) {
        (Some((to, misses)), None) => Ok(format!(
            "with a CPU for each thread, from {start} to {to} the load misses per KiB become {misses}."
        )),
        (None, Some(misses)) => Ok(format!(
            "from {start} to {end} the load misses per KiB become {misses}, but there are more threads than CPUs, so that what taking turns on a CPU does to its caches is in it."
        )),
        (Some((to, misses)), Some(more)) => Ok(format!(
            "with a CPU for each thread, from {start} to {to} the load misses per KiB become {misses}; from there to {end}, where threads take turns on the CPUs, {more}."
        )),
        (None, None) => Err("no two numbers of flows have cache misses in three blocks".into()),
    }
}
