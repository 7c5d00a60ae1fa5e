//! A figure of the page: its drawing, its legend and its table, ready for the template.

use askama::Template;
use bytecost_analysis::{Analysis, FigureData, Finding, Point, Series};
use bytecost_spec::units;
use bytecost_spec::{Cell, Unit, Value};
use itertools::Itertools as _;

use crate::chart::{self, Chart, Dot};
use crate::descriptions;
use crate::document::DocMark;
use crate::figure_words;
use crate::missing_points::{self, gap_in_words, has_points};
use crate::numbers::{self, ratio, ratio_interval};
use crate::published_series::{self, Overlaid, OverlaidLine};
use crate::question::is_at;
use crate::text::{TextSpan, clean, count, joined, spans};

/// Number of colours of the page's palette, that of baselines not included.
const COLORS: usize = 10;
/// SVG paths of the markers by slot (see [`Palette::slot`]), centred on the point (0, 0).
const MARKERS: [&str; 11] = [
    "M-4 0A4 4 0 1 1 4 0A4 4 0 1 1 -4 0Z",
    "M-3.6 -3.6H3.6V3.6H-3.6Z",
    "M0 -4.8L4.6 3.4H-4.6Z",
    "M0 -5.2L4.4 0L0 5.2L-4.4 0Z",
    "M0 4.8L4.6 -3.4H-4.6Z",
    "M-1.6 -4.6H1.6V-1.6H4.6V1.6H1.6V4.6H-1.6V1.6H-4.6V-1.6H-1.6Z",
    "M-4.8 -3.2L-3.2 -4.8L0 -1.7L3.2 -4.8L4.8 -3.2L1.7 0L4.8 3.2L3.2 4.8L0 1.7L-3.2 4.8L-4.8 3.2L-1.7 0Z",
    "M0 -5.4L1.4 -1.7L5.2 -1.7L2.2 0.7L3.2 4.4L0 2.2L-3.2 4.4L-2.2 0.7L-5.2 -1.7L-1.4 -1.7Z",
    "M-5.4 -1.9H5.4V1.9H-5.4Z",
    "M-1.9 -5.4H1.9V5.4H-1.9Z",
    "M-5 -4.4L5 0L-5 4.4L-2.2 0Z",
];

/// A figure as its template renders it.
#[derive(Template)]
#[template(path = "figure.html", whitespace = "minimize")]
pub(crate) struct DrawnFigure {
    pub id: String,
    pub title: String,
    /// Values of axes that all points of the figure share.
    pub panel: String,
    /// Title of the vertical axis: the metric, its unit, its better direction, and a log scale.
    pub y: String,
    /// Name of the horizontal axis.
    pub x: String,
    pub chart: Chart,
    /// Width of the figure divided by its width without the names at the ends of the lines, which a
    /// narrow screen cuts off.
    pub crop: String,
    pub lines: Vec<SeriesLine>,
    /// Values of the horizontal axis, in words.
    pub columns: Vec<String>,
    /// Notes on missing points, grouped by reason.
    pub gaps: Vec<Vec<TextSpan>>,
    /// Horizontal positions of columns with missing points, and the reasons of the gaps.
    pub gap_marks: Vec<(f64, String)>,
    /// Reason why the figure has no point at all; none where it has points.
    pub empty: Option<String>,
    pub note: Option<Vec<TextSpan>>,
    /// Source of published series, whose points are hollow; none without such a series.
    pub source: Option<String>,
    /// True if a point waits for a delayed acknowledgement.
    pub stalls: bool,
    /// Description of the ceiling's line; none where no ceiling is drawn.
    pub ceiling: Option<String>,
}

/// The marker of a point that waits for a delayed acknowledgement.
pub(crate) const STALL_MARKER: &str = "M0 -7.4L6.8 4.8H-6.8ZM0 -3V1.2M0 2.6V3.2";
pub(crate) const STALL_WORDS: &str = "waits for a delayed acknowledgement";

pub(crate) struct SeriesLine {
    pub name: String,
    /// Number of a colour of the palette; 0 is the colour of baselines.
    pub color: usize,
    /// True for a dashed line: another line has the same colour.
    pub dashed: bool,
    pub is_baseline: bool,
    /// True for a series that others published, drawn hollow.
    pub hollow: bool,
    pub marker: &'static str,
    pub dots: Vec<DotText>,
    /// Entries of the series in the table: value and interval, or the reason of the gap.
    pub entries: Vec<EntryText>,
}

/// A point of a line with its description, in parts.
pub(crate) struct DotText {
    pub at: Dot,
    pub x: String,
    pub value: String,
    pub interval: String,
    /// Ratio to the baseline with the verdict; empty where the point is not compared.
    pub compared: String,
    pub stalled: bool,
}

impl DotText {
    /// The description of the point in one line, for its tooltip.
    pub(crate) fn all(&self) -> String {
        let stalled = if self.stalled { STALL_WORDS } else { "" };
        let DotText { x, value, .. } = self;
        joined([x, value, stalled, &self.interval, &self.compared], ", ")
    }
}

pub(crate) enum EntryText {
    /// Value, interval, and true if the point waits for a delayed acknowledgement.
    Measured(String, String, bool),
    Gap(String),
}

/// Colours and markers of all series of a page: a name looks the same in every figure.
pub(crate) struct Palette {
    names: Vec<String>,
    baselines: Vec<String>,
}

impl Palette {
    pub(crate) fn new(a: &Analysis) -> Palette {
        let baselines: Vec<String> = a
            .findings
            .iter()
            .map(|f| f.baseline_value.to_string())
            .unique()
            .collect();
        let names = a
            .figures
            .iter()
            .flat_map(|f| &f.series)
            .map(|s| &s.name)
            .filter(|n| !baselines.contains(n))
            .unique();
        Palette {
            names: names.cloned().collect(),
            baselines,
        }
    }

    /// The slot of a series, which decides its colour and marker: 0 for baselines, and for other names
    /// their place on the page, from 1 on.
    fn slot(&self, name: &str) -> usize {
        let index = self.names.iter().position(|n| n == name);
        index.map_or(0, |i| i + 1)
    }
}

/// The figures of a result, ready for their templates.
pub(crate) fn figures(a: &Analysis) -> Vec<DrawnFigure> {
    let palette = Palette::new(a);
    let figures = a.figures.iter().enumerate();
    figures
        .map(|(number, f)| figure(a, number, f, &palette))
        .collect()
}

fn figure(a: &Analysis, number: usize, f: &FigureData, palette: &Palette) -> DrawnFigure {
    let unit = a.study.unit;
    let f = &with_points(f);
    let Overlaid {
        data,
        lines: overlays,
    } = published_series::overlaid(a, f);
    let source = overlays.iter().find_map(|l| l.source.as_deref().map(clean));
    let label = |l: &OverlaidLine| clean(l.source.as_ref().unwrap_or(&l.of));
    let labels: Vec<String> = overlays.iter().map(label).collect();
    let chart = chart::chart(&data, &labels);
    let drawn = data.series.iter().zip(&overlays).zip(&chart.lines);
    let lines: Vec<SeriesLine> = drawn
        .map(|((series, overlaid), drawn)| line(a, &data, series, overlaid, drawn, palette))
        .collect();
    let gaps = missing_points::gap_notes(&data, chart.empty, unit);
    let gap_mark =
        |(column, at): &(usize, f64)| Some((*at, missing_points::at_column(&data, *column, unit)?));
    let ceiling = f.ceiling.as_ref().filter(|_| !chart.ceiling.is_empty());
    let why_empty = || missing_points::why_empty(&data, unit);
    DrawnFigure {
        id: format!("figure-{}", number + 1),
        title: clean(&figure_words::title(f)),
        panel: clean(&descriptions::panel(&f.panel)),
        y: vertical_title(f, unit, chart.log),
        x: f.x.name().to_owned(),
        crop: format!("{:.3}", chart::SIZE.0 / (chart.right + 18.0)),
        columns: f.x_values.iter().map(|v| f.x.in_words(v)).collect(),
        gaps: gaps.iter().map(|gap| spans(gap)).collect(),
        gap_marks: chart.gaps.iter().filter_map(gap_mark).collect(),
        empty: chart.empty.then(why_empty),
        note: figure_words::note(f, unit).as_deref().map(spans),
        ceiling: ceiling.map(|c| figure_words::ceiling(c.kind).to_owned()),
        source,
        stalls: lines.iter().flat_map(|l| &l.dots).any(|d| d.stalled),
        lines,
        chart,
    }
}

/// The figure without its series that have no point, which only the legend would show; unchanged where
/// no series has a point.
fn with_points(f: &FigureData) -> FigureData {
    let mut shown = f.clone();
    if f.series.iter().any(has_points) {
        shown.series.retain(has_points);
    }
    shown
}

/// The title of the vertical axis.
fn vertical_title(f: &FigureData, unit: Unit, log: bool) -> String {
    let times = |baseline: &Value| format!("times {}'s", clean(&baseline.to_string()));
    let times = f.relative_to.as_ref().map(times);
    let scale = if log { "log scale" } else { "" };
    let mut title = f.y.title(unit);
    if figure_words::title(f).contains(&title) {
        title.clear();
    }
    let amount = times.as_deref().unwrap_or(f.y.measure.row().unit);
    joined([&title, amount, descriptions::direction(f.y), scale], ", ")
}

fn line(
    a: &Analysis,
    f: &FigureData,
    series: &Series,
    overlaid: &OverlaidLine,
    drawn: &chart::ChartLine,
    palette: &Palette,
) -> SeriesLine {
    let slot = palette.slot(&overlaid.of);
    let hollow = overlaid.source.is_some();
    let points = series.points.iter().enumerate();
    SeriesLine {
        name: clean(&series.name),
        color: slot.checked_sub(1).map_or(0, |place| place % COLORS + 1),
        dashed: slot > COLORS,
        is_baseline: !hollow && palette.baselines.contains(&overlaid.of),
        hollow,
        marker: MARKERS[slot % MARKERS.len()],
        dots: (drawn.dots.iter())
            .map(|dot| dot_text(a, f, overlaid, dot))
            .collect(),
        entries: points
            .map(|(i, point)| entry(a, f, point, overlaid.stalls(i)))
            .collect(),
    }
}

fn dot_text(a: &Analysis, f: &FigureData, line: &OverlaidLine, dot: &Dot) -> DotText {
    let x = &f.x_values[dot.column];
    let unit = f.y.measure.row().unit;
    let value = dot.estimate.value;
    let trials = count(dot.estimate.trials, "trial", "trials");
    let compared = match line.source {
        None => comparison(a, f, &line.of, x),
        Some(_) => None,
    };
    DotText {
        at: *dot,
        x: f.x.in_words(x),
        value: match f.relative_to {
            Some(_) => ratio(value),
            None => joined([&*units::number(value), unit], " "),
        },
        interval: match (&line.source, numbers::interval(&dot.estimate)) {
            (Some(source), _) => format!("published by {}, without an interval", clean(source)),
            (None, Some(interval)) => format!("95 % interval {interval}, {trials}"),
            (None, None) => format!("no interval, {trials}"),
        },
        compared: compared.map_or_else(String::new, |finding| {
            let words = DocMark::from(finding.verdict).words;
            let (ratio, interval) = (ratio(finding.ratio), ratio_interval(finding));
            format!("{ratio} {} ({interval}), {words}", finding.baseline_value)
        }),
        stalled: line.stalls(dot.column),
    }
}

/// The finding that compares the series `name` at `x` with its baseline.
fn comparison<'a>(a: &'a Analysis, f: &FigureData, name: &str, x: &Value) -> Option<&'a Finding> {
    let is_here = |cell: &Cell| cell.value(f.x) == *x && is_at(cell, &f.panel);
    a.findings.iter().find(|finding| {
        finding.metric == f.y && finding.value == name && a.cell(&finding.cell).is_some_and(is_here)
    })
}

fn entry(a: &Analysis, f: &FigureData, point: &Point, stalled: bool) -> EntryText {
    match point {
        Point::Measured(e) => {
            let value = match f.relative_to {
                Some(_) => ratio(e.value),
                None => units::number(e.value),
            };
            EntryText::Measured(value, numbers::interval(e).unwrap_or_default(), stalled)
        }
        Point::Gap(why) => EntryText::Gap(gap_in_words(why, a.study.unit)),
    }
}
