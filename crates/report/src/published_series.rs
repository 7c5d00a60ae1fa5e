//! What others published, laid over the figures, and figures of what was imported.

use std::borrow::Cow;
use std::collections::BTreeSet;

use bytecost_analysis::{Analysis, Estimate, FigureData, Point, Published, PublishedCell, Series};
use bytecost_spec::axis::AXES;
use bytecost_spec::{Axis, Metric, Unit, units};
use itertools::Itertools as _;

use crate::descriptions;
use crate::document::{DocBlock, DocColumn, DocTable};
use crate::question::{is_at, sort_values};
use crate::style::Ink;

/// Axes by which a published cell is found; in the others it may differ from what was measured.
pub(crate) const MATCHED: [Axis; 4] = [Axis::Pattern, Axis::Mover, Axis::Size, Axis::Threads];
/// The most figures that are made of an imported table.
const FIGURES_MOST: usize = 48;
/// The caveat that names the cells which wait for a delayed acknowledgement.
const STALL: &str = "nagle-stall";

/// Why there is no point where a publication has no cell.
pub(crate) const NOT_PUBLISHED: &str = "not published";

/// A line of a figure and whose it is.
pub(crate) struct OverlaidLine {
    /// The name that gives it its colour.
    pub of: String,
    /// Who published it; none for what was measured here.
    pub source: Option<String>,
    /// Which of its points wait for a delayed acknowledgement.
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

/// The figures to draw: those of the result, or of an imported table where there are none.
pub(crate) fn figures(a: &Analysis) -> Cow<'_, [FigureData]> {
    match descriptions::imported(a) {
        Some(published) if a.figures.is_empty() => Cow::Owned(imported(published, a.study.unit)),
        _ => Cow::Borrowed(&a.figures),
    }
}

/// Lays what was published over a figure.
pub(crate) fn overlaid(a: &Analysis, f: &FigureData) -> Overlaid {
    let axis = series_axis(a, f);
    let imported = descriptions::imported(a).is_some();
    let own = f.series.iter().filter(|_| !imported).map(|series| {
        let waits = |x: &String| axis.is_some_and(|axis| waits(a, f, axis, &series.name, x));
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

/// The numbers of a figure without its intervals, for who sees no drawing.
pub(crate) fn told(a: &Analysis, f: &FigureData) -> Vec<DocBlock> {
    let overlaid = overlaid(a, f);
    let f = &overlaid.data;
    let values = f.x_values.iter().map(|v| f.x.in_words(v));
    let columns = DocColumn::numbers("", values);
    let rows = f.series.iter().zip(&overlaid.lines).map(|(series, line)| {
        let number = |p: &Point| {
            p.measured()
                .map_or("–".to_owned(), |e| units::number(e.value))
        };
        let name = std::iter::once(line.of.clone());
        name.chain(series.points.iter().map(number)).collect()
    });
    vec![
        DocBlock::heading(descriptions::metric_with_unit(f.y, a.study.unit)),
        DocBlock::paragraph(Ink::Faint, descriptions::panel(&f.panel)),
        DocBlock::Table(DocTable::of::<String>(columns, rows)),
    ]
}

/// The axis of which a figure draws one line each.
fn series_axis(a: &Analysis, f: &FigureData) -> Option<Axis> {
    let varied = match descriptions::imported(a) {
        Some(published) => varied(published),
        None => a.study.varied.clone(),
    };
    let taken = |axis: &Axis| *axis == f.x || f.panel.iter().any(|(held, _)| held == axis);
    let free: Vec<Axis> = varied.into_iter().filter(|axis| !taken(axis)).collect();
    match free[..] {
        [only] => Some(only),
        [] => (f.x != Axis::Mover).then_some(Axis::Mover),
        _ => free.into_iter().find(|axis| *axis == Axis::Mover),
    }
}

fn waits(a: &Analysis, f: &FigureData, axis: Axis, name: &str, x: &str) -> bool {
    let caveats = a.caveats.iter().filter(|d| d.kind == STALL);
    let cells = caveats.flat_map(|d| &d.cells);
    let mut cells = cells.filter_map(|id| Some(&a.result(id)?.cell));
    cells.any(|c| c.value(f.x) == x && c.value(axis) == name && is_at(c, &f.panel))
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
    let held: Vec<(Axis, String)> = held.cloned().collect();
    let cells = published.cells.iter();
    let cells = cells.filter(|c| c.cell.value(axis) == name && is_at(&c.cell, &held));
    let points = f.x_values.iter().map(|x| {
        let mut at = cells.clone().filter(|c| c.cell.value(f.x) == *x);
        let value = at.find_map(|c| c.values.get(&f.y));
        value.map_or_else(|| Point::Gap(NOT_PUBLISHED.to_owned()), |v| point(*v))
    });
    points.collect()
}

fn point(value: f64) -> Point {
    if value == 0.0 {
        let why = "published as 0: its digits do not tell it from a small number";
        return Point::Gap(why.to_owned());
    }
    if !(value.is_finite() && value > 0.0) {
        return Point::Gap(format!("published as {}", units::number(value)));
    }
    Point::Measured(Estimate {
        value,
        low: None,
        high: None,
        trials: 0,
    })
}

fn varied(published: &Published) -> Vec<Axis> {
    let cells = || published.cells.iter();
    let differ = |axis: &Axis| !cells().map(|c| c.cell.value(*axis)).all_equal();
    AXES.iter().map(|row| row.axis).filter(differ).collect()
}

/// Figures of an imported table: every metric over the size (over the flows, where the size does
/// not vary), a line for each mover, a panel for each choice of the rest.
fn imported(published: &Published, unit: Unit) -> Vec<FigureData> {
    let varied = varied(published);
    let mut across = [Axis::Size, Axis::Threads].into_iter();
    let Some(x) = across.find(|x| varied.contains(x)) else {
        return Vec::new();
    };
    let mut held = varied;
    held.retain(|axis| ![x, Axis::Mover].contains(axis));
    let metrics = published.cells.iter().flat_map(|c| c.values.keys());
    let metrics: BTreeSet<Metric> = metrics.copied().collect();
    let place = |c: &PublishedCell| -> Vec<(Axis, String)> {
        let at = held.iter().map(|&axis| (axis, c.cell.value(axis)));
        at.collect()
    };
    let mut places: Vec<Vec<(Axis, String)>> = published.cells.iter().map(place).unique().collect();
    places.sort_by_key(|place| {
        let number = |(axis, v): &(Axis, String)| axis.number(v).map(|n| n as u64);
        place.iter().map(number).collect_vec()
    });
    let panels = metrics.into_iter().cartesian_product(&places);
    let figures = panels.map(|(y, place)| panel(published, x, (y, unit), place));
    let figures = figures.filter(|f| f.x_values.len() > 1);
    figures.take(FIGURES_MOST).collect()
}

fn panel(
    published: &Published,
    x: Axis,
    (y, unit): (Metric, Unit),
    place: &[(Axis, String)],
) -> FigureData {
    let cells = published.cells.iter();
    let cells = cells.filter(|c| c.values.contains_key(&y) && is_at(&c.cell, place));
    let mut x_values: Vec<String> = cells.clone().map(|c| c.cell.value(x)).unique().collect();
    let names: Vec<String> = cells.map(|c| c.cell.mover.clone()).unique().collect();
    sort_values(x, &mut x_values);
    let numbers: Option<Vec<f64>> = x_values.iter().map(|v| x.number(v)).collect();
    let gap = Point::Gap("not measured here".to_owned());
    let series = names.into_iter().map(|name| Series {
        name,
        points: vec![gap.clone(); x_values.len()],
    });
    FigureData {
        title: y.title(unit),
        panel: place.to_vec(),
        x,
        x_numbers: numbers,
        y,
        relative_to: None,
        ceiling: None,
        series: series.collect(),
        x_values,
        note: None,
    }
}
