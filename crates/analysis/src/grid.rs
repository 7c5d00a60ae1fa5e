//! The grid of a study: which values an axis takes, in which order, and which axes vary.

use bytecost_spec::axis::AXES;
use bytecost_spec::{Axis, Cell, Study};
use itertools::Itertools as _;

use crate::trials::CellTrials;

/// Axes along which results are told in ranges, the likeliest first.
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
) -> Vec<String> {
    let axes = study.tiers.iter().flat_map(|t| &t.axes);
    let lists = axes.filter(|(a, _)| *a == axis).map(|(_, list)| list);
    let lists = lists.sorted_by_key(|list| std::cmp::Reverse(list.len()));
    let named = lists.flatten().cloned();
    let mut ordered: Vec<String> = named.chain(cells.map(|c| c.value(axis))).unique().collect();
    if let Some(numbers) = numbers(axis, &ordered) {
        let pairs = numbers.into_iter().zip(ordered);
        let pairs = pairs.sorted_by(|a, b| a.0.total_cmp(&b.0));
        ordered = pairs.map(|(_, value)| value).collect();
    }
    ordered
}

/// The values as numbers, where all of them are: bytes or counts.
pub(crate) fn numbers(axis: Axis, values: &[String]) -> Option<Vec<f64>> {
    values.iter().map(|value| axis.number(value)).collect()
}

/// The axes that take several values over the cells, in their order.
pub(crate) fn varied<'c>(cells: impl Iterator<Item = &'c Cell> + Clone) -> Vec<Axis> {
    let varies = |axis: &Axis| !cells.clone().map(|c| c.value(*axis)).all_equal();
    AXES.iter().map(|row| row.axis).filter(varies).collect()
}

pub(crate) fn coordinates<'x>(
    cell: &Cell,
    axes: impl IntoIterator<Item = &'x Axis>,
) -> Vec<(Axis, String)> {
    let axes = axes.into_iter();
    axes.map(|axis| (*axis, cell.value(*axis))).collect()
}

/// What is constant at a cell, of the axes that vary and apply to it: the path where something is
/// sent, where a file's pages are, and what is not as usual.
pub(crate) fn place(
    cell: &CellTrials<'_>,
    axis: Axis,
    along: Option<Axis>,
    varied: &[Axis],
) -> Vec<(Axis, String)> {
    let is_free = |a: &Axis| *a == axis || Some(*a) == along;
    let is_path = |a: Axis| a == Axis::Transport && cell.facts.is_sent();
    let differs = |a: Axis| {
        let usual = cell.cell.value(a) == a.row().default && !matches!(a, Axis::Size | Axis::Mover);
        varied.contains(&a) && cell.facts.applies(a) && !usual
    };
    let of_file = |a: Axis| {
        a == Axis::Cache && cell.facts.applies(a) && cell.cell.value(a) != a.row().default
    };
    let size = |a: Axis| match a {
        Axis::Size => cell.facts.is_sent() || cell.facts.is_of_files(),
        Axis::Connections => cell.facts.is_served(),
        _ => false,
    };
    let is_told = |a: &Axis| !is_free(a) && (is_path(*a) || of_file(*a) || differs(*a) || size(*a));
    let told = AXES.iter().map(|row| row.axis).filter(is_told);
    told.map(|a| (a, cell.cell.value(a))).collect()
}
