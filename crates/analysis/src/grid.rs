//! The grid of a study: which values an axis takes, in which order, and which axes vary.

use bytecost_spec::axis::AXES;
use bytecost_spec::{Axis, Cell, Study};
use itertools::Itertools as _;

/// The values of an axis in the order of the study: that of the tier that names most, then what
/// other tiers and the cells add. Numbers go by size.
pub(crate) fn values<'c>(
    study: &Study,
    axis: Axis,
    cells: impl Iterator<Item = &'c Cell>,
) -> Vec<String> {
    let mut lists: Vec<&Vec<String>> = study
        .tiers
        .iter()
        .flat_map(|t| t.axes.iter().filter(|(a, _)| *a == axis).map(|(_, v)| v))
        .collect();
    lists.sort_by_key(|list| std::cmp::Reverse(list.len()));
    let named = lists.into_iter().flatten().cloned();
    let ordered: Vec<String> = named.chain(cells.map(|c| c.value(axis))).unique().collect();
    if let Some(numbers) = numbers(axis, &ordered) {
        let mut pairs: Vec<(f64, String)> = numbers.into_iter().zip(ordered).collect();
        pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
        return pairs.into_iter().map(|(_, value)| value).collect();
    }
    ordered
}

/// The values as numbers, where all of them are: bytes or counts.
pub(crate) fn numbers(axis: Axis, values: &[String]) -> Option<Vec<f64>> {
    values.iter().map(|value| axis.number(value)).collect()
}

/// The axes that take several values over the cells, in their order.
pub(crate) fn varied<'c>(cells: impl Iterator<Item = &'c Cell> + Clone) -> Vec<Axis> {
    AXES.iter()
        .map(|row| row.axis)
        .filter(|&axis| {
            let mut values = cells.clone().map(|c| c.value(axis));
            values
                .next()
                .is_some_and(|first| values.any(|v| v != first))
        })
        .collect()
}

/// The values of some axes of a cell.
pub(crate) fn coordinates(cell: &Cell, axes: &[Axis]) -> Vec<(Axis, String)> {
    axes.iter().map(|&axis| (axis, cell.value(axis))).collect()
}
