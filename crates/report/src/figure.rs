//! A figure of the page: its drawing, its legend and its table, ready for the template.

use bytecost_analysis::{Analysis, Estimate, FigureData, Finding, Point};
use bytecost_spec::units;
use bytecost_spec::{Better, Cell};

use crate::chart::{self, Chart, Dot};
use crate::facts;
use crate::numbers::{self, ratio, ratio_interval};
use crate::prose::{Span, clean, count, spans};
use crate::question::value_in_words;

/// Colours of the page's palette; slot 0 is the baseline's.
const COLORS: usize = 10;
/// Markers by slot, drawn around 0 0.
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

/// A figure, ready for the template.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    /// Unique within the page.
    pub id: String,
    /// Its heading.
    pub title: String,
    /// What it holds constant.
    pub panel: String,
    /// The metric with its unit, its good direction and its kind of scale.
    pub y: String,
    /// Name of the axis across.
    pub x: String,
    /// The drawing.
    pub chart: Chart,
    /// How much wider than its place the drawing is on a narrow screen, where the names beside
    /// the lines are cut off.
    pub crop: String,
    /// One a series.
    pub lines: Vec<Line>,
    /// Values across, for the table.
    pub columns: Vec<String>,
    /// Gaps with their reasons.
    pub gaps: Vec<Vec<Span>>,
}

/// A series, ready for the template.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// Its name.
    pub name: String,
    /// Its colour.
    pub color: usize,
    /// Whether it is drawn dashed, because its colour is another's too.
    pub dashed: bool,
    /// Whether the others are held against it.
    pub is_baseline: bool,
    /// Path of its marker.
    pub marker: &'static str,
    /// Its measured points.
    pub dots: Vec<DotText>,
    /// Its row of the table: value and interval, or the reason of the gap.
    pub entries: Vec<EntryText>,
}

/// A point with what is said of it.
#[derive(Clone, Debug)]
pub(crate) struct DotText {
    pub at: Dot,
    /// The value across.
    pub x: String,
    /// The value with its unit.
    pub value: String,
    /// The interval and the trials.
    pub interval: String,
    /// How it compares with the baseline.
    pub compared: String,
}

impl DotText {
    /// All of it in one line.
    pub(crate) fn all(&self) -> String {
        let parts = [&self.x, &self.value, &self.interval, &self.compared];
        let said: Vec<&str> = parts
            .iter()
            .map(|p| p.as_str())
            .filter(|p| !p.is_empty())
            .collect();
        said.join(", ")
    }
}

/// An entry of the table.
#[derive(Clone, Debug)]
pub(crate) enum EntryText {
    /// Value and interval.
    Measured(String, String),
    /// The reason.
    Gap(String),
}

/// Colours and markers of all series of a page: a name looks the same in every figure.
#[derive(Clone, Debug)]
pub(crate) struct Palette {
    names: Vec<String>,
    baselines: Vec<String>,
}

impl Palette {
    /// The palette of a result.
    pub(crate) fn of(a: &Analysis) -> Palette {
        let mut palette = Palette {
            names: Vec::new(),
            baselines: Vec::new(),
        };
        for finding in &a.findings {
            if !palette.baselines.contains(&finding.baseline_value) {
                palette.baselines.push(finding.baseline_value.clone());
            }
        }
        for series in a.figures.iter().flat_map(|f| &f.series) {
            let known = palette.names.contains(&series.name);
            if !known && !palette.is_baseline(&series.name) {
                palette.names.push(series.name.clone());
            }
        }
        palette
    }

    fn is_baseline(&self, name: &str) -> bool {
        self.baselines.iter().any(|b| b == name)
    }

    fn slot(&self, name: &str) -> usize {
        match self.names.iter().position(|n| n == name) {
            Some(at) => at + 1,
            None => 0,
        }
    }
}

/// Makes a figure ready. `number` is its place among the figures.
pub(crate) fn figure(a: &Analysis, number: usize, f: &FigureData, palette: &Palette) -> Figure {
    let chart = chart::chart(f);
    let row = f.y.measure.row();
    let direction = match row.better {
        Better::Higher => "more is better",
        Better::Lower => "less is better",
    };
    let times = f
        .relative_to
        .as_ref()
        .map(|b| format!("times {}'s", clean(b)));
    let mut y: Vec<&str> = vec![
        times.as_deref().unwrap_or(row.unit),
        direction,
        if chart.log { "log scale" } else { "" },
    ];
    y.retain(|part| !part.is_empty());
    let title = f.y.title();
    if !f.title.contains(&title) {
        y.insert(0, &title);
    }
    let lines = f.series.iter().zip(&chart.lines).map(|(series, drawn)| {
        let slot = palette.slot(&series.name);
        Line {
            name: clean(&series.name),
            color: if slot == 0 {
                0
            } else {
                (slot - 1) % COLORS + 1
            },
            dashed: slot > COLORS,
            is_baseline: palette.is_baseline(&series.name),
            marker: MARKERS[slot % MARKERS.len()],
            dots: drawn
                .dots
                .iter()
                .map(|dot| dot_text(a, f, &series.name, dot))
                .collect(),
            entries: series.points.iter().map(|p| entry(f, p)).collect(),
        }
    });
    Figure {
        id: format!("figure-{}", number + 1),
        title: clean(&f.title),
        panel: facts::panel(&f.panel),
        y: y.join(", "),
        x: f.x.name().to_owned(),
        crop: format!("{:.3}", chart::SIZE.0 / (chart.right + 18.0)),
        columns: f.x_values.iter().map(|v| value_in_words(f.x, v)).collect(),
        gaps: gaps(f).iter().map(|gap| spans(gap)).collect(),
        lines: lines.collect(),
        chart,
    }
}

fn dot_text(a: &Analysis, f: &FigureData, name: &str, dot: &Dot) -> DotText {
    let x = f.x_values.get(dot.column).map_or("", String::as_str);
    let finding = comparison(a, f, name, x);
    let trials = count(dot.estimate.trials, "trial", "trials");
    DotText {
        at: *dot,
        x: value_in_words(f.x, x),
        value: match f.relative_to {
            Some(_) => ratio(dot.estimate.value),
            None => numbers::with_unit(&units::number(dot.estimate.value), f.y.measure.row().unit),
        },
        interval: match numbers::interval(&dot.estimate) {
            Some(interval) => format!("95 % interval {interval}, {trials}"),
            None => format!("no interval, {trials}"),
        },
        compared: finding
            .map(|f| {
                format!(
                    "{} {} ({}), {}",
                    ratio(f.ratio),
                    f.baseline_value,
                    ratio_interval(f),
                    numbers::verdict(f.verdict)
                )
            })
            .unwrap_or_default(),
    }
}

/// The finding that a point is the other side of.
fn comparison<'a>(a: &'a Analysis, f: &FigureData, name: &str, x: &str) -> Option<&'a Finding> {
    a.findings.iter().find(|finding| {
        let fits = |cell: &Cell| {
            cell.value(f.x) == x
                && f.panel
                    .iter()
                    .all(|(axis, value)| cell.value(*axis) == *value)
        };
        finding.metric == f.y
            && finding.value == name
            && crate::question::cell_of(&finding.cell).is_some_and(|cell| fits(&cell))
    })
}

fn entry(f: &FigureData, point: &Point) -> EntryText {
    match point {
        Point::Measured(e) if f.relative_to.is_some() => {
            EntryText::Measured(ratio(e.value), bounds(e))
        }
        Point::Measured(e) => EntryText::Measured(units::number(e.value), bounds(e)),
        Point::Gap(why) => EntryText::Gap(clean(why)),
    }
}

fn bounds(e: &Estimate) -> String {
    numbers::interval(e).unwrap_or_default()
}

/// Gaps with the same reason together: `splice, vmsplice at 256 B, 4 KiB: why`.
fn gaps(f: &FigureData) -> Vec<String> {
    let mut groups: Vec<(String, Vec<String>, Vec<String>)> = Vec::new();
    for series in &f.series {
        let mut reasons: Vec<(String, Vec<String>)> = Vec::new();
        for (x, point) in f.x_values.iter().zip(&series.points) {
            let Point::Gap(why) = point else { continue };
            let (why, x) = (clean(why), value_in_words(f.x, x));
            match reasons.iter_mut().find(|(w, _)| *w == why) {
                Some((_, xs)) => xs.push(x),
                None => reasons.push((why, vec![x])),
            }
        }
        for (why, xs) in reasons {
            match groups.iter_mut().find(|(w, _, at)| *w == why && *at == xs) {
                Some((_, names, _)) => names.push(clean(&series.name)),
                None => groups.push((why, vec![clean(&series.name)], xs)),
            }
        }
    }
    groups
        .into_iter()
        .map(|(why, names, xs)| {
            let at = match f.x {
                bytecost_spec::Axis::Size => format!("at {}", xs.join(", ")),
                axis => format!("at {} {}", axis.name(), xs.join(", ")),
            };
            format!("{} {at}: {why}", names.join(", "))
        })
        .collect()
}
