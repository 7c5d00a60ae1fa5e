//! Whether two CPUs seem to share a core, whatever the kernel tells: by what two threads of work
//! get done together against one alone, and by what a step of it then costs.
//!
//! Threads that take turns on one CPU get done what one does, at the same CPU time a step. Two
//! hardware threads of one core run at the same time and slow each other: each step costs more CPU
//! time. Wall time alone does not tell these apart.

use bytecost_spec::{Axis, Cell, Measure, Metric, Nearness, Placement};
use itertools::Itertools as _;

use super::{Explained, Why};
use crate::phrases;
use crate::result::Finding;

/// Work that needs a core's multipliers and no memory: what only a core can slow.
pub(super) const IN_REGISTERS: &[&str] = &["work-integer", "work-float"];
/// CPU time a step together, over alone, from which a core is shared; below the other it is not.
const SHARED: f64 = 1.25;
const OWN: f64 = 1.12;

pub(super) fn ask(why: &Why<'_>) -> Option<Explained> {
    let pairs = pairs(why);
    if !why
        .view
        .trials
        .moving()
        .any(|c| c.route.is_work() && c.cell.threads == 2)
    {
        return None;
    }
    let judged: Vec<&Pair<'_>> = (pairs.iter())
        .filter(|p| IN_REGISTERS.contains(&p.cell.mover.as_str()))
        .filter(|p| p.cell.placement != Placement::Near(Nearness::SameCpu))
        // Which two CPUs the scheduler chose, nobody knows.
        .filter(|p| p.cell.placement != Placement::Free)
        .collect();
    let places = judged.iter().map(|p| p.cell.placement.to_string()).unique();
    let answers: Vec<String> = places
        .map(|place| {
            let of_place = judged
                .iter()
                .filter(|p| p.cell.placement.to_string() == place);
            format!(
                "with placement {place} {}",
                verdict(&of_place.copied().collect::<Vec<_>>())
            )
        })
        .collect();
    let answer = if answers.is_empty() {
        Err("needs work-integer or work-float with one and with two threads, on two CPUs, in three blocks".to_owned())
    } else {
        Ok(format!("{}.", answers.join("; ")))
    };
    Some(Explained {
        answer,
        numbers: pairs.iter().map(row).collect(),
        evidence: why
            .view
            .input
            .manifest
            .host
            .virtualization
            .iter()
            .map(|v| {
                format!(
                    "under {v}: which of the host's threads a CPU is may change from run to run"
                )
            })
            .collect(),
        would_change: "a quiet machine, where the CPU time of a step is not raised by what others do on the host's cores",
        findings: pairs
            .iter()
            .flat_map(|p| [p.done.id.clone(), p.step.id.clone()])
            .collect(),
    })
}

/// Two threads against one, all else alike.
struct Pair<'v> {
    cell: Cell,
    /// What is done a second.
    done: &'v Finding,
    /// What a step costs.
    step: &'v Finding,
}

fn pairs<'v>(why: &Why<'v>) -> Vec<Pair<'v>> {
    let find = |measure: Measure, cell: &str| {
        why.view.findings.iter().find(|f| {
            f.axis == Axis::Threads
                && f.baseline_value == "1"
                && f.value == "2"
                && f.metric == Metric::both(measure)
                && f.cell == cell
        })
    };
    let two = why.view.trials.moving();
    two.filter(|c| c.route.is_work() && c.cell.threads == 2)
        .filter_map(|c| {
            Some(Pair {
                cell: c.cell.clone(),
                done: find(Measure::MessagesPerS, &c.id)?,
                step: find(Measure::CpuNsPerMessage, &c.id)?,
            })
        })
        .collect()
}

fn verdict(pairs: &[&Pair<'_>]) -> &'static str {
    let shared = pairs.iter().any(|p| p.step.low > SHARED);
    let own = pairs.iter().all(|p| p.step.high < OWN);
    match (shared, own) {
        (true, _) => "two CPUs seem to share a core: a step costs more CPU time when both work",
        (_, true) => {
            "each CPU seems to have a core of its own: a step costs the same CPU time when both work"
        }
        _ => "it is not decided whether the CPUs share a core: the intervals allow both",
    }
}

fn row(pair: &Pair<'_>) -> String {
    let ratio = |f: &Finding| phrases::ratio(f.ratio, f.low, f.high);
    format!(
        "{}, placement {}: two threads get done {} what one does, at {} its CPU time a step{}",
        Axis::Mover.subject(&pair.cell.mover),
        pair.cell.placement,
        ratio(pair.done),
        ratio(pair.step),
        match pair.cell.placement {
            Placement::Near(Nearness::SameCpu) => " (they take turns)",
            _ => "",
        }
    )
}
