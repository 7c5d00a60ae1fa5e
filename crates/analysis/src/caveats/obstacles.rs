//! What was in the way: on the path of the packets, and around the whole run.

use std::collections::{BTreeMap, BTreeSet};

use bytecost_spec::host::{Obstacle, ObstacleKind};
use bytecost_spec::{Counter, units};

use super::{UnnamedCaveat, ids};
use crate::phrases;
use crate::trials::CellTrials;
use crate::value::machine;
use crate::view::View;

/// Share of the time up to which pauses by a quota go unremarked.
const HELD: f64 = 0.001;

/// What stood in the way of each cell's packets, with the cells.
fn by_obstacle<'v>(
    view: &View<'v>,
    limits: bool,
) -> BTreeMap<&'v Obstacle, Vec<&'v CellTrials<'v>>> {
    let mut all: BTreeMap<&Obstacle, Vec<&CellTrials<'_>>> = BTreeMap::new();
    for cell in view.measured() {
        let of_cell = cell.trials().flat_map(|t| &t.sample.obstacles);
        let once: BTreeSet<&Obstacle> = of_cell.filter(|o| o.limits == limits).collect();
        once.into_iter()
            .for_each(|o| all.entry(o).or_default().push(cell));
    }
    all
}

/// One for each thing that holds back what passes.
pub(super) fn limits(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let all = by_obstacle(view, true).into_iter();
    all.map(|(obstacle, cells)| UnnamedCaveat {
        text: format!(
            "A queueing discipline limits {}: {}. It sets the rates and latencies of these cells, not the movers.",
            obstacle.place, obstacle.found
        ),
        evidence: evidence(&[obstacle], &cells),
        remedy: obstacle.kind.remedy().to_owned(),
        cells: ids(cells),
    })
    .collect()
}

/// One for all that makes what passes cost more.
pub(super) fn costs(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let all = by_obstacle(view, false);
    let Some(first) = all.keys().next() else {
        return Vec::new();
    };
    let obstacles: Vec<&Obstacle> = all.keys().copied().collect();
    let mut names: Vec<String> = obstacles.iter().map(|o| named(o)).collect();
    names.dedup();
    let mut seen = BTreeSet::new();
    let cells = all.values().flatten().copied();
    let cells: Vec<&CellTrials<'_>> = cells.filter(|c| seen.insert(c.id.as_str())).collect();
    vec![UnnamedCaveat {
        text: format!(
            "The path is not as a kernel makes it: {}. Each packet costs more CPU time than usual, for all movers alike: ratios are closer to 1, and hold for this path alone.",
            phrases::list(&names)
        ),
        evidence: evidence(&obstacles, &cells),
        remedy: first.kind.remedy().to_owned(),
        cells: ids(cells),
    }]
}

fn named(obstacle: &Obstacle) -> String {
    match obstacle.kind {
        ObstacleKind::Qdisc => format!(
            "the queueing discipline {} on {}",
            obstacle.found, obstacle.place
        ),
        ObstacleKind::Filter | ObstacleKind::Tracking => obstacle.found.clone(),
        _ => format!("{} on {}", obstacle.found, obstacle.place),
    }
}

fn evidence(obstacles: &[&Obstacle], cells: &[&CellTrials<'_>]) -> String {
    let has = |o: &Obstacle| obstacles.contains(&o);
    let all = cells.iter().flat_map(|c| c.trials());
    let trials = all.filter(|t| t.sample.obstacles.iter().any(has)).count();
    format!(
        "read from the kernel after {}",
        phrases::count(trials, "trial")
    )
}

/// A quota around everything that stopped it.
pub(super) fn quota(view: &View<'_>) -> Vec<UnnamedCaveat> {
    // Those that do not count were stopped as well, and their time is in no other.
    let sum = |counter| {
        let read = view
            .input
            .samples
            .iter()
            .filter_map(|s| machine(s, counter).ok());
        read.sum::<f64>()
    };
    let periods = sum(Counter::QuotaThrottledPeriods);
    let held_s = sum(Counter::QuotaThrottledNs) / 1e9;
    let of_s = view
        .input
        .samples
        .iter()
        .map(|s| s.trial_ms as f64)
        .sum::<f64>()
        / 1e3;
    if held_s <= HELD * of_s {
        return Vec::new();
    }
    let host = &view.input.manifest.host;
    let quotas = host
        .obstacles
        .iter()
        .filter(|o| o.kind == ObstacleKind::Quota);
    let known: Vec<String> = quotas
        .map(|o| format!("; {} at {}", o.found, o.place))
        .collect();
    vec![UnnamedCaveat {
        text: "A CPU quota around the whole run stopped its threads: rates and latencies include these pauses. CPU time does not.".to_owned(),
        evidence: format!(
            "cpu.stat: used up in {} (nr_throttled), threads held back for {} s in {} s of trials{}",
            phrases::count(periods as usize, "period"),
            units::number(held_s),
            units::number(of_s),
            known.concat()
        ),
        remedy: ObstacleKind::Quota.remedy().to_owned(),
        cells: ids(view.measured()),
    }]
}
