//! What it is worth to hold threads of work on CPUs, and whether two that slow each other share a
//! core or take turns on one CPU.

use bytecost_spec::claim::Place;
use bytecost_spec::{Axis, Cell, Measure, Metric, Nearness, Placement};
use itertools::Itertools as _;

use super::ranges::{estimates, hull, span_of};
use super::shared_core::IN_REGISTERS;
use super::{Explained, MOST_ROWS, Why};
use crate::crossovers::Ratio;
use crate::grouping::grouped;
use crate::pairing::{Pairing, contrasted};
use crate::phrases;

const DONE: Metric = Metric::both(Measure::MessagesPerS);
const STEP: Metric = Metric::both(Measure::CpuNsPerMessage);
const MOVES: Metric = Metric::both(Measure::MigrationsPerS);

/// Two threads on one CPU take twice as long as on two; so far beside that a ratio still has its
/// mark.
const TURNS: std::ops::RangeInclusive<f64> = 1.9..=2.1;

/// A pair of cells with what the one gets done over what the other does.
struct Versus<'v> {
    pair: Pairing<'v, 'v>,
    done: Ratio,
}

/// Work at one placement against another, all else alike.
fn versus<'v>(why: &Why<'v>, value: &str, against: &str) -> Vec<Versus<'v>> {
    let everywhere = Place::new();
    let all = contrasted(
        why.view.trials,
        Axis::Placement,
        value,
        against,
        &everywhere,
    );
    all.into_iter()
        .filter(|p| p.other.route.is_work())
        .filter_map(|pair| {
            let done = Ratio::of(&pair.log_ratios(DONE))?;
            Some(Versus { pair, done })
        })
        .collect()
}

/// Placements of the plan that hold threads, in its order.
fn held(why: &Why<'_>) -> Vec<Placement> {
    let mut placements: Vec<Placement> = Vec::new();
    let work = why.view.trials.moving().filter(|c| c.route.is_work());
    for cell in work {
        let placement = &cell.cell.placement;
        if *placement != Placement::Free && !placements.contains(placement) {
            placements.push(placement.clone());
        }
    }
    placements
}

/// What pinning changes.
pub(super) fn pinning(why: &Why<'_>) -> Option<Explained> {
    let is_free = |c: &Cell| c.placement == Placement::Free;
    let mut work = why.view.trials.moving().filter(|c| c.route.is_work());
    let placements = held(why);
    if placements.is_empty() || !work.any(|c| is_free(c.cell)) {
        return None;
    }
    // Several threads that are held on one CPU take turns: that is no gain or loss of pinning.
    let keeps_apart =
        |c: &Cell| c.threads == 1 || c.placement != Placement::Near(Nearness::SameCpu);
    let found: Vec<Versus<'_>> = (placements.iter())
        .flat_map(|p| versus(why, &p.to_string(), "free"))
        .filter(|v| keeps_apart(v.pair.other.cell))
        .collect();
    let neighbours = found
        .iter()
        .map(|v| v.pair.other.cell.neighbour.to_string());
    let beside = |neighbour: &str| {
        let own = |v: &&Versus<'_>| v.pair.other.cell.neighbour.to_string() == neighbour;
        found.iter().filter(own).collect::<Vec<_>>()
    };
    let clauses: Vec<String> = (neighbours.unique())
        .map(|neighbour| {
            let own = beside(&neighbour);
            let ratios: Vec<Ratio> = own.iter().map(|v| v.done).collect();
            let head = match neighbour.as_str() {
                "idle" => "alone".to_owned(),
                other => format!("beside {other}"),
            };
            format!(
                "{head} {} of what free work does, in {}{}",
                hull(&ratios),
                phrases::count(own.len(), "cell"),
                matters(why, &ratios)
            )
        })
        .collect();
    let free: Vec<&str> = found.iter().map(|v| v.pair.baseline.id.as_str()).collect();
    let moves = estimates(why, &free, MOVES);
    Some(Explained {
        answer: if clauses.is_empty() {
            Err("no pinned work has three blocks in common with free work: needs more blocks (--budget)".to_owned())
        } else {
            Ok(format!("pinned work gets done {}.", clauses.join("; ")))
        },
        numbers: rows(&found),
        evidence: moves
            .map(|(_, told)| format!("moves of free threads between CPUs: {told}"))
            .into_iter()
            .collect(),
        would_change: "load that comes and goes on some CPUs and not on others (--neighbour spin@0), more threads than CPUs, or CPUs that share no cache",
        findings: findings(why, &found),
    })
}

/// Whether ratios lie within what the study calls a difference that matters.
fn matters(why: &Why<'_>, ratios: &[Ratio]) -> &'static str {
    let bound = 1.0 + why.view.input.manifest.study.smallest_effect;
    let within = |r: &Ratio| r.low >= 1.0 / bound && r.high <= bound;
    if ratios.iter().all(within) {
        ": no difference that matters"
    } else {
        ""
    }
}

/// Whether a slow-down of two threads is the sharing of a core or the taking of turns.
pub(super) fn turns(why: &Why<'_>) -> Option<Explained> {
    let sibling = Placement::Near(Nearness::SmtSibling);
    let one = Placement::Near(Nearness::SameCpu);
    let two = |c: &Cell| c.threads == 2;
    let mut work = why.view.trials.moving().filter(|c| c.route.is_work());
    if !work.any(|c| two(c.cell) && c.cell.placement == one) {
        return None;
    }
    let placements = held(why);
    let mut found: Vec<Versus<'_>> = placements
        .iter()
        .filter(|p| **p != one)
        .flat_map(|p| versus(why, &p.to_string(), one.to_string().as_str()))
        .collect();
    // Only what needs nothing but a core tells cores apart: memory slows by itself.
    found.retain(|v| {
        let cell = v.pair.other.cell;
        two(cell) && cell.neighbour.is_idle() && IN_REGISTERS.contains(&cell.mover.as_str())
    });
    let of = |siblings: bool| -> Vec<Ratio> {
        let own = |v: &&Versus<'_>| (v.pair.other.cell.placement == sibling) == siblings;
        found.iter().filter(own).map(|v| v.done).collect()
    };
    let (apart, shared) = (of(false), of(true));
    let told = |answer| Explained {
        answer,
        numbers: rows(&found),
        evidence: siblings(why, &sibling).into_iter().collect(),
        would_change: "a machine whose hardware threads are visible (placement smt-sibling), or other work: what waits for memory leaves a core to its sibling",
        findings: findings(why, &found),
    };
    if apart.is_empty() && shared.is_empty() {
        return Some(told(Err("needs work-integer or work-float of two threads on one logical CPU and on two, in three blocks".to_owned())));
    }
    let mut clauses = Vec::new();
    if !apart.is_empty() {
        let mark = if apart.iter().all(|r| TURNS.contains(&r.value)) {
            ", so that a ratio of run times near 2 has the mark of taking turns"
        } else {
            ""
        };
        clauses.push(format!(
            "on two CPUs two threads get done {} what they do by turns on one logical CPU{mark}",
            hull(&apart)
        ));
    }
    if !shared.is_empty() {
        let verdict = if shared.iter().all(|r| r.low > 1.0) {
            "which is more: a core is shared there, and no CPU"
        } else {
            "which is not more for sure: they may as well take turns"
        };
        clauses.push(format!(
            "on the siblings of one core {}, {verdict}",
            hull(&shared)
        ));
    }
    Some(told(Ok(format!("{}.", clauses.join("; ")))))
}

/// Why two threads of one core were not measured, where they were refused.
fn siblings(why: &Why<'_>, sibling: &Placement) -> Option<String> {
    let refusals = why.view.input.refusals.iter();
    let mut of = refusals.filter_map(|r| Some((Cell::from_id(&r.what)?, &r.why)));
    let (_, reason) = of.find(|(cell, _)| cell.placement == *sibling)?;
    Some(format!(
        "two threads of one core cannot be had here: {}",
        reason.trim_end_matches('.')
    ))
}

/// A row for each kind of work, placement and neighbour.
fn rows(found: &[Versus<'_>]) -> Vec<String> {
    let row = |v: &Versus<'_>| {
        let cell = v.pair.other.cell;
        let head = format!(
            "{}, placement {} against {}",
            Axis::Mover.subject(&cell.mover),
            cell.placement,
            v.pair.baseline.cell.placement
        );
        let cost = Ratio::of(&v.pair.log_ratios(STEP)).map_or_else(String::new, |r| {
            format!(
                ", at {} the CPU time a step",
                phrases::ratio(r.value, r.low, r.high)
            )
        });
        let done = phrases::ratio(v.done.value, v.done.low, v.done.high);
        let mut told = format!(
            "{done} is done by {}{cost}",
            Axis::Threads.subject(&cell.threads.to_string())
        );
        if !cell.neighbour.is_idle() {
            told.push_str(&format!(" beside {}", cell.neighbour));
        }
        (head, told)
    };
    let rows = grouped(found.iter().map(row)).into_iter();
    let told = rows.map(|(head, list)| format!("{head}: {}", span_of(&list)));
    told.take(MOST_ROWS).collect()
}

/// The run's own findings of the pairs, either way round.
fn findings(why: &Why<'_>, found: &[Versus<'_>]) -> Vec<String> {
    let is_of = |f: &&crate::result::Finding| {
        f.metric == DONE
            && found.iter().any(|v| {
                let pair = [v.pair.baseline.id.as_str(), v.pair.other.id.as_str()];
                pair == [&*f.baseline, &*f.cell] || pair == [&*f.cell, &*f.baseline]
            })
    };
    let own = why.view.findings.iter().filter(is_of);
    own.map(|f| f.id.clone()).collect()
}
