//! Heat map of the latency between two CPUs: a row for the CPU that sends the request, a column for
//! the one that responds, and a stronger colour for a longer time. Each map has its table.

use askama::Template;
use bytecost_analysis::{Analysis, Estimate, MatrixData, PairPoint, Point, grouped};
use bytecost_spec::{Unit, units};
use itertools::Itertools as _;

use crate::cpu_pairs;
use crate::descriptions;
use crate::document::{DocBlock, DocColumn, DocEntry, DocRow, DocTable, GAP};
use crate::missing_points::{gap_in_words, gap_of};
use crate::style::Ink;
use crate::text::{TextSpan, clean, joined, spans};

/// Room for the names of rows and of columns.
pub(crate) const LEFT: f64 = 52.0;
pub(crate) const TOP: f64 = 44.0;
const MARGIN: f64 = 6.0;
/// Width of all columns together, and the widest column.
const WIDTH: f64 = 520.0;
const COLUMN_MOST: f64 = 104.0;
/// The narrowest column that has room for a number, and for a CPU's name.
const COLUMN_OF_NUMBERS: f64 = 46.0;
const COLUMN_OF_NAMES: f64 = 22.0;
/// The most CPUs that are drawn; the table and findings.json have all.
const MOST_CPUS: usize = 64;
/// Opacity of the quickest and of the slowest field: text stays readable on both.
const OPACITY: (f64, f64) = (0.06, 0.5);
/// Value in ns from which on all values of a map are shown in µs.
const IN_US: f64 = 10_000.0;

#[derive(Template)]
#[template(path = "heat.html", whitespace = "minimize")]
pub(crate) struct Heat {
    /// Unique within the page, and the name of its picture.
    pub id: String,
    pub title: String,
    /// Subtitle: the metric of each pair with its unit, and the values that all pairs share.
    pub sub: String,
    pub width: f64,
    pub height: f64,
    pub step: f64,
    /// Offsets of the CPUs' names along the rows and the columns, with the CPU.
    pub names: Vec<(f64, u32)>,
    pub fields: Vec<Field>,
    /// Swatches of the legend from quick to slow, as offset and opacity; `ends` are the labels of
    /// both ends.
    pub swatches: Vec<(f64, f64)>,
    pub ends: (String, String),
    /// Summary of the map, a sentence each.
    pub words: Vec<Vec<TextSpan>>,
    /// Summary of the map in one text, for screen readers.
    pub summary: String,
    pub columns: Vec<u32>,
    pub rows: Vec<(u32, Vec<HeatEntry>)>,
    /// Pairs without a number, with their reason.
    pub gaps: Vec<Vec<TextSpan>>,
}

pub(crate) struct Field {
    pub x: f64,
    pub y: f64,
    /// None where nothing was measured.
    pub opacity: Option<f64>,
    /// The number, where there is room for it.
    pub label: String,
    /// The two CPUs with their number and interval, for a tooltip.
    pub tooltip: String,
}

pub(crate) enum HeatEntry {
    Measured(String, String),
    Gap(String),
    NotAsked,
}

pub(crate) fn heats(a: &Analysis) -> Vec<Heat> {
    let of_mover = |m: &MatrixData| a.matrices.iter().filter(|o| o.mover == m.mover).count();
    let drawn = |(i, m)| heat(m, (of_mover(m) > 1).then_some(i), a.study.unit);
    (1..).zip(&a.matrices).map(drawn).collect()
}

fn heat(m: &MatrixData, number: Option<usize>, unit_of_study: Unit) -> Heat {
    let values = || m.pairs.iter().filter_map(value);
    let least = values().fold(f64::INFINITY, f64::min);
    let most = values().fold(0.0, f64::max);
    let unit = if most < IN_US {
        ("ns", 1.0)
    } else {
        ("µs", 1e-3)
    };
    let scale = Scale { least, most, unit };
    let drawn = &m.cpus[..m.cpus.len().min(MOST_CPUS)];
    let step = (WIDTH / drawn.len().max(1) as f64).min(COLUMN_MOST);
    let at = |place: usize, from: f64| from + place as f64 * step;
    let cpus = || drawn.iter().copied().enumerate();
    let pairs = cpus().cartesian_product(cpus());
    let fields = pairs.filter_map(|((row, from), (column, to))| {
        let point = [at(column, LEFT), at(row, TOP)];
        Some(field(point, m.pair(from, to)?, &scale, step, unit_of_study))
    });
    let named = cpus().filter(|(i, _)| step >= COLUMN_OF_NAMES || i.is_multiple_of(4));
    let swatch = |i: f64| (i * 26.0, scale.opacity_of(i / 4.0));
    let row = |from: &u32| row(m, *from, &scale, unit_of_study);
    let mover = clean(&m.mover);
    let suffix = number.map_or_else(String::new, |n| format!("-{n}"));
    let words: Vec<String> = cpu_pairs::summary(m).iter().map(|w| clean(w)).collect();
    Heat {
        id: format!("distance-{mover}{suffix}"),
        sub: sub(m, scale.unit.0),
        width: LEFT + step * drawn.len() as f64 + MARGIN,
        height: TOP + step * drawn.len() as f64 + MARGIN,
        step,
        names: named
            .map(|(i, cpu)| ((i as f64 + 0.5) * step, cpu))
            .collect(),
        fields: fields.collect(),
        swatches: (0..=4).map(f64::from).map(swatch).collect(),
        ends: (scale.with_unit(least), scale.with_unit(most)),
        summary: words.join(" "),
        words: words.iter().map(|w| spans(w)).collect(),
        columns: m.cpus.clone(),
        rows: m.cpus.iter().map(row).collect(),
        gaps: gaps_of(m, unit_of_study),
        title: mover,
    }
}

fn sub(m: &MatrixData, unit: &str) -> String {
    let is_measured = |from, to| m.pairs.iter().any(|p| (p.from, p.to) == (from, to));
    let is_one_way = |p: &PairPoint| p.from != p.to && !is_measured(p.to, p.from);
    let mut parts = vec![
        format!("A turn there and back in {unit}, less is better"),
        clean(&descriptions::panel(&m.panel)),
    ];
    if m.pairs.iter().any(is_one_way) {
        parts.push("a pair was measured one way round and stands on both sides".to_owned());
    }
    if m.cpus.len() > MOST_CPUS {
        let all = m.cpus.len();
        parts.push(format!("the first {MOST_CPUS} of {all} CPUs are drawn"));
    }
    joined(parts, "; ")
}

/// Logarithmic scale of a map's values, from the least to the most.
struct Scale {
    least: f64,
    most: f64,
    /// Name of the unit, and the value of a nanosecond in it.
    unit: (&'static str, f64),
}

impl Scale {
    fn number(&self, ns: f64) -> String {
        units::number(ns * self.unit.1)
    }

    fn with_unit(&self, ns: f64) -> String {
        if ns.is_finite() {
            format!("{} {}", self.number(ns), self.unit.0)
        } else {
            GAP.to_owned()
        }
    }

    fn opacity(&self, ns: f64) -> f64 {
        let range = (self.most / self.least).ln();
        let has_range = range > 0.0 && range.is_finite();
        let share = (ns / self.least).ln() / range;
        self.opacity_of(if has_range { share } else { 0.0 })
    }

    fn opacity_of(&self, share: f64) -> f64 {
        OPACITY.0 + (OPACITY.1 - OPACITY.0) * share.clamp(0.0, 1.0)
    }

    fn interval(&self, e: &Estimate) -> String {
        let ends = e.low.zip(e.high);
        ends.map_or_else(String::new, |(low, high)| {
            [low, high].map(|end| self.number(end)).join(" to ")
        })
    }
}

fn value(pair: &PairPoint) -> Option<f64> {
    let value = pair.point.measured().map(|e| e.value);
    value.filter(|value| value.is_finite() && *value > 0.0)
}

fn field([x, y]: [f64; 2], pair: &PairPoint, scale: &Scale, step: f64, unit: Unit) -> Field {
    let PairPoint { from, to, .. } = pair;
    let place = if from == to {
        format!("CPU {from} with itself")
    } else {
        format!("CPUs {from} and {to}, {}", cpu_pairs::shared(pair))
    };
    let (mut label, reading) = match &pair.point {
        Point::Measured(e) => {
            let interval = match scale.interval(e).as_str() {
                "" => "no interval".to_owned(),
                interval => format!("95 % interval {interval}"),
            };
            let reading = format!("{}, {interval}", scale.with_unit(e.value));
            (scale.number(e.value), reading)
        }
        Point::Gap(gap) => (GAP.to_owned(), gap_in_words(gap, unit)),
    };
    if step < COLUMN_OF_NUMBERS {
        label.clear();
    }
    Field {
        x,
        y,
        opacity: value(pair).map(|v| scale.opacity(v)),
        label,
        tooltip: format!("{place}: {reading}"),
    }
}

fn row(m: &MatrixData, from: u32, scale: &Scale, unit: Unit) -> (u32, Vec<HeatEntry>) {
    let entry = |to: &u32| match m.pair(from, *to).map(|p| &p.point) {
        None => HeatEntry::NotAsked,
        Some(Point::Gap(gap)) => HeatEntry::Gap(gap_in_words(gap, unit)),
        Some(Point::Measured(e)) => HeatEntry::Measured(scale.number(e.value), scale.interval(e)),
    };
    (from, m.cpus.iter().map(entry).collect())
}

fn gaps_of(m: &MatrixData, unit: Unit) -> Vec<Vec<TextSpan>> {
    let pair = |p: &PairPoint| Some((gap_of(&p.point, unit)?, format!("{}:{}", p.from, p.to)));
    let gaps = grouped(m.pairs.iter().filter_map(pair)).into_iter();
    gaps.map(|(why, pairs)| spans(&format!("{}: {why}", pairs.join(", "))))
        .collect()
}

impl Heat {
    /// The map as a table, below its title and above its summary.
    pub(crate) fn as_text(&self) -> Vec<DocBlock> {
        let number = |entry: &HeatEntry| match entry {
            HeatEntry::Measured(value, _) => DocEntry::from(value.as_str()),
            HeatEntry::Gap(_) => DocEntry::gap(),
            HeatEntry::NotAsked => DocEntry::default(),
        };
        let rows = self
            .rows
            .iter()
            .map(|(cpu, row)| DocRow::new(cpu.to_string(), row.iter().map(number)));
        let table = DocTable {
            columns: DocColumn::numbers("CPU", self.columns.iter().map(u32::to_string)),
            rows: rows.collect(),
            ..DocTable::default()
        };
        vec![
            DocBlock::heading(&self.title),
            DocBlock::paragraph(Ink::Faint, &self.sub),
            DocBlock::Table(table),
            DocBlock::paragraph(Ink::Plain, &self.summary),
        ]
    }
}
