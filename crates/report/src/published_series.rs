//! Published series, laid over the figures.

use bytecost_analysis::{Analysis, Estimate, FigureData, Gap, Point, Published, Series};
use bytecost_spec::{Axis, Value};

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
    let own = f.series.iter().map(|series| {
        let waits = |x: &Value| axis.is_some_and(|axis| waits(a, f, axis, &series.name, x));
        let line = OverlaidLine {
            of: series.name.clone(),
            source: None,
            stalled: f.x_values.iter().map(waits).collect(),
        };
        (series.clone(), line)
    });
    let known = a.published.as_ref().zip(axis);
    let known = known.filter(|_| f.relative_to.is_none());
    let theirs = known.into_iter().flat_map(|(published, axis)| {
        let series = f.series.iter().map(move |series| Series {
            name: format!("{} ({})", series.name, published.source),
            points: points(a, published, f, axis, &series.name),
        });
        let lines = f.series.iter().map(move |series| OverlaidLine {
            of: series.name.clone(),
            source: Some(published.source.clone()),
            stalled: Vec::new(),
        });
        let is_measured = |point: &Point| point.measured().is_some();
        let both = series.zip(lines);
        both.filter(move |(s, _)| s.points.iter().any(is_measured))
    });
    let (series, lines) = own.chain(theirs).unzip();
    let data = FigureData {
        series,
        ..f.clone()
    };
    Overlaid { data, lines }
}

/// The axis of which a figure draws one line each.
fn series_axis(a: &Analysis, f: &FigureData) -> Option<Axis> {
    let taken = |axis: &Axis| *axis == f.x || f.panel.iter().any(|(held, _)| held == axis);
    let free: Vec<Axis> = a
        .study
        .varied
        .iter()
        .copied()
        .filter(|axis| !taken(axis))
        .collect();
    match free[..] {
        [only] => Some(only),
        [] => (f.x != Axis::Mover).then_some(Axis::Mover),
        _ => free.into_iter().find(|axis| *axis == Axis::Mover),
    }
}

fn waits(a: &Analysis, f: &FigureData, axis: Axis, name: &str, x: &Value) -> bool {
    let caveats = a.caveats.iter().filter(|d| d.kind == STALL);
    let cells = caveats.flat_map(|d| &d.cells);
    let mut cells = cells.filter_map(|id| Some(&a.result(id)?.cell));
    cells.any(|c| c.value(f.x) == *x && c.value(axis) == name && is_at(c, &f.panel))
}

fn points(
    a: &Analysis,
    published: &Published,
    f: &FigureData,
    axis: Axis,
    name: &str,
) -> Vec<Point> {
    let held = f.panel.iter().chain(&a.study.constants);
    let held = held.filter(|(held, _)| MATCHED.contains(held) && *held != axis && *held != f.x);
    let held: Vec<(Axis, Value)> = held.cloned().collect();
    let cells = published.cells.iter();
    let cells = cells.filter(|c| c.cell.value(axis) == name && is_at(&c.cell, &held));
    let points = f.x_values.iter().map(|x| {
        let mut at = cells.clone().filter(|c| c.cell.value(f.x) == *x);
        let value = at.find_map(|c| c.values.get(&f.y));
        value.map_or_else(|| Point::Gap(Gap::NotPublished), |v| point(*v))
    });
    points.collect()
}

fn point(value: f64) -> Point {
    if !(value.is_finite() && value > 0.0) {
        return Point::Gap(Gap::PublishedAs(value));
    }
    Point::Measured(Estimate {
        value,
        low: None,
        high: None,
        trials: 0,
    })
}
