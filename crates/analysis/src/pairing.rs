//! Which cells are held against which, and their log ratios within blocks.

use std::collections::HashMap;

use bytecost_spec::{Axis, Metric, Study};

use crate::grid;
use crate::trials::{CellTrials, Trials};

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
/// only is the baseline of all depths.
pub(crate) fn pairings<'t, 'a>(
    study: &Study,
    trials: &'t Trials<'a>,
    axis: Axis,
    baseline: &str,
) -> Vec<Pairing<'t, 'a>> {
    let alone = |c: &CellTrials<'_>| c.one_at_a_time && c.cell.value(axis) == baseline;
    let free = if axis == Axis::Mover && trials.moving().any(alone) {
        &[Axis::Mover, Axis::Depth][..]
    } else {
        &[axis][..]
    };
    let order = grid::values(study, axis, trials.moving().map(|c| c.cell));
    let mut groups: HashMap<String, Vec<&CellTrials<'_>>> = HashMap::new();
    let mut baselines = Vec::new();
    for cell in trials.moving() {
        let group = cell.cell.id_without(free);
        if cell.cell.value(axis) == baseline {
            baselines.push((group, cell));
        } else {
            groups.entry(group).or_default().push(cell);
        }
    }
    let mut pairings = Vec::new();
    for (group, baseline) in baselines {
        let all = groups.get(&group).map_or(&[][..], Vec::as_slice);
        let alike = |c: &&&CellTrials<'_>| !c.route.is_of_files() || c.route == baseline.route;
        let mut others: Vec<_> = all.iter().filter(alike).copied().collect();
        others.sort_by_key(|c| order.iter().position(|v| *v == c.cell.value(axis)));
        pairings.extend(others.into_iter().map(|other| Pairing {
            axis,
            baseline,
            other,
        }));
    }
    pairings
}

impl Pairing<'_, '_> {
    /// The logarithms of the other's metric over the baseline's, one for each block in which
    /// both have it; none at all where any is zero, since leaving out zeros would bend the rest.
    pub(crate) fn log_ratios(&self, metric: Metric) -> Vec<f64> {
        let mut logs = Vec::with_capacity(self.baseline.by_block.len());
        for (block, base) in &self.baseline.by_block {
            let Some(other) = self.other.by_block.get(block) else {
                continue;
            };
            let (Some(below), Some(above)) =
                (base.value(metric).known(), other.value(metric).known())
            else {
                continue;
            };
            if below <= 0.0 || above <= 0.0 {
                return Vec::new();
            }
            logs.push((above / below).ln());
        }
        logs.retain(|l| l.is_finite());
        logs
    }
}
