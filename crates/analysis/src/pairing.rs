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

/// Cells that others are held against along an axis, found by all that they have in common.
struct Baselines<'t, 'a> {
    axis: Axis,
    cells: Vec<&'t CellTrials<'a>>,
    /// The first of each id without the axis.
    exact: HashMap<String, usize>,
}

impl<'t, 'a> Baselines<'t, 'a> {
    fn new(axis: Axis, cells: Vec<&'t CellTrials<'a>>) -> Baselines<'t, 'a> {
        let mut exact = HashMap::new();
        for (at, cell) in cells.iter().enumerate() {
            exact.entry(cell.cell.id_without(&[axis])).or_insert(at);
        }
        Baselines { axis, cells, exact }
    }

    /// The place of the one that differs from a cell in the axis alone; else of the first that does
    /// but for what does not apply to one of the two: a mover that can have one request in flight
    /// only is the baseline of all depths, as one that has no block is of all blocks.
    fn place(
        &self,
        other: &CellTrials<'_>,
        is_there: impl Fn(&CellTrials<'_>) -> bool,
    ) -> Option<usize> {
        let agrees =
            |c: &&CellTrials<'_>| c.facts.agrees(&other.facts, &[self.axis]) && is_there(c);
        let exact = self
            .exact
            .get(&other.cell.id_without(&[self.axis]))
            .copied()
            .filter(|at| agrees(&self.cells[*at]));
        exact.or_else(|| self.cells.iter().position(agrees))
    }
}

/// The pairings of one comparison of the study: baselines in the order of the plan, for each of them
/// the other values in the order of the study. Movers that move nothing are in none. Reading
/// a file is not compared with writing it.
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
            let at = baselines.place(other, |_| true)?;
            let pairing = Pairing {
                axis,
                baseline: baselines.cells[at],
                other,
            };
            Some((at, pairing))
        })
        .sorted_by_key(|(at, _)| *at);
    found.map(|(_, pairing)| pairing).collect()
}

pub(crate) fn compared<'t, 'a>(trials: &'t Trials<'a>, compare: &Compare) -> Vec<Pairing<'t, 'a>> {
    let mut all = pairings(trials, compare.axis, &compare.baseline);
    all.retain(|p| compare.compares(&p.other.cell.value(compare.axis)));
    all
}

/// The pairs of two values of an axis in cells of a place, in the order of the plan.
pub(crate) fn contrasted<'t, 'a>(
    trials: &'t Trials<'a>,
    axis: Axis,
    value: &Value,
    against: &Value,
    place: &Place,
) -> Vec<Pairing<'t, 'a>> {
    let fulfils = |c: &CellTrials<'_>, (axis, values): &(Axis, Vec<Value>)| {
        values.iter().any(|v| has(c.cell, *axis, v))
    };
    let may_be = |c: &CellTrials<'_>| place.iter().all(|p| fulfils(c, p) || !c.facts.applies(p.0));
    let of = |value: &Value| -> Vec<&'t CellTrials<'a>> {
        let there = trials.moving().filter(|c| has(c.cell, axis, value));
        there.filter(|c| may_be(c)).collect()
    };
    let baselines = Baselines::new(axis, of(against));
    let pair = |other: &'t CellTrials<'a>| {
        // A place is where at least one of the two is.
        let is_there =
            |c: &CellTrials<'_>| place.iter().all(|p| fulfils(c, p) || fulfils(other, p));
        let baseline = baselines.cells[baselines.place(other, is_there)?];
        Some(Pairing {
            axis,
            baseline,
            other,
        })
    };
    of(value).into_iter().filter_map(pair).collect()
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
    /// The same two cells by other attempts at the blocks of the run.
    pub(crate) fn within<'o>(&self, others: &'o Trials<'o>) -> Option<Pairing<'o, 'o>> {
        Some(Pairing {
            axis: self.axis,
            baseline: others.by_id(&self.baseline.id)?,
            other: others.by_id(&self.other.id)?,
        })
    }

    pub(crate) fn turned(self) -> Pairing<'t, 'a> {
        Pairing {
            axis: self.axis,
            baseline: self.other,
            other: self.baseline,
        }
    }
}
