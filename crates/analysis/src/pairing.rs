//! Pairs of cells that the study, or a claim, compares.

use std::collections::HashMap;

use bytecost_spec::claim::{Place, has};
use bytecost_spec::study::{Compare, Family};
use bytecost_spec::{Axis, Metric, Value};
use itertools::Itertools as _;

use crate::grid;
use crate::trials::{CellTrials, Trials};

/// Two cells that differ in an axis.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pairing<'t, 'a> {
    pub(crate) axis: Axis,
    pub(crate) baseline: &'t CellTrials<'a>,
    pub(crate) other: &'t CellTrials<'a>,
}

/// Two cells that the study compares in one of the metrics of a comparison.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AskedPair<'t, 'a> {
    pub(crate) compare: &'t Compare,
    /// Index among the study's comparisons.
    pub(crate) number: usize,
    pub(crate) metric: Metric,
    pub(crate) pairing: Pairing<'t, 'a>,
}

impl AskedPair<'_, '_> {
    /// Returns true if the metric is the first of its comparison.
    pub(crate) fn is_in_main_metric(&self) -> bool {
        self.compare.metrics.first() == Some(&self.metric)
    }

    pub(crate) fn family(&self) -> Family {
        let facts = &self.pairing.other.facts;
        self.compare.family_of(facts, self.metric)
    }
}

/// The baselines of comparisons along one axis, found by the other axes of a cell.
struct Baselines<'t, 'a> {
    axis: Axis,
    cells: Vec<&'t CellTrials<'a>>,
    /// The index of the first cell for each id without the axis.
    by_id: HashMap<String, usize>,
}

impl<'t, 'a> Baselines<'t, 'a> {
    fn new(axis: Axis, cells: Vec<&'t CellTrials<'a>>) -> Baselines<'t, 'a> {
        let mut by_id = HashMap::new();
        for (index, cell) in cells.iter().enumerate() {
            let id = cell.cell.id_without(&[axis]);
            by_id.entry(id).or_insert(index);
        }
        Baselines { axis, cells, by_id }
    }

    /// The index of the baseline of a cell: of the one that differs from it in the axis alone, else of
    /// the first one that agrees on all other axes that apply to both. So a mover that can have only one
    /// request in flight is the baseline of all depths. `may_pair` excludes baselines.
    fn index_for(
        &self,
        other: &CellTrials<'_>,
        may_pair: impl Fn(&CellTrials<'_>) -> bool,
    ) -> Option<usize> {
        let agrees =
            |c: &&CellTrials<'_>| c.facts.agrees(&other.facts, &[self.axis]) && may_pair(c);
        let exact = self
            .by_id
            .get(&other.cell.id_without(&[self.axis]))
            .copied()
            .filter(|index| agrees(&self.cells[*index]));
        exact.or_else(|| self.cells.iter().position(agrees))
    }
}

/// The pairings of a baseline value with all other values of an axis, in the plan's order of baselines, then
/// in the study's order of values. Movers that move nothing are left out. Reading a file is not
/// compared with writing it.
fn pairings<'t, 'a>(trials: &'t Trials<'a>, axis: Axis, baseline: &Value) -> Vec<Pairing<'t, 'a>> {
    let order = grid::values(trials.study, axis, trials.moving().map(|c| c.cell));
    let (baselines, mut others): (Vec<&CellTrials<'_>>, Vec<&CellTrials<'_>>) = trials
        .moving()
        .partition(|c| c.cell.value(axis) == *baseline);
    others.sort_by_cached_key(|c| order.iter().position(|v| *v == c.cell.value(axis)));
    let baselines = Baselines::new(axis, baselines);
    let found = others
        .into_iter()
        .filter_map(|other| {
            let index = baselines.index_for(other, |_| true)?;
            let pairing = Pairing {
                axis,
                baseline: baselines.cells[index],
                other,
            };
            Some((index, pairing))
        })
        .sorted_by_key(|(index, _)| *index);
    found.map(|(_, pairing)| pairing).collect()
}

/// The pairings of one comparison of the study.
pub(crate) fn compared<'t, 'a>(trials: &'t Trials<'a>, compare: &Compare) -> Vec<Pairing<'t, 'a>> {
    let mut found = pairings(trials, compare.axis, &compare.baseline);
    found.retain(|p| compare.compares(&p.other.cell.value(compare.axis)));
    found
}

/// The pairings of two values of an axis at a place, in the order of the plan. An axis of the place that
/// does not apply to one of the two cells has to fit the other one.
pub(crate) fn contrasted<'t, 'a>(
    trials: &'t Trials<'a>,
    axis: Axis,
    value: &Value,
    against: &Value,
    place: &Place,
) -> Vec<Pairing<'t, 'a>> {
    let fulfils = |c: &CellTrials<'_>, (place_axis, values): &(Axis, Vec<Value>)| {
        values.iter().any(|v| has(c.cell, *place_axis, v))
    };
    let fits = |c: &CellTrials<'_>| place.iter().all(|p| fulfils(c, p) || !c.facts.applies(p.0));
    let cells_with = |wanted: &Value| -> Vec<&'t CellTrials<'a>> {
        let cells = trials.moving().filter(|c| has(c.cell, axis, wanted));
        cells.filter(|c| fits(c)).collect()
    };
    let baselines = Baselines::new(axis, cells_with(against));
    let pair = |other: &'t CellTrials<'a>| {
        let may_pair =
            |c: &CellTrials<'_>| place.iter().all(|p| fulfils(c, p) || fulfils(other, p));
        let baseline = baselines.cells[baselines.index_for(other, may_pair)?];
        Some(Pairing {
            axis,
            baseline,
            other,
        })
    };
    cells_with(value).into_iter().filter_map(pair).collect()
}

impl<'a> Trials<'a> {
    /// The comparisons of the study, by comparison, then metric, then the order of the plan.
    pub(crate) fn asked(&self) -> impl Iterator<Item = AskedPair<'_, 'a>> {
        let compares = self.study.compare.iter().enumerate();
        compares.flat_map(move |(number, compare)| {
            let pairings = compared(self, compare);
            let each = compare.metrics.iter().cartesian_product(pairings);
            each.map(move |(&metric, pairing)| AskedPair {
                compare,
                number,
                metric,
                pairing,
            })
        })
    }
}

impl<'t, 'a> Pairing<'t, 'a> {
    /// The pairing of the same two cells in other trials, such as the first attempts at all blocks; none if
    /// these lack a cell.
    pub(crate) fn within<'o>(&self, others: &'o Trials<'o>) -> Option<Pairing<'o, 'o>> {
        Some(Pairing {
            axis: self.axis,
            baseline: others.by_id(&self.baseline.id)?,
            other: others.by_id(&self.other.id)?,
        })
    }

    /// The pairing with the two cells exchanged.
    pub(crate) fn turned(self) -> Pairing<'t, 'a> {
        Pairing {
            axis: self.axis,
            baseline: self.other,
            other: self.baseline,
        }
    }
}
