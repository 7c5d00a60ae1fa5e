//! Rates that tell no mover from another, since something else is the bottleneck.

use std::collections::BTreeMap;

use bytecost_spec::{Axis, Measure, Metric, Pattern, units};

use super::{Told, View, ids, span, typical};
use crate::trials::CellTrials;
use crate::words;

/// Movers from which on their being alike says something.
const FEWEST: usize = 3;
/// How far rates may be apart at most to be alike, largest over least.
const ALIKE: f64 = 1.05;
/// How far apart the costs must be for the rates not to follow from them.
const UNLIKE: f64 = 1.3;

/// The movers of one place.
struct Place<'v> {
    cells: Vec<&'v CellTrials<'v>>,
    rates: Vec<f64>,
    costs: Vec<f64>,
}

fn apart(values: &[f64]) -> f64 {
    let most = values.iter().copied().fold(0.0, f64::max);
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    most / least
}

fn places<'v>(view: &View<'v>) -> Vec<Place<'v>> {
    let mut places: BTreeMap<(String, bool), Place<'v>> = BTreeMap::new();
    let streams = |c: &&CellTrials<'_>| c.cell.pattern == Pattern::Stream && !c.route.is_work();
    for cell in view.moved().filter(streams) {
        let of = |measure| {
            let metric = Metric::both(measure);
            typical(cell, |t| t.value(metric).known()).filter(|v| *v > 0.0)
        };
        let (Some(rate), Some(cost)) = (of(Measure::ThroughputGbitPerS), of(Measure::CpuSPerGb))
        else {
            continue;
        };
        let key = (
            cell.cell.id_without(&[Axis::Mover]),
            cell.route.is_of_files(),
        );
        let place = places.entry(key).or_insert_with(|| Place {
            cells: Vec::new(),
            rates: Vec::new(),
            costs: Vec::new(),
        });
        place.cells.push(cell);
        place.rates.push(rate);
        place.costs.push(cost);
    }
    places.into_values().collect()
}

pub(super) fn detect(view: &View<'_>) -> Vec<Told> {
    let same = |p: &Place<'_>| {
        p.cells.len() >= FEWEST && apart(&p.rates) <= ALIKE && apart(&p.costs) >= UNLIKE
    };
    let found: Vec<Place<'_>> = places(view).into_iter().filter(same).collect();
    let Some(first) = found.first() else {
        return Vec::new();
    };
    let gbit = |rate: f64| format!("{} Gbit/s", units::number(rate));
    let cost = |cost: f64| format!("{} s/GB", units::number(cost));
    vec![Told {
        text: format!(
            "{} the throughput of all movers is alike though their costs are not: something else is the bottleneck, and throughput says nothing of the movers there.",
            match found.len() {
                1 => "In one place".to_owned(),
                n => format!("In {}", words::count(n, "place")),
            }
        ),
        evidence: format!(
            "{} movers: {} at {} of CPU time",
            first.cells.len(),
            span(&first.rates, gbit),
            span(&first.costs, cost)
        ),
        cure: "compare the CPU time per byte; look for what holds the rate: the receiver, pacing, a window, the disk".to_owned(),
        cells: found.iter().flat_map(|p| ids(p.cells.iter().copied())).collect(),
    }]
}
