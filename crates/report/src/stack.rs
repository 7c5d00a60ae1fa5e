//! Where the CPU time went, as one stacked bar a cell: nanoseconds for each KiB, by kind of work.

use bytecost_analysis::{Analysis, CellTime};
use bytecost_spec::evidence::{KINDS, Kind, KindRow};
use bytecost_spec::{Axis, Cell, units};

use crate::numbers;
use crate::prose::clean;
use crate::question::value_in_words;

/// Where bars begin, and where the longest ends.
const LEFT: f64 = 176.0;
const RIGHT: f64 = 566.0;
/// Height of a bar with the room below it, of the bar, and of a group's heading.
const ROW: f64 = 22.0;
const BAR: f64 = 15.0;
const HEADING: f64 = 28.0;
/// The most bars that are drawn; findings.json has the others.
const MOST_BARS: usize = 48;
/// The most characters of a bar's name.
const NAME_MOST: usize = 24;

/// The figure, laid out.
#[derive(Clone, Debug)]
pub(crate) struct Stack {
    pub groups: Vec<Group>,
    pub height: f64,
    /// Kinds that appear, for the legend.
    pub kinds: Vec<Key>,
    /// What a reader must know: how it was seen, and how much was not.
    pub notes: Vec<String>,
}

/// Bars that share a scale.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub y: f64,
    /// What they have in common, of what varies; empty where nothing else varies.
    pub title: String,
    pub bars: Vec<Bar>,
}

/// A cell.
#[derive(Clone, Debug)]
pub(crate) struct Bar {
    pub y: f64,
    pub name: String,
    pub parts: Vec<Part>,
    /// Where the bar ends, and what stands there.
    pub end: f64,
    pub total: String,
}

/// A kind of work of a cell.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub x: f64,
    pub width: f64,
    pub key: Key,
    /// All of it in words, for who points at it.
    pub tells: String,
}

/// A kind in the legend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// Class of its colour.
    pub class: &'static str,
    pub title: &'static str,
}

fn key(row: &KindRow) -> Key {
    let class = match row.kind {
        Kind::DataCopy => "s8",
        Kind::Pinning => "s2",
        Kind::Skb => "s1",
        Kind::Memory => "s6",
        Kind::Protocol => "s3",
        Kind::Device => "s9",
        Kind::Socket => "s7",
        Kind::Scheduling => "s4",
        Kind::Entry => "s5",
        Kind::Files => "s10",
        Kind::User => "s0",
        Kind::Unattributed => "unknown",
    };
    Key {
        class,
        title: row.title,
    }
}

/// Height of a bar, for the templates.
pub(crate) fn bar_height() -> f64 {
    BAR
}

/// Where the names of bars end.
pub(crate) fn names_end() -> f64 {
    LEFT - 10.0
}

/// The figure; none where no cell was watched.
pub(crate) fn stack(a: &Analysis) -> Option<Stack> {
    let known = a.cpu_time.iter().filter_map(|time| {
        let cell = a.cells.iter().find(|c| c.id == time.cell)?;
        Some((time, &cell.cell))
    });
    let watched: Vec<(&CellTime, &Cell)> = known.collect();
    if watched.is_empty() {
        return None;
    }
    let names = names(&a.study.varied);
    let mut places: Vec<(String, Vec<(&CellTime, &Cell)>)> = Vec::new();
    for &(time, cell) in watched.iter().take(MOST_BARS) {
        let others = a.study.varied.iter().filter(|axis| Some(**axis) != names);
        let values: Vec<String> = others
            .map(|axis| {
                format!(
                    "{} {}",
                    axis.name(),
                    value_in_words(*axis, &cell.value(*axis))
                )
            })
            .collect();
        let place = clean(&values.join(", "));
        match places.iter_mut().find(|(there, _)| *there == place) {
            Some((_, bars)) => bars.push((time, cell)),
            None => places.push((place, vec![(time, cell)])),
        }
    }
    let mut y = 0.0;
    let groups = places
        .into_iter()
        .map(|(title, cells)| group(title, &cells, names, &mut y))
        .collect();
    let appears = |row: &&KindRow| watched.iter().any(|(t, _)| t.of_kind(row.kind) > 0.0);
    Some(Stack {
        groups,
        height: y,
        kinds: KINDS.iter().filter(appears).map(key).collect(),
        notes: notes(&watched),
    })
}

/// The axis whose values name the bars: the mover, or whatever else varies.
fn names(varied: &[Axis]) -> Option<Axis> {
    let preferred = varied.iter().find(|axis| **axis == Axis::Mover);
    preferred.or(varied.first()).copied()
}

fn group(title: String, cells: &[(&CellTime, &Cell)], names: Option<Axis>, y: &mut f64) -> Group {
    let most = cells.iter().map(|(t, _)| t.total()).fold(0.0, f64::max);
    let top = *y;
    *y += HEADING;
    let bars = cells
        .iter()
        .map(|(time, cell)| {
            let name = names.map_or_else(
                || cell.mover.clone(),
                |axis| value_in_words(axis, &cell.value(axis)),
            );
            let bar = bar(time, &name, most, *y);
            *y += ROW;
            bar
        })
        .collect();
    *y += 6.0;
    Group {
        y: top,
        title,
        bars,
    }
}

fn bar(time: &CellTime, name: &str, most: f64, y: f64) -> Bar {
    let scale = (RIGHT - LEFT) / most.max(f64::MIN_POSITIVE);
    let mut x = LEFT;
    let parts = KINDS
        .iter()
        .filter_map(|row| {
            let ns = time.of_kind(row.kind);
            if ns <= 0.0 {
                return None;
            }
            let part = Part {
                x,
                width: ns * scale,
                key: key(row),
                tells: tells(time, row),
            };
            x += part.width;
            Some(part)
        })
        .collect();
    let mut short: String = clean(name);
    if short.chars().count() > NAME_MOST {
        short = short.chars().take(NAME_MOST - 1).chain(['…']).collect();
    }
    Bar {
        y,
        name: short,
        parts,
        end: x + 6.0,
        total: units::number(time.total()),
    }
}

/// `data copy: 110 ns for each KiB, 52 %; sender 60 (55 to 65), receiver 50 (46 to 55)`.
fn tells(time: &CellTime, row: &KindRow) -> String {
    let share = time.of_kind(row.kind) / time.total().max(f64::MIN_POSITIVE);
    let sides: Vec<String> = time
        .kinds
        .iter()
        .filter(|k| k.kind == row.kind)
        .map(|k| {
            let party = match k.party {
                bytecost_spec::evidence::Party::Sender => "sender",
                bytecost_spec::evidence::Party::Receiver => "receiver",
                bytecost_spec::evidence::Party::Rest => "rest",
            };
            format!(
                "{party} {} ({} to {})",
                units::number(k.ns_per_kib),
                units::number(k.low),
                units::number(k.high)
            )
        })
        .collect();
    format!(
        "{}: {} ns for each KiB, {}; {}",
        row.title,
        units::number(time.of_kind(row.kind)),
        numbers::percent(share),
        sides.join(", ")
    )
}

fn notes(watched: &[(&CellTime, &Cell)]) -> Vec<String> {
    let most = |share: fn(&CellTime) -> f64| {
        let shares = watched.iter().map(|(t, _)| share(t));
        numbers::percent(shares.fold(0.0, f64::max))
    };
    let mut notes = vec![format!(
        "Looks at the CPUs' clock in trials of their own, which are not timed. At most {} of a cell's looks are unattributed; at most {} were given to a caller, since they landed where interrupts are switched on again or in a function that serves all.",
        most(|t| t.unattributed),
        most(|t| t.moved)
    )];
    if watched.len() > MOST_BARS {
        notes.push(format!(
            "{} further cells are in findings.json.",
            watched.len() - MOST_BARS
        ));
    }
    notes
}
