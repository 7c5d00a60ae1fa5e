//! Which cells are held against which, and their log ratios within blocks.

use std::collections::{BTreeMap, HashSet};

use bytecost_spec::axis::CONDITIONAL;
use bytecost_spec::claim::{Place, has};
use bytecost_spec::{Axis, Metric, Pattern, Route, Study, Transport};

use crate::grid;
use crate::trials::{CellTrials, Trials, of_block};

/// Two cells that differ in one axis.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pairing<'t, 'a> {
    pub(crate) axis: Axis,
    pub(crate) baseline: &'t CellTrials<'a>,
    pub(crate) other: &'t CellTrials<'a>,
}

/// The pairings of one comparison of the study: baselines in the order of the plan, and for each
/// of them the other values in the order of the study. Movers that move nothing are in none.
///
/// Of files, reading is not held against writing; and a mover that can have one request in flight
/// only is the baseline of all depths, as one that has no block is of all blocks.
pub(crate) fn pairings<'t, 'a>(
    study: &Study,
    trials: &'t Trials<'a>,
    axis: Axis,
    baseline: &str,
) -> Vec<Pairing<'t, 'a>> {
    let order = grid::values(study, axis, trials.moving().map(|c| c.cell));
    let shared: Vec<Axis> = [axis].into_iter().chain(CONDITIONAL).collect();
    let mut groups: BTreeMap<String, Vec<&CellTrials<'_>>> = BTreeMap::new();
    let mut baselines = Vec::new();
    for cell in trials.moving() {
        let group = cell.cell.id_without(&shared);
        if cell.cell.value(axis) == baseline {
            baselines.push((group, cell));
        } else {
            groups.entry(group).or_default().push(cell);
        }
    }
    for others in groups.values_mut() {
        others.sort_by_key(|c| order.iter().position(|v| *v == c.cell.value(axis)));
    }
    let mut taken: HashSet<&str> = HashSet::new();
    let mut pairings = Vec::new();
    for (group, baseline) in baselines {
        for &other in groups.get(&group).into_iter().flatten() {
            if alike(axis, baseline, other) && taken.insert(&other.id) {
                pairings.push(Pairing {
                    axis,
                    baseline,
                    other,
                });
            }
        }
    }
    pairings
}

/// The pairs of two values of an axis in cells of a place, in the order of the plan. What an axis
/// says that means nothing to one of the two keeps no pair apart: a mover that waits for each
/// request to a file has no depth, one that takes a file whole no block.
pub(crate) fn contrasted<'t, 'a>(
    trials: &'t Trials<'a>,
    axis: Axis,
    value: &str,
    against: &str,
    place: &Place,
) -> Vec<Pairing<'t, 'a>> {
    let is_there = |c: &&CellTrials<'_>| {
        let mut conditions = place.iter();
        conditions
            .all(|(axis, values)| values.iter().any(|v| has(c.cell, *axis, v)) || !means(*axis, c))
    };
    let of = |value: &str| -> Vec<&'t CellTrials<'a>> {
        let there = trials.moving().filter(|c| has(c.cell, axis, value));
        there.filter(is_there).collect()
    };
    let others = of(against);
    let partner = |other: &CellTrials<'_>| {
        let exact = other.cell.id_without(&[axis]);
        let found = others.iter().find(|c| c.cell.id_without(&[axis]) == exact);
        let conditional: Vec<Axis> = [axis].into_iter().chain(CONDITIONAL).collect();
        let near = other.cell.id_without(&conditional);
        let alike =
            |c: &&&CellTrials<'_>| c.cell.id_without(&conditional) == near && alike(axis, c, other);
        let found = found.or_else(|| match axis {
            Axis::Mover => others.iter().find(alike),
            _ => None,
        });
        found.copied()
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

/// Whether a conditional axis means something to a cell: a Unix socket has no congestion control
/// and no options of TCP, a stream has no answer, a mover that copies has no completions, one that waits
/// for each request to a file has no depth, one that sends a file past memory no block.
pub(crate) fn means(axis: Axis, cell: &CellTrials<'_>) -> bool {
    match axis {
        Axis::Congestion | Axis::Nodelay | Axis::Cork | Axis::Quickack => {
            cell.cell.transport.is_tcp()
        }
        Axis::Mtu => cell.cell.transport.is_made(),
        Axis::Segment => cell.cell.transport.has_segments(),
        Axis::Device => cell.cell.transport.is_wire(),
        Axis::AckBytes => cell.cell.transport == Transport::Wire,
        Axis::Answer => cell.cell.pattern == Pattern::Ask,
        Axis::Reaping => cell.completes,
        Axis::Depth => !cell.one_at_a_time,
        Axis::Block => !cell.blockless,
        _ => true,
    }
}

/// Whether two cells agree in all that means something to both, but for one axis. Where several
/// baselines do, the first of the plan is the one that another is held against.
pub(crate) fn alike(except: Axis, one: &CellTrials<'_>, other: &CellTrials<'_>) -> bool {
    // Reading a file is not held against writing one, nor work against moving bytes.
    let alone = |route: Route| route.is_of_files() || route.is_of_cpus();
    let kind = |route: Route| (route.is_ping(), (!route.is_ping()).then_some(route));
    if (alone(one.route) || alone(other.route)) && kind(one.route) != kind(other.route) {
        return false;
    }
    // Nor is one side held against two.
    let sides = |cell: &CellTrials<'_>| cell.cell.transport.has_receiver();
    if sides(one) != sides(other) {
        return false;
    }
    CONDITIONAL.iter().all(|&axis| {
        axis == except
            || !means(axis, one)
            || !means(axis, other)
            || one.cell.value(axis) == other.cell.value(axis)
    })
}

impl Pairing<'_, '_> {
    /// The logarithms of the other's metric over the baseline's, one for each block in which
    /// both have it; none at all where any is zero, since leaving out zeros would bend the rest.
    ///
    /// Where a cell has a twin, its value in a block is the mean of both on a log scale: they are
    /// the same measurement, so that with equal noise the variance of the ratio falls by a quarter
    /// (1 + 1/2 instead of 1 + 1), and what disturbs the whole block still falls out.
    pub(crate) fn log_ratios(&self, metric: Metric) -> Vec<f64> {
        let logs = self.log_ratios_by_block(metric);
        logs.into_iter().map(|(_, log)| log).collect()
    }

    /// The same, each with the number of its block.
    pub(crate) fn log_ratios_by_block(&self, metric: Metric) -> Vec<(u32, f64)> {
        let mut logs = Vec::with_capacity(self.baseline.by_block.len());
        for block in self.baseline.by_block.keys() {
            let known = [self.baseline, self.other].map(|cell| cell.known(*block, metric));
            let [Some(below), Some(above)] = known.each_ref().map(|values| of_block(values)) else {
                continue;
            };
            if known.iter().flatten().any(|v| *v <= 0.0) {
                return Vec::new();
            }
            logs.push((*block, (above / below).ln()));
        }
        logs.retain(|(_, l)| l.is_finite());
        logs
    }
}
