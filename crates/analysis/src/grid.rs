//! The grid of a study: which values an axis takes, in which order, and which axes vary.

use std::collections::BTreeMap;

use bytecost_spec::axis::AXES;
use bytecost_spec::{Axis, Cell, Study, Value};
use itertools::Itertools as _;

/// Axes along which results are grouped in ranges; the first that applies is used.
pub const RANGES: [Axis; 9] = [
    Axis::Connections,
    Axis::Size,
    Axis::Threads,
    Axis::Depth,
    Axis::Block,
    Axis::Ring,
    Axis::SocketBuffer,
    Axis::Rate,
    Axis::Idle,
];

/// The values of an axis in the order of the study: that of the tier that names most, then what
/// other tiers and the cells add. Numbers go by size.
pub(crate) fn values<'c>(
    study: &Study,
    axis: Axis,
    cells: impl Iterator<Item = &'c Cell>,
) -> Vec<Value> {
    let axes = study.tiers.iter().flat_map(|t| &t.axes);
    let mut ordered: Vec<Value> = axes
        .filter(|(a, _)| *a == axis)
        .map(|(_, list)| list)
        .sorted_by_key(|list| std::cmp::Reverse(list.len()))
        .flatten()
        .cloned()
        .chain(cells.map(|c| c.value(axis)))
        .unique()
        .collect();
    if let Some(numbers) = numbers(axis, &ordered) {
        let pairs = numbers
            .into_iter()
            .zip(ordered)
            .sorted_by(|a, b| a.0.total_cmp(&b.0));
        ordered = pairs.map(|(_, value)| value).collect();
    }
    ordered
}

/// The values as numbers, where all of them are: bytes or counts.
pub(crate) fn numbers(axis: Axis, values: &[Value]) -> Option<Vec<f64>> {
    values.iter().map(|value| axis.number(value)).collect()
}

/// The axes that take several values over the cells, in their order.
pub(crate) fn varied<'c>(cells: impl Iterator<Item = &'c Cell> + Clone) -> Vec<Axis> {
    let varies = |axis: &Axis| !cells.clone().map(|c| c.value(*axis)).all_equal();
    AXES.iter().map(|row| row.axis).filter(varies).collect()
}

/// The axes of which all cells of a value of `axis` have one value: movers with zero-copy completions, for
/// instance, one way to wait for them, and others none. They are no property of the place at which values
/// of `axis` are compared.
pub fn implied_axes<'c>(axis: Axis, cells: impl Iterator<Item = &'c Cell> + Clone) -> Vec<Axis> {
    let others = AXES.iter().map(|row| row.axis).filter(|a| *a != axis);
    let is_implied = |other: &Axis| {
        let mut by_value: BTreeMap<Value, Value> = BTreeMap::new();
        cells.clone().all(|cell| {
            let value = cell.value(*other);
            *by_value.entry(cell.value(axis)).or_insert(value.clone()) == value
        })
    };
    others.filter(is_implied).collect()
}

pub(crate) fn coordinates<'x>(
    cell: &Cell,
    axes: impl IntoIterator<Item = &'x Axis>,
) -> Vec<(Axis, Value)> {
    axes.into_iter()
        .map(|axis| (*axis, cell.value(*axis)))
        .collect()
}
