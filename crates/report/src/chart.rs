//! The geometry of a figure: lines, bands, markers and labels as SVG path data.

use bytecost_analysis::{Estimate, FigureData, Series};

use crate::scale::{Scale, places, tick};
use crate::text::shortened;

/// Width and height of the drawing, in its own units.
pub(crate) const SIZE: (f64, f64) = (640.0, 400.0);
const LEFT: f64 = 68.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 34.0;
const LABEL_HEIGHT: f64 = 15.0;
/// Width of a character of a label, about.
const CHARACTER: f64 = 7.6;
/// Width of a character on a narrow screen, where text is drawn larger.
const CHARACTER_NARROW: f64 = 12.0;
/// The most characters of a label at the end of a line.
const LABEL_MOST: usize = 16;

pub(crate) struct Chart {
    pub right: f64,
    pub bottom: f64,
    pub log: bool,
    /// Lines across, from below.
    pub rows: Vec<Tick>,
    pub columns: Vec<Tick>,
    pub lines: Vec<ChartLine>,
    /// Columns where a line has no point, by their number, and where they lie.
    pub gaps: Vec<(usize, f64)>,
    pub empty: bool,
    /// Path of the ceiling's line; empty where the ceiling is not known.
    pub ceiling: String,
}

pub(crate) struct Tick {
    pub at: f64,
    /// Text of the tick; empty where there is no room.
    pub label: String,
    /// True if a narrow screen has room for the label too.
    pub narrow: bool,
}

pub(crate) struct ChartLine {
    /// Path of the line, broken at gaps.
    pub path: String,
    /// Path of the intervals: a band along the line, a bar at an isolated point.
    pub band: String,
    pub dots: Vec<Dot>,
    pub label: Option<Label>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Dot {
    pub column: usize,
    pub x: f64,
    pub y: f64,
    pub estimate: Estimate,
}

pub(crate) struct Label {
    pub text: String,
    pub leader: String,
    pub x: f64,
    pub y: f64,
}

/// Lays a figure out; `labels` are the names at the ends of the lines.
pub(crate) fn chart(figure: &FigureData, labels: &[String]) -> Chart {
    let ceiling_points = figure.ceiling.iter().flat_map(|c| &c.points);
    let values: Vec<f64> = (figure.series.iter().flat_map(measured))
        .flat_map(|(_, e)| [Some(e.value), e.low, e.high])
        .chain(ceiling_points.copied())
        .flatten()
        .collect();
    let scale = match figure.relative_to {
        Some(_) => Scale::of_ratios(values.into_iter()),
        None => Scale::of(values.into_iter()),
    };
    let lengths = labels.iter().map(|l| l.chars().count());
    let longest = lengths.max().unwrap_or(0).min(LABEL_MOST);
    let right = SIZE.0 - 24.0 - CHARACTER * longest as f64;
    let bottom = SIZE.1 - BOTTOM;
    let inset = 14.0;
    let mut across = places(figure.x_numbers.as_deref(), figure.x_values.len());
    for x in &mut across {
        *x = LEFT + inset + *x * (right - LEFT - 2.0 * inset);
    }
    let height = |value: f64| bottom - scale.share(value) * (bottom - TOP);
    let mut lines: Vec<ChartLine> = (figure.series.iter())
        .map(|series| line(series, &across, &height))
        .collect();
    label(&mut lines, labels, right, bottom);
    let empty = lines.iter().all(|l| l.dots.is_empty());
    let has_gap = |column: usize| {
        let mut points = figure.series.iter().filter_map(|s| s.points.get(column));
        points.any(|p| p.measured().is_none())
    };
    let all_columns = across.iter().copied().enumerate();
    let gaps = all_columns.filter(|(column, _)| !empty && has_gap(*column));
    let ticks = scale.ticks.iter().filter(|_| !empty).map(|&value| Tick {
        at: height(value),
        label: tick(value),
        narrow: true,
    });
    Chart {
        right,
        bottom,
        log: scale.log && !empty,
        rows: ticks.collect(),
        columns: columns(figure, &across),
        ceiling: ceiling(figure, &across, &height),
        gaps: gaps.collect(),
        lines,
        empty,
    }
}

/// Path of the ceiling's line, broken where the ceiling is not known; a short line at an isolated
/// point.
fn ceiling(figure: &FigureData, across: &[f64], height: &impl Fn(f64) -> f64) -> String {
    const HALF: f64 = 9.0;
    let points = figure.ceiling.iter().flat_map(|c| &c.points);
    let points: Vec<_> = (points.zip(across))
        .map(|(rate, x)| Some((*x, height((*rate)?))))
        .collect();
    let path = |segment: &[Option<(f64, f64)>]| match segment {
        [Some((x, y))] => through([(x - HALF, *y), (x + HALF, *y)]),
        _ => through(segment.iter().copied().flatten()),
    };
    points.split(Option::is_none).map(path).collect()
}

fn measured(series: &Series) -> impl Iterator<Item = (usize, Estimate)> {
    let points = series.points.iter().enumerate();
    points
        .filter_map(|(i, p)| Some((i, *p.measured()?)))
        .filter(|(_, e)| e.value.is_finite())
}

fn line(series: &Series, across: &[f64], height: &impl Fn(f64) -> f64) -> ChartLine {
    let dot = |(column, estimate): (usize, Estimate)| {
        Some(Dot {
            column,
            x: *across.get(column)?,
            y: height(estimate.value),
            estimate,
        })
    };
    let dots: Vec<Dot> = measured(series).filter_map(dot).collect();
    let mut path = String::new();
    let mut band = String::new();
    for segment in dots.chunk_by(|a, b| b.column == a.column + 1) {
        path.push_str(&through(segment.iter().map(|d| (d.x, d.y))));
        for part in segment.chunk_by(|a, b| interval(a).is_some() == interval(b).is_some()) {
            band.push_str(&intervals(part, height));
        }
    }
    ChartLine {
        path,
        band,
        dots,
        label: None,
    }
}

fn interval(dot: &Dot) -> Option<(f64, f64)> {
    dot.estimate.low.zip(dot.estimate.high)
}

/// A closed band along several points, a bar through one.
fn intervals(dots: &[Dot], height: &impl Fn(f64) -> f64) -> String {
    let bar = |dot: &Dot| {
        let (low, high) = interval(dot)?;
        Some([dot.x, height(low), height(high)])
    };
    let bars: Vec<[f64; 3]> = dots.iter().filter_map(bar).collect();
    match bars[..] {
        [] => String::new(),
        [[x, low, high]] => {
            let (left, right) = (x - 2.5, x + 2.5);
            format!("M{left:.1} {high:.1}H{right:.1}V{low:.1}H{left:.1}Z")
        }
        _ => {
            let upper = bars.iter().map(|[x, _, high]| (*x, *high));
            let lower = bars.iter().rev().map(|[x, low, _]| (*x, *low));
            through(upper.chain(lower)) + "Z"
        }
    }
}

fn through(points: impl IntoIterator<Item = (f64, f64)>) -> String {
    let steps = std::iter::once("M").chain(std::iter::repeat("L"));
    let write = |(step, (x, y))| format!("{step}{x:.1} {y:.1}");
    steps.zip(points).map(write).collect()
}

/// Places names at the ends of the lines, moved apart so that none covers another.
fn label(lines: &mut [ChartLine], names: &[String], right: f64, bottom: f64) {
    let mut ends: Vec<(Dot, usize)> = (lines.iter().enumerate())
        .filter_map(|(i, line)| Some((*line.dots.last()?, i)))
        .collect();
    ends.sort_by(|(a, _), (b, _)| a.y.total_cmp(&b.y));
    let mut places: Vec<f64> = ends.iter().map(|(dot, _)| dot.y).collect();
    apart(&mut places, bottom);
    let x = right + 12.0;
    for ((dot, i), y) in ends.into_iter().zip(places) {
        let (from_x, from_y, to_x) = (dot.x + 6.0, dot.y, x - 3.0);
        lines[i].label = Some(Label {
            text: shortened(&names[i], LABEL_MOST),
            leader: format!("M{from_x:.1} {from_y:.1}L{to_x:.1} {y:.1}"),
            x,
            y,
        });
    }
}

/// Moves sorted places as little as it takes for a label's height between them: those that would
/// overlap share the room around their middle (isotonic regression by pooling adjacent violators).
fn apart(places: &mut [f64], bottom: f64) {
    let mut pools: Vec<(f64, usize)> = Vec::new();
    for (i, place) in places.iter().enumerate() {
        let mut pool = (place - i as f64 * LABEL_HEIGHT, 1);
        while let Some(&(mean, count)) = pools.last().filter(|last| last.0 > pool.0) {
            let both = count + pool.1;
            let sum = mean * count as f64 + pool.0 * pool.1 as f64;
            pool = (sum / both as f64, both);
            pools.pop();
        }
        pools.push(pool);
    }
    let most = bottom - places.len().saturating_sub(1) as f64 * LABEL_HEIGHT;
    let repeated = |(mean, count): (f64, usize)| std::iter::repeat_n(mean, count);
    let means = pools.into_iter().flat_map(repeated);
    for ((i, place), mean) in places.iter_mut().enumerate().zip(means) {
        *place = mean.clamp(TOP, most.max(TOP)) + i as f64 * LABEL_HEIGHT;
    }
}

/// The values across, without those that would run into each other.
fn columns(figure: &FigureData, across: &[f64]) -> Vec<Tick> {
    let mut ends = [f64::NEG_INFINITY; 2];
    let mut ticks = Vec::new();
    for (value, &at) in figure.x_values.iter().zip(across) {
        let words = figure.x.in_words(value);
        let characters = words.chars().count() as f64;
        let fits = [CHARACTER, CHARACTER_NARROW].map(|width| characters * width / 2.0 + 4.0);
        let mut room = [false; 2];
        for i in 0..2 {
            room[i] = at - fits[i] > ends[i];
            if room[i] {
                ends[i] = at + fits[i];
            }
        }
        ticks.push(Tick {
            at,
            label: if room[0] { words } else { String::new() },
            narrow: room[1],
        });
    }
    ticks
}

#[cfg(test)]
mod tests;
