//! What keeps work from its neighbour, and what classes, weights and quotas do to wake-ups.

use bytecost_spec::{Axis, Cell, Class, Measure, Metric};
use itertools::Itertools as _;

use super::{Explained, Why, estimate};
use crate::phrases;
use crate::result::{CellResult, Finding};

const RATE: Metric = Metric::both(Measure::MessagesPerS);
const LATE: Metric = Metric::both(Measure::LatencyUsP99);
const THROTTLED: Metric = Metric::both(Measure::ThrottledShare);
/// Work is kept where it gets done at least so much of what it gets done alone.
const KEPT: f64 = 0.9;

/// Which class or group keeps work from a neighbour.
pub(super) fn protects(why: &Why<'_>) -> Option<Explained> {
    let asked = |c: &Cell| !c.neighbour.is_idle() && !is_waking(c);
    if !set_apart(why).any(|c| asked(&c)) {
        return None;
    }
    let cell = |f: &Finding| Cell::from_id(&f.cell);
    let of_neighbour = why.view.findings.iter().filter(|f| {
        let of_it = f.axis == Axis::Neighbour && f.baseline_value == "idle" && f.metric == RATE;
        of_it && cell(f).is_some_and(|c| asked(&c) && is_work(why, &c))
    });
    let found: Vec<(Cell, &Finding)> = of_neighbour.filter_map(|f| Some((cell(f)?, f))).collect();
    let (mut kept, mut lost, mut open) = (Vec::new(), Vec::new(), Vec::new());
    for name in found.iter().map(|(cell, _)| setting(cell)).unique() {
        let own = || found.iter().filter(|(c, _)| setting(c) == name);
        if own().all(|(_, f)| f.low >= KEPT) {
            kept.push(name);
        } else if own().any(|(_, f)| f.high < KEPT) {
            lost.push(name);
        } else {
            open.push(name);
        }
    }
    let clauses = [
        (kept, "at least nine tenths of what it does alone with"),
        (lost, "less than nine tenths of it with"),
        (open, "a share that is not decided with"),
    ];
    let clauses: Vec<String> = (clauses.iter())
        .filter(|(names, _)| !names.is_empty())
        .map(|(names, what)| format!("{what} {}", phrases::list(names)))
        .collect();
    Some(Explained {
        answer: if clauses.is_empty() {
            Err("needs work with the same class or group beside a neighbour and without one, in three blocks".to_owned())
        } else {
            Ok(format!(
                "beside the neighbour work keeps {}.",
                clauses.join("; ")
            ))
        },
        numbers: found.iter().map(|(c, f)| kept_row(c, f)).collect(),
        evidence: limited(&found),
        would_change: "a neighbour of another class or in a group of its own, more threads than CPUs, and caches and memory, which no class or group divides",
        findings: found.iter().map(|(_, f)| f.id.clone()).collect(),
    })
}

/// What a limit means for a share of what is done alone.
fn limited(found: &[(Cell, &Finding)]) -> Vec<String> {
    let limits = |c: &Cell| c.class == Class::Deadline || c.cgroup.quota_percent.is_some();
    let any = found.iter().any(|(c, _)| limits(c));
    let told = "a deadline thread and a quota are limits as well: alone work gets done no more with them than they allow";
    any.then(|| told.to_owned()).into_iter().collect()
}

/// What classes, weights and quotas do to the latest of a hundred wake-ups.
pub(super) fn wakes(why: &Why<'_>) -> Option<Explained> {
    if !set_apart(why).any(|c| is_waking(&c)) {
        return None;
    }
    let found: Vec<(Cell, &Finding)> = (why.view.findings.iter())
        .filter(|f| matches!(f.axis, Axis::Class | Axis::Cgroup) && f.metric == LATE)
        .filter_map(|f| Some((Cell::from_id(&f.cell)?, f)))
        .filter(|(c, _)| is_waking(c))
        .collect();
    let groups = [true, false].map(|idle| {
        let of_kind = |by: fn(&Finding) -> bool| -> Vec<String> {
            (found.iter())
                .filter(|(c, f)| c.neighbour.is_idle() == idle && by(f))
                .map(|(c, _)| format!("{} (`{}`)", setting(c), c.mover))
                .collect()
        };
        let (sooner, later) = (of_kind(|f| f.high < 1.0), of_kind(|f| f.low > 1.0));
        let mut clauses = Vec::new();
        if !sooner.is_empty() {
            clauses.push(format!("sooner with {}", phrases::list(&sooner)));
        }
        if !later.is_empty() {
            clauses.push(format!("later with {}", phrases::list(&later)));
        }
        let place = match idle {
            true => "alone",
            false => "beside the neighbour",
        };
        (!clauses.is_empty()).then(|| format!("{place} it is {}", clauses.join(", ")))
    });
    let groups: Vec<String> = groups.into_iter().flatten().collect();
    let answer = match (found.is_empty(), groups.is_empty()) {
        (true, _) => Err(
            "needs wake-up or wake-work with and without a class or group, in three blocks"
                .to_owned(),
        ),
        (_, true) => Ok(
            "no class or group was shown to make the latest of a hundred wake-ups sooner or later."
                .to_owned(),
        ),
        _ => Ok(format!(
            "of the latest of a hundred wake-ups: {}.",
            groups.join("; ")
        )),
    };
    Some(Explained {
        answer,
        numbers: (found.iter()).map(|(c, f)| wake_row(why, c, f)).collect(),
        evidence: throttled(why),
        would_change: "other intervals between beats, other amounts of work at each, and other periods of the quota: a thread that has used it up waits for the end of its period",
        findings: found.iter().map(|(_, f)| f.id.clone()).collect(),
    })
}

/// Cells of work that have a class or a group.
fn set_apart<'v>(why: &Why<'v>) -> impl Iterator<Item = Cell> + use<'v> {
    let work = why.view.trials.moving().filter(|c| c.route.is_work());
    work.map(|c| c.cell.clone())
        .filter(|c| c.class != Class::default() || !c.cgroup.is_none())
}

fn is_work(why: &Why<'_>, cell: &Cell) -> bool {
    let survey = &why.view.input.manifest.survey;
    survey.mover(&cell.mover).is_some_and(|m| m.route.is_work())
}

/// Whether what the cell's thread does is to wake up.
fn is_waking(cell: &Cell) -> bool {
    cell.mover.starts_with("wake-")
}

fn setting(cell: &Cell) -> String {
    let class = format!("class {}", cell.class);
    match (cell.class == Class::default(), cell.cgroup.is_none()) {
        (true, true) => "the usual class".to_owned(),
        (false, true) => class,
        (true, false) => format!("cgroup {}", cell.cgroup),
        (false, false) => format!("{class} and cgroup {}", cell.cgroup),
    }
}

fn kept_row(cell: &Cell, finding: &Finding) -> String {
    format!(
        "`{}` with {}, neighbour {}: {} of what it gets done alone",
        cell.mover,
        setting(cell),
        cell.neighbour,
        phrases::ratio(finding.ratio, finding.low, finding.high)
    )
}

fn wake_row(why: &Why<'_>, cell: &Cell, finding: &Finding) -> String {
    let find = |id: &str| why.view.cells.iter().find(|c| c.id == id);
    let told = |cell: Option<&CellResult>| {
        let known = cell.and_then(|c| c.estimates.get(&LATE));
        known.map_or_else(|| "unknown".to_owned(), |e| estimate(e, LATE))
    };
    format!(
        "`{}` with {}, neighbour {}: p99 {} against {}, {}",
        cell.mover,
        setting(cell),
        cell.neighbour,
        told(find(&finding.cell)),
        told(find(&finding.baseline)),
        phrases::ratio(finding.ratio, finding.low, finding.high)
    )
}

/// How much of the time quotas held threads back.
fn throttled(why: &Why<'_>) -> Vec<String> {
    let waking = why.view.cells.iter().filter(|c| is_waking(&c.cell));
    waking
        .filter_map(|c| {
            let held = c.estimates.get(&THROTTLED)?;
            Some(format!(
                "`{}` with {}, neighbour {}: the quota held it back for {} of the time",
                c.cell.mover,
                setting(&c.cell),
                c.cell.neighbour,
                phrases::percent(held.value)
            ))
        })
        .collect()
}
