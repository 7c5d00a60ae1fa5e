//! Rates that tell no mover from another, since something else is the bottleneck.

use std::collections::{BTreeMap, BTreeSet};

use bytecost_spec::{Axis, Cache, Measure, Metric, Pattern, units};

use super::{UnnamedCaveat, ids, span};
use crate::phrases;
use crate::trials::CellTrials;
use crate::view::View;

/// Movers from which on their being alike says something.
const FEWEST: usize = 3;
/// How far rates may be apart at most to be alike, largest over least.
const ALIKE: f64 = 1.05;
/// How far apart the costs must be at least for the rates not to follow from them.
const UNLIKE: f64 = 1.1;
/// How many times as far apart as the rates, both as logarithms.
const TIMES: f64 = 3.0;
/// The mover, the size, and where the bytes come from: what holds the rate behind a sender asks for
/// none of them.
const FREE: [Axis; 4] = [Axis::Mover, Axis::Size, Axis::Cache, Axis::Block];

/// A cell with what it moved a second, and what that cost.
#[derive(Clone, Copy)]
struct Seen<'v> {
    cell: &'v CellTrials<'v>,
    rate: f64,
    cost: f64,
}

/// The cells that differ in the mover and the size, wherever it has its bytes from: each kind of
/// files with what is sent from memory beside it.
fn places<'v>(view: &View<'v>) -> Vec<Vec<Seen<'v>>> {
    let mut all: BTreeMap<(String, bool), Vec<Seen<'v>>> = BTreeMap::new();
    let streams = |c: &&CellTrials<'_>| c.cell.pattern == Pattern::Stream && !c.route.is_work();
    for cell in view.moved().filter(streams) {
        let of = |measure| {
            let metric = Metric::both(measure);
            cell.typical(|t| t.value(metric).known())
                .filter(|v| *v > 0.0)
        };
        let (Some(rate), Some(cost)) = (of(Measure::ThroughputGbitPerS), of(Measure::CpuSPerGb))
        else {
            continue;
        };
        // Behind what is sent nowhere there is a disk or none, which is the source's.
        let of_files = cell.route.is_of_files();
        let key = match of_files {
            true => cell.cell.id_without(&FREE[..2]),
            false => cell.cell.id_without(&FREE),
        };
        let seen = Seen { cell, rate, cost };
        all.entry((key, of_files)).or_default().push(seen);
    }
    let by_source = |place: Vec<Seen<'v>>| {
        let from = |s: &Seen<'_>| (s.cell.cell.cache != Cache::Memory).then(|| source(s.cell));
        let mut sources: Vec<_> = place.iter().map(from).collect();
        sources.sort();
        sources.dedup();
        if sources.len() > 1 {
            sources.retain(Option::is_some);
        }
        let mut of_sources = Vec::new();
        for source in sources {
            let here = |s: &&Seen<'_>| from(s).is_none() || from(s) == source;
            of_sources.push(place.iter().filter(here).copied().collect());
        }
        of_sources
    };
    all.into_values().flat_map(by_source).collect()
}

/// What the bytes of a file come by.
fn source(cell: &CellTrials<'_>) -> [String; 2] {
    [Axis::Cache, Axis::Block].map(|axis| cell.cell.value(axis))
}

/// The places whose rates are alike: all sizes of one, or some of them by themselves.
fn alike<'v>(view: &View<'v>) -> Vec<Vec<Seen<'v>>> {
    let mut found = Vec::new();
    for place in places(view) {
        if is_alike(&place) {
            found.push(place);
            continue;
        }
        let mut by_size: BTreeMap<u64, Vec<Seen<'v>>> = BTreeMap::new();
        for seen in place {
            let size = seen.cell.cell.size_bytes;
            by_size.entry(size).or_default().push(seen);
        }
        found.extend(by_size.into_values().filter(|place| is_alike(place)));
    }
    found
}

fn is_alike(place: &[Seen<'_>]) -> bool {
    let apart = |of: fn(&Seen<'_>) -> f64| {
        let most = place.iter().map(of).fold(0.0, f64::max);
        most / place.iter().map(of).fold(f64::INFINITY, f64::min)
    };
    let movers: BTreeSet<&str> = place.iter().map(|s| s.cell.cell.mover.as_str()).collect();
    let (rates, costs) = (apart(|s| s.rate), apart(|s| s.cost));
    movers.len() >= FEWEST && rates <= ALIKE && costs >= UNLIKE && costs.ln() >= TIMES * rates.ln()
}

pub(super) fn detect(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let found = alike(view);
    let Some(first) = found.first() else {
        return Vec::new();
    };
    let of = |of: fn(&Seen<'_>) -> f64| first.iter().map(of).collect::<Vec<f64>>();
    let gbit = |rate: f64| format!("{} Gbit/s", units::number(rate));
    let cost = |cost: f64| format!("{} s/GB", units::number(cost));
    let mut cells = ids(found.iter().flatten().map(|s| s.cell));
    let mut seen = BTreeSet::new();
    cells.retain(|id| seen.insert(id.clone()));
    vec![UnnamedCaveat {
        text: format!(
            "In {} the throughput of all movers is alike though their costs are not: something else is the bottleneck, and throughput says nothing of the movers there.",
            phrases::count(cells.len(), "cell")
        ),
        evidence: format!(
            "{} cells: {} at {} of CPU time",
            first.len(),
            span(&of(|s| s.rate), gbit),
            span(&of(|s| s.cost), cost)
        ),
        remedy: "compare the CPU time per byte; look for what holds the rate: a queueing discipline, the receiver, pacing, a window, the disk".to_owned(),
        cells,
    }]
}
