//! Which cells are held against which, and their log ratios within blocks.

use std::collections::HashMap;

use bytecost_spec::claim::{Place, has};
use bytecost_spec::study::{Compare, Family};
use bytecost_spec::{Axis, Metric};
use itertools::Itertools as _;

use crate::grid;
use crate::trials::{CellTrials, Trials};

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
    /// Which of the study's comparisons that is.
    pub(crate) number: usize,
    pub(crate) metric: Metric,
    pub(crate) pairing: Pairing<'t, 'a>,
}

impl AskedPair<'_, '_> {
    pub(crate) fn is_first(&self) -> bool {
        self.compare.metrics.first() == Some(&self.metric)
    }

    pub(crate) fn family(&self) -> Family {
        let facts = &self.pairing.other.facts;
        self.compare.family_of(facts, self.metric)
    }
}

/// The pairings of one comparison of the study: baselines in the order of the plan, for each of them
/// the other values in the order of the study. Movers that move nothing are in none. Reading
/// a file is not compared with writing it; a mover that can have one request in flight only is the
/// baseline of all depths, as one that has no block is of all blocks.
pub(crate) fn pairings<'t, 'a>(
    trials: &'t Trials<'a>,
    axis: Axis,
    baseline: &str,
) -> Vec<Pairing<'t, 'a>> {
    let order = grid::values(trials.study, axis, trials.moving().map(|c| c.cell));
    let (baselines, mut others): (Vec<&CellTrials<'_>>, Vec<&CellTrials<'_>>) = trials
        .moving()
        .partition(|c| c.cell.value(axis) == baseline);
    others.sort_by_cached_key(|c| order.iter().position(|v| *v == c.cell.value(axis)));
    let alike = |c: &CellTrials<'_>| c.cell.id_without(&[axis]);
    let mut exact: HashMap<String, usize> = HashMap::new();
    for (at, baseline) in baselines.iter().enumerate() {
        exact.entry(alike(baseline)).or_insert(at);
    }
    let of_other = |other: &'t CellTrials<'a>| {
        let agrees = |b: &&CellTrials<'_>| b.facts.agrees(&other.facts, &[axis]);
        let exact = exact.get(&alike(other)).copied();
        let found = exact.filter(|at| agrees(&baselines[*at]));
        let at = found.or_else(|| baselines.iter().position(agrees))?;
        let baseline = baselines[at];
        let pairing = Pairing {
            axis,
            baseline,
            other,
        };
        Some((at, pairing))
    };
    let found = others.into_iter().filter_map(of_other);
    let found = found.sorted_by_key(|(at, _)| *at);
    found.map(|(_, pairing)| pairing).collect()
}

pub(crate) fn compared<'t, 'a>(trials: &'t Trials<'a>, compare: &Compare) -> Vec<Pairing<'t, 'a>> {
    let mut all = pairings(trials, compare.axis, &compare.baseline);
    all.retain(|p| compare.compares(&p.other.cell.value(compare.axis)));
    all
}

/// The pairs of two values of an axis in cells of a place, in the order of the plan. What does not
/// apply to one of the two keeps no pair apart: a mover that waits for each request to a file has
/// no depth, one that takes a file whole no block.
pub(crate) fn contrasted<'t, 'a>(
    trials: &'t Trials<'a>,
    axis: Axis,
    value: &str,
    against: &str,
    place: &Place,
) -> Vec<Pairing<'t, 'a>> {
    let fulfils = |c: &CellTrials<'_>, (axis, values): &(Axis, Vec<String>)| {
        values.iter().any(|v| has(c.cell, *axis, v))
    };
    let may_be = |c: &CellTrials<'_>| place.iter().all(|p| fulfils(c, p) || !c.facts.applies(p.0));
    let of = |value: &str| -> Vec<&'t CellTrials<'a>> {
        let there = trials.moving().filter(|c| has(c.cell, axis, value));
        there.filter(|c| may_be(c)).collect()
    };
    let others = of(against);
    let partner = |other: &CellTrials<'_>| {
        let exact = other.cell.id_without(&[axis]);
        let is_exact = |c: &&&CellTrials<'_>| c.cell.id_without(&[axis]) == exact;
        // A place is where at least one of the two is.
        let is_there =
            |c: &CellTrials<'_>| place.iter().all(|p| fulfils(c, p) || fulfils(other, p));
        let is_near = |c: &&&CellTrials<'_>| is_there(c) && c.facts.agrees(&other.facts, &[axis]);
        let found = others.iter().filter(|c| is_there(c)).find(is_exact);
        found.or_else(|| others.iter().find(is_near)).copied()
    };
    let pair = |other: &'t CellTrials<'a>| {
        Some(Pairing {
            axis,
            baseline: partner(other)?,
            other,
        })
    };
    of(value).into_iter().filter_map(pair).collect()
}

impl<'a> Trials<'a> {
    /// What the study compares: by comparison, then metric, then the order of the plan.
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
    pub(crate) fn turned(self) -> Pairing<'t, 'a> {
        Pairing {
            axis: self.axis,
            baseline: self.other,
            other: self.baseline,
        }
    }
}
