//! Figures of one stacked bar a cell: where the CPU time went.

use askama::Template;
use bytecost_analysis::{Analysis, CellTime, TimePer, grouped};
use bytecost_spec::evidence::{KINDS, Kind, KindRow, Party};
use bytecost_spec::{Axis, Cell, units};
use itertools::Itertools as _;

use crate::counted::further;
use crate::document::{DocColumn, DocTable};
use crate::numbers::percent;
use crate::question::{axis_in_words, way};
use crate::scale::down;
use crate::text::{clean, shortened};

/// Left end of all bars, and right end of the longest.
pub(crate) const LEFT: f64 = 176.0;
const RIGHT: f64 = 566.0;
/// Height of a bar with the room below it, of the bar, and of a group's heading.
const ROW: f64 = 22.0;
pub(crate) const BAR: f64 = 15.0;
const HEADING: f64 = 28.0;
/// The most bars that are drawn; findings.json has the others.
const MOST_BARS: usize = 48;
const NAME_MOST: usize = 24;

#[derive(Template)]
#[template(path = "stack.html", whitespace = "minimize")]
pub(crate) struct Stack {
    /// Section on the page; `id` is the drawing's own name, `short` the name in the page's list of
    /// sections.
    pub section: &'static str,
    pub id: &'static str,
    pub short: &'static str,
    pub title: &'static str,
    /// Introduction to the bars for a page; `sub` is the subtitle of a picture.
    pub lead: &'static str,
    pub sub: &'static str,
    pub groups: Vec<BarGroup>,
    pub height: f64,
    /// Entries of the legend.
    pub kinds: Vec<Key>,
    /// Notes on the method, and on the share that was not seen.
    pub notes: Vec<String>,
}

/// Bars that share a scale.
pub(crate) struct BarGroup {
    pub y: f64,
    /// Values that the bars share, of the axes that vary; empty where nothing else varies.
    pub title: String,
    pub bars: Vec<Bar>,
}

pub(crate) struct Bar {
    pub y: f64,
    pub name: String,
    pub parts: Vec<BarPart>,
    /// Right end of the bar; `total` is the text there.
    pub end: f64,
    pub total: String,
}

/// A part of a cell's bar: a kind of work.
#[derive(Clone)]
pub(crate) struct BarPart {
    pub x: f64,
    pub width: f64,
    pub key: Key,
    /// Its time with the shares of both sides.
    pub tooltip: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub class: &'static str,
    pub title: &'static str,
}

impl Stack {
    pub(crate) fn table(&self) -> DocTable {
        let rows = self.groups.iter().flat_map(|group| {
            group.bars.iter().map(|bar| {
                let parts = bar.parts.iter().map(|p| &p.tooltip).join("; ");
                let texts = [&bar.name, &group.title, &bar.total, &parts];
                texts.map(String::clone).to_vec()
            })
        });
        DocTable::of(DocColumn::all("What | Where | Sum | Parts"), rows).without_empty_columns()
    }
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

/// A bar before it has a place: its parts are as wide as they are large.
struct Row<'a> {
    cell: &'a Cell,
    parts: Vec<BarPart>,
    total: String,
}

impl Row<'_> {
    fn size(&self) -> f64 {
        self.parts.iter().map(|p| p.width).sum()
    }
}

pub(crate) fn stacks(a: &Analysis) -> Vec<Stack> {
    let times = [TimePer::Kib, TimePer::Request].into_iter();
    times.filter_map(|per| cpu_time(a, per)).collect()
}

/// Bars of CPU time, of both sides or of servers; none where that of no cell is known.
fn cpu_time(a: &Analysis, per: TimePer) -> Option<Stack> {
    let times: Vec<&CellTime> = (a.cpu_time.iter())
        .filter(|time| time.per == per && a.result(&time.cell).is_some())
        .collect();
    if times.is_empty() {
        return None;
    }
    let row = |time: &&CellTime| {
        let parts = KINDS.iter().map(|row| BarPart {
            x: 0.0,
            width: time.of_kind(row.kind),
            key: key(row),
            tooltip: tooltip(time, row),
        });
        Some(Row {
            cell: &a.result(&time.cell)?.cell,
            parts: parts.filter(|p| p.width > 0.0).collect(),
            total: units::number(time.total()),
        })
    };
    let rows: Vec<Row<'_>> = times.iter().filter_map(row).collect();
    let (groups, height) = groups(a, &rows);
    let appears = |key: &Key| rows.iter().any(|r| r.parts.iter().any(|p| p.key == *key));
    let [section, id, short, title, lead, sub] = match per {
        TimePer::Kib => [
            "cpu-time",
            "cpu-time-by-kind",
            "CPU time",
            "Where the CPU time goes",
            "CPU time of both sides together, in nanoseconds for each KiB sent, by kind of work. Each group has a scale of its own.",
            "Nanoseconds of both sides for each KiB sent, by kind of work; each group has its own scale",
        ],
        TimePer::Request => [
            "server-time",
            "server-time-by-kind",
            "Server's time",
            "Where the server's CPU time goes",
            "CPU time of the server, in nanoseconds for each response, by kind of work; its clients' is shown where you point. Each group has a scale of its own.",
            "Nanoseconds of the server for each request, by kind of work; each group has its own scale",
        ],
    };
    Some(Stack {
        section,
        id,
        short,
        title,
        lead,
        sub,
        groups,
        height,
        kinds: KINDS.iter().map(key).filter(appears).collect(),
        notes: notes(&times),
    })
}

/// The bars by what they have in common, each group on a scale of its own, and their height.
fn groups(a: &Analysis, rows: &[Row<'_>]) -> (Vec<BarGroup>, f64) {
    let named = naming_axis(&a.study.varied);
    let places = grouped(rows.iter().take(MOST_BARS).map(|row| {
        let others = a.study.varied.iter().filter(|axis| Some(**axis) != named);
        let mut values = others.map(|axis| axis_in_words(*axis, &row.cell.value(*axis)));
        (clean(&values.join(", ")), row)
    }));
    let mut y = 0.0;
    let mut groups = Vec::new();
    for (title, of_place) in places {
        let most = of_place.iter().map(|r| r.size()).fold(0.0, f64::max);
        let top = down(&mut y, HEADING);
        let mut bars = Vec::new();
        for row in of_place {
            let name = match named {
                Some(axis) => axis.in_words(&row.cell.value(axis)),
                None => way(row.cell).clone(),
            };
            bars.push(bar(row, &name, most, down(&mut y, ROW)));
        }
        y += 6.0;
        groups.push(BarGroup {
            y: top,
            title,
            bars,
        });
    }
    (groups, y)
}

/// The axis whose values name the bars: the mover or the server, or whatever else varies.
fn naming_axis(varied: &[Axis]) -> Option<Axis> {
    let is_way = |axis: &&Axis| [Axis::Mover, Axis::Server].contains(axis);
    varied.iter().find(is_way).or(varied.first()).copied()
}

fn bar(row: &Row<'_>, name: &str, most: f64, y: f64) -> Bar {
    let scale = (RIGHT - LEFT) / most.max(f64::MIN_POSITIVE);
    let mut parts = row.parts.clone();
    let mut x = LEFT;
    for part in &mut parts {
        part.width *= scale;
        part.x = down(&mut x, part.width);
    }
    Bar {
        y,
        name: shortened(&clean(name), NAME_MOST),
        parts,
        end: x + 6.0,
        total: row.total.clone(),
    }
}

/// `data copy: 110 ns for each KiB, 52 %; sender 60 (55 to 65), receiver 50 (46 to 55)`.
fn tooltip(time: &CellTime, row: &KindRow) -> String {
    let ns = time.of_kind(row.kind);
    let share = percent(ns / time.total().max(f64::MIN_POSITIVE));
    let of_kind = time.kinds.iter().filter(|k| k.kind == row.kind);
    let mut sides = of_kind.map(|k| {
        let party = match (k.party, time.per) {
            (Party::Sender, TimePer::Kib) => "sender",
            (Party::Receiver, TimePer::Kib) => "receiver",
            (Party::Sender, TimePer::Request) => "clients",
            (Party::Receiver, TimePer::Request) => "server",
            (Party::Rest, _) => "rest",
        };
        let [mean, low, high] = [k.ns_per_unit, k.low, k.high].map(units::number);
        format!("{party} {mean} ({low} to {high})")
    });
    let per = match time.per {
        TimePer::Kib => "for each KiB",
        TimePer::Request => "for each request",
    };
    let (title, ns) = (row.title, units::number(ns));
    format!("{title}: {ns} ns {per}, {share}; {}", sides.join(", "))
}

fn notes(times: &[&CellTime]) -> Vec<String> {
    let most = |share: fn(&CellTime) -> f64| {
        let shares = times.iter().map(|time| share(time));
        percent(shares.fold(0.0, f64::max))
    };
    let (unattributed, moved) = (most(|t| t.unattributed), most(|t| t.moved));
    let seen = format!(
        "Looks at the CPUs' clock in trials of their own, which are not timed. At most {unattributed} of a cell's looks are unattributed; at most {moved} were given to a caller, since they landed where interrupts are switched on again or in a function that serves all."
    );
    let further = further(times.len(), MOST_BARS, "further cells");
    std::iter::once(seen).chain(further).collect()
}
