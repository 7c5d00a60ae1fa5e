//! Published series, laid over the figures.

use bytecost_analysis::{Analysis, Estimate, FigureData, Gap, Point, Published, Series};
use bytecost_spec::{Axis, Cell, Value};
use itertools::Itertools as _;

use crate::missing_points::has_points;
use crate::question::is_at;

/// Axes along which a published cell equals its measured one; along others it may differ.
pub(crate) const MATCHED: [Axis; 4] = [Axis::Pattern, Axis::Mover, Axis::Size, Axis::Threads];
/// The caveat that names the cells which wait for a delayed acknowledgement.
const STALL: &str = "nagle-stall";

/// A line of a figure, measured here or published.
pub(crate) struct OverlaidLine {
    /// The name that gives it its colour.
    pub of: String,
    /// Source of a published series; none for one that was measured here.
    pub source: Option<String>,
    /// Flag for each point: true if it waits for a delayed acknowledgement.
    pub stalled: Vec<bool>,
}

impl OverlaidLine {
    pub(crate) fn stalls(&self, column: usize) -> bool {
        self.stalled.get(column).copied().unwrap_or(false)
    }
}

/// A figure with the published lines behind its own.
pub(crate) struct Overlaid {
    /// The figure, published lines as series without intervals.
    pub data: FigureData,
    pub lines: Vec<OverlaidLine>,
}

/// A figure with the published series added.
pub(crate) fn overlaid(a: &Analysis, f: &FigureData) -> Overlaid {
    let axis = series_axis(a, f);
    let mut data = f.clone();
    let mut lines = Vec::new();
    for series in &f.series {
        let waits = |x: &Value| axis.is_some_and(|axis| waits(a, f, axis, &series.name, x));
        lines.push(OverlaidLine {
            of: series.name.clone(),
            source: None,
            stalled: f.x_values.iter().map(waits).collect(),
        });
    }
    let overlay = a.published.as_ref().filter(|_| f.relative_to.is_none());
    let source = overlay.zip(axis).into_iter();
    for ((published, along), series) in source.cartesian_product(&f.series) {
        let theirs = Series {
            name: format!("{} ({})", series.name, published.source),
            points: points(a, published, f, along, &series.name),
        };
        if has_points(&theirs) {
            data.series.push(theirs);
            lines.push(OverlaidLine {
                of: series.name.clone(),
                source: Some(published.source.clone()),
                stalled: Vec::new(),
            });
        }
    }
    Overlaid { data, lines }
}

/// The axis of which a figure draws one line each.
fn series_axis(a: &Analysis, f: &FigureData) -> Option<Axis> {
    let is_held = |axis: &Axis| *axis == f.x || f.panel.iter().any(|(held, _)| held == axis);
    let free = || a.study.varied.iter().copied().filter(|axis| !is_held(axis));
    match free().at_most_one() {
        Ok(None) => (f.x != Axis::Mover).then_some(Axis::Mover),
        Ok(only) => only,
        Err(_) => free().find(|axis| *axis == Axis::Mover),
    }
}

fn waits(a: &Analysis, f: &FigureData, axis: Axis, name: &str, x: &Value) -> bool {
    let stalls = a.caveats.iter().filter(|caveat| caveat.kind == STALL);
    let mut ids = stalls.flat_map(|caveat| &caveat.cells);
    let is_here = |c: &Cell| c.value(f.x) == *x && c.value(axis) == name && is_at(c, &f.panel);
    ids.any(|id| a.result(id).is_some_and(|result| is_here(&result.cell)))
}

fn points(
    a: &Analysis,
    published: &Published,
    f: &FigureData,
    axis: Axis,
    name: &str,
) -> Vec<Point> {
    let is_matched = |held: Axis| MATCHED.contains(&held) && held != axis && held != f.x;
    let held: Vec<(Axis, Value)> = (f.panel.iter().chain(&a.study.constants))
        .filter(|(held, _)| is_matched(*held))
        .cloned()
        .collect();
    let point = |x: &Value| {
        let mut cells = published.cells.iter().filter(|c| {
            let cell = &c.cell;
            cell.value(axis) == name && is_at(cell, &held) && cell.value(f.x) == *x
        });
        match cells.find_map(|c| c.values.get(&f.y)).copied() {
            Some(value) if value.is_finite() && value > 0.0 => Point::Measured(Estimate {
                value,
                low: None,
                high: None,
                trials: 0,
            }),
            Some(value) => Point::Gap(Gap::PublishedAs(value)),
            None => Point::Gap(Gap::NotPublished),
        }
    };
    f.x_values.iter().map(point).collect()
}
