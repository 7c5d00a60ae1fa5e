//! Heat map of the latency between two CPUs: a row for the CPU that asks, a column for the one that
//! answers, and a stronger colour for a longer time. Each map has its table.

use askama::Template;
use bytecost_analysis::{Analysis, MatrixData, PairPoint, Point, grouped};
use bytecost_spec::{Unit, units};
use itertools::Itertools as _;

use crate::cpu_pairs;
use crate::descriptions;
use crate::document::{DocBlock, DocColumn, DocEntry, DocTable};
use crate::missing_points::gap_in_words;
use crate::style::Ink;
use crate::text::{TextSpan, clean, spans};

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
    pub told: String,
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
    pub tells: String,
}

pub(crate) enum HeatEntry {
    Measured(String, String),
    Gap(String),
    NotAsked,
}

pub(crate) fn heats(a: &Analysis) -> Vec<Heat> {
    let maps = || a.matrices.iter();
    let several = |m: &MatrixData| maps().filter(|o| o.mover == m.mover).count() > 1;
    let drawn = |(i, m)| heat(m, several(m).then_some(i), a.study.unit);
    (1..).zip(maps()).map(drawn).collect()
}

fn heat(m: &MatrixData, number: Option<usize>, unit_of_study: Unit) -> Heat {
    let values = || m.pairs.iter().filter_map(value);
    let least = values().fold(f64::INFINITY, f64::min);
    let most = values().fold(0.0, f64::max);
    let unit = match most < IN_US {
        true => ("ns", 1.0),
        false => ("µs", 1e-3),
    };
    let scale = Scale { least, most, unit };
    let drawn = &m.cpus[..m.cpus.len().min(MOST_CPUS)];
    let step = (WIDTH / drawn.len().max(1) as f64).min(COLUMN_MOST);
    let at = |place: usize, from: f64| from + place as f64 * step;
    let fields = drawn.iter().enumerate();
    let fields = fields.cartesian_product(drawn.iter().enumerate());
    let fields = fields.filter_map(|((row, from), (column, to))| {
        let pair = m.pair(*from, *to)?;
        let point = [at(column, LEFT), at(row, TOP)];
        Some(field(point, pair, &scale, step, unit_of_study))
    });
    let swatches = (0..=4).map(f64::from);
    let swatches = swatches.map(|i| (i * 26.0, scale.opacity_of(i / 4.0)));
    let names = drawn.iter().enumerate();
    let names = names.filter(|(i, _)| step >= COLUMN_OF_NAMES || i.is_multiple_of(4));
    let names = names.map(|(i, cpu)| ((i as f64 + 0.5) * step, *cpu));
    let mover = clean(&m.mover);
    let panel = descriptions::panel(&m.panel);
    let suffix = number.map_or_else(String::new, |n| format!("-{n}"));
    let words: Vec<String> = cpu_pairs::summary(m).iter().map(|w| clean(w)).collect();
    Heat {
        id: format!("distance-{mover}{suffix}"),
        sub: sub(m, scale.unit.0, &clean(&panel)),
        width: LEFT + step * drawn.len() as f64 + MARGIN,
        height: TOP + step * drawn.len() as f64 + MARGIN,
        step,
        names: names.collect(),
        fields: fields.collect(),
        swatches: swatches.collect(),
        ends: (scale.with_unit(least), scale.with_unit(most)),
        told: words.join(" "),
        words: words.iter().map(|w| spans(w)).collect(),
        columns: m.cpus.clone(),
        rows: m
            .cpus
            .iter()
            .map(|from| row(m, *from, &scale, unit_of_study))
            .collect(),
        gaps: gaps_of(m, unit_of_study),
        title: mover,
    }
}

fn sub(m: &MatrixData, unit: &str, panel: &str) -> String {
    let mut parts = vec![format!("A turn there and back in {unit}, less is better")];
    if !panel.is_empty() {
        parts.push(panel.to_owned());
    }
    let both = |p: &PairPoint| m.pairs.iter().any(|o| (o.from, o.to) == (p.to, p.from));
    if m.pairs.iter().filter(|p| p.from != p.to).any(|p| !both(p)) {
        parts.push("a pair was measured one way round and stands on both sides".to_owned());
    }
    if m.cpus.len() > MOST_CPUS {
        let all = m.cpus.len();
        parts.push(format!("the first {MOST_CPUS} of {all} CPUs are drawn"));
    }
    parts.join("; ")
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
        match ns.is_finite() {
            true => format!("{} {}", self.number(ns), self.unit.0),
            false => "–".to_owned(),
        }
    }

    fn opacity(&self, ns: f64) -> f64 {
        let range = (self.most / self.least).ln();
        let share = match range > 0.0 && range.is_finite() {
            true => (ns / self.least).ln() / range,
            false => 0.0,
        };
        self.opacity_of(share)
    }

    fn opacity_of(&self, share: f64) -> f64 {
        OPACITY.0 + (OPACITY.1 - OPACITY.0) * share.clamp(0.0, 1.0)
    }

    fn interval(&self, low: Option<f64>, high: Option<f64>) -> String {
        let ends = low.zip(high);
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
    let place = match pair.from == pair.to {
        true => format!("CPU {} with itself", pair.from),
        false => {
            let shared = cpu_pairs::shared(pair);
            format!("CPUs {} and {}, {shared}", pair.from, pair.to)
        }
    };
    let (mut label, said) = match &pair.point {
        Point::Measured(e) => {
            let interval = match scale.interval(e.low, e.high) {
                none if none.is_empty() => "no interval".to_owned(),
                some => format!("95 % interval {some}"),
            };
            let said = format!("{}, {interval}", scale.with_unit(e.value));
            (scale.number(e.value), said)
        }
        Point::Gap(gap) => ("–".to_owned(), gap_in_words(gap, unit)),
    };
    if step < COLUMN_OF_NUMBERS {
        label.clear();
    }
    Field {
        x,
        y,
        opacity: value(pair).map(|v| scale.opacity(v)),
        label,
        tells: format!("{place}: {said}"),
    }
}

fn row(m: &MatrixData, from: u32, scale: &Scale, unit: Unit) -> (u32, Vec<HeatEntry>) {
    let entry = |to: &u32| match m.pair(from, *to).map(|p| &p.point) {
        None => HeatEntry::NotAsked,
        Some(Point::Gap(gap)) => HeatEntry::Gap(gap_in_words(gap, unit)),
        Some(Point::Measured(e)) => {
            HeatEntry::Measured(scale.number(e.value), scale.interval(e.low, e.high))
        }
    };
    (from, m.cpus.iter().map(entry).collect())
}

fn gaps_of(m: &MatrixData, unit: Unit) -> Vec<Vec<TextSpan>> {
    let missing = m.pairs.iter().filter_map(|p| match &p.point {
        Point::Gap(gap) => {
            let pair = format!("{}:{}", p.from, p.to);
            Some((gap_in_words(gap, unit), pair))
        }
        Point::Measured(_) => None,
    });
    let gaps = grouped(missing).into_iter();
    gaps.map(|(why, pairs)| spans(&format!("{}: {why}", pairs.join(", "))))
        .collect()
}

impl Heat {
    pub(crate) fn told(&self) -> Vec<DocBlock> {
        let columns = DocColumn::numbers("CPU", self.columns.iter().map(u32::to_string));
        let rows = self.rows.iter().map(|(cpu, entries)| {
            let entries = entries.iter().map(|entry| match entry {
                HeatEntry::Measured(value, _) => value.as_str(),
                HeatEntry::Gap(_) => "–",
                HeatEntry::NotAsked => "",
            });
            let name = std::iter::once(DocEntry::from(cpu.to_string()));
            name.chain(entries.map(DocEntry::from)).collect()
        });
        vec![
            DocBlock::heading(&self.title),
            DocBlock::paragraph(Ink::Faint, &self.sub),
            DocBlock::Table(DocTable::of::<DocEntry>(columns, rows)),
            DocBlock::paragraph(Ink::Plain, &self.told),
        ]
    }
}
