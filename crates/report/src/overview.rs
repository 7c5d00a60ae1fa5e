//! The overview: how many times as fast one way of each pair is as the other, and as was published.

use askama::Template;
use bytecost_analysis::{Analysis, Estimate, Finding, Point, SpeedUp, SpeedUpRow};
use bytecost_spec::Unit;
use itertools::Itertools as _;

use crate::document::{DocColumn, DocEntry, DocTable};
use crate::missing_points::{gap_in_words, missing};
use crate::numbers::{ratio, ratios};
use crate::phrases::without_stop;
use crate::question::place_in_words;
use crate::scale::{Scale, down, tick};
use crate::text::{clean, count, joined, shortened, wrap};

/// Right end of the names, and both ends of the scale.
pub(crate) const NAMES: f64 = 226.0;
pub(crate) const LEFT: f64 = 240.0;
pub(crate) const RIGHT: f64 = 458.0;
/// Room above the first group, for the numbers of the scale, and below the last.
const TOP: f64 = 24.0;
const FOOT: f64 = 10.0;
/// Heights: of a row, a heading, a line of a note, the room below a group.
const ROW: f64 = 20.0;
const HEADING: f64 = 24.0;
const LINE: f64 = 16.0;
const BELOW: f64 = 10.0;
/// The most characters of a name, and of a line of a note and of a reason.
const NAME_MOST: usize = 32;
const NOTE_COLUMNS: usize = 92;
const REASON_COLUMNS: usize = 56;
/// The most rows that are drawn; findings.json has the others.
const MOST_ROWS: usize = 60;
const COLORS: usize = 10;

#[derive(Template)]
#[template(path = "overview.html", whitespace = "minimize")]
pub(crate) struct Overview {
    pub groups: Vec<OverviewPair>,
    pub ticks: Vec<ScaleTick>,
    /// Upper and lower end of the scale's lines.
    pub ends: (f64, f64),
    pub height: f64,
    pub published: bool,
    /// Notes on what the drawing leaves out.
    pub notes: Vec<String>,
}

pub(crate) struct ScaleTick {
    pub x: f64,
    pub label: String,
    /// True for the tick at 1, where neither is faster.
    pub even: bool,
}

pub(crate) struct OverviewPair {
    pub y: f64,
    pub title: String,
    pub class: String,
    /// Lines of its note, each with its place.
    pub note: Vec<(f64, String)>,
    pub published: Option<Mark>,
    pub rows: Vec<OverviewRow>,
}

pub(crate) struct Mark {
    pub y: f64,
    pub x: f64,
    /// `1.96×`.
    pub times: String,
}

/// A place at which both were measured, or not.
pub(crate) struct OverviewRow {
    pub y: f64,
    /// Name of the row, cut where it would not fit; `full` is the whole name.
    pub name: String,
    pub full: String,
    pub entry: OverviewEntry,
}

pub(crate) enum OverviewEntry {
    /// The speed-up and its interval, in pixels and in words.
    Times {
        x: f64,
        low: f64,
        high: f64,
        times: String,
        interval: String,
        blocks: String,
    },
    /// Reason of the gap: the whole text, and its lines with their offsets.
    Gap(String, Vec<(f64, String)>),
}

/// The figure; none where the study has no pairs.
pub(crate) fn overview(a: &Analysis) -> Option<Overview> {
    if a.speed_ups.is_empty() {
        return None;
    }
    let scale = Scale::of_ratios(values(&a.speed_ups));
    let across = |times: f64| LEFT + scale.share(times) * (RIGHT - LEFT);
    let mut y = TOP;
    let mut room = MOST_ROWS;
    let mut groups = Vec::new();
    for (number, s) in a.speed_ups.iter().enumerate() {
        let shown = s.rows.len().min(room);
        room -= shown;
        let rows = &s.rows[..shown];
        groups.push(group(number, s, rows, a.study.unit, &across, &mut y));
    }
    let rows: usize = a.speed_ups.iter().map(|s| s.rows.len()).sum();
    let more = rows.saturating_sub(MOST_ROWS);
    let more = (more > 0).then(|| count(more, "row is", "rows are"));
    let notes = more.map(|more| format!("{more} in findings.json alone."));
    Some(Overview {
        published: groups.iter().any(|g| g.published.is_some()),
        ticks: ticks(&scale, across),
        ends: (TOP - 6.0, y),
        height: y + FOOT,
        notes: notes.into_iter().collect(),
        groups,
    })
}

/// All values that the scale must include.
fn values(speed_ups: &[SpeedUp]) -> impl Iterator<Item = f64> + '_ {
    let rows = speed_ups.iter().flat_map(|s| &s.rows);
    let estimates = rows.filter_map(|row| row.point.measured());
    let measured = estimates.flat_map(|e| [Some(e.value), e.low, e.high]);
    let published = speed_ups.iter().map(|s| s.published);
    measured.chain(published).flatten()
}

/// Numbers that do not run into each other, 1 always.
fn ticks(scale: &Scale, across: impl Fn(f64) -> f64) -> Vec<ScaleTick> {
    const APART: f64 = 30.0;
    let mut ticks: Vec<ScaleTick> = Vec::new();
    let even = across(1.0);
    for &value in &scale.ticks {
        let x = across(value);
        let is_even = value == 1.0;
        let last = ticks.last().map_or(f64::NEG_INFINITY, |t| t.x);
        let beside_even = !is_even && (x - even).abs() < APART;
        if is_even || (x - last >= APART && !beside_even) {
            ticks.push(ScaleTick {
                x,
                label: format!("{}×", tick(value)),
                even: is_even,
            });
        }
    }
    ticks
}

fn group(
    number: usize,
    s: &SpeedUp,
    shown: &[SpeedUpRow],
    unit: Unit,
    across: &impl Fn(f64) -> f64,
    y: &mut f64,
) -> OverviewPair {
    let top = down(y, HEADING);
    let note = match &s.note {
        Some(text) => lines(text, NOTE_COLUMNS, y),
        None => Vec::new(),
    };
    let published = s.published.map(|times| Mark {
        y: down(y, ROW),
        x: across(times),
        times: ratio(times),
    });
    let mut rows = Vec::new();
    for row in shown {
        let full = name(s, row);
        let at = *y;
        let entry = match &row.point {
            Point::Measured(e) => times(e, across),
            Point::Gap(gap) => {
                let why = without_stop(&gap_in_words(gap, unit)).to_owned();
                let reason = lines(&format!("not here: {why}"), REASON_COLUMNS, y);
                OverviewEntry::Gap(why, reason)
            }
        };
        *y = y.max(at + ROW);
        rows.push(OverviewRow {
            y: at,
            name: shortened(&full, NAME_MOST),
            full,
            entry,
        });
    }
    *y += BELOW;
    OverviewPair {
        y: top,
        title: clean(&s.title),
        class: format!("s{}", number % COLORS + 1),
        note,
        published,
        rows,
    }
}

/// A wrapped text, each line with its place.
fn lines(text: &str, columns: usize, y: &mut f64) -> Vec<(f64, String)> {
    let wrapped = wrap(text, columns, "", "").into_iter();
    wrapped.map(|line| (down(y, LINE), line)).collect()
}

fn times(e: &Estimate, across: &impl Fn(f64) -> f64) -> OverviewEntry {
    let (low, high) = (e.low.unwrap_or(e.value), e.high.unwrap_or(e.value));
    OverviewEntry::Times {
        x: across(e.value),
        low: across(low),
        high: across(high),
        times: ratio(e.value),
        interval: interval(e),
        blocks: count(e.trials, "block", "blocks"),
    }
}

/// `0.11 to 0.13`, or nothing.
fn interval(e: &Estimate) -> String {
    let ends = e.low.zip(e.high);
    ends.map_or_else(String::new, |(low, high)| ratios(low, high))
}

/// `posix-aio, 64 KiB`; of a pair that was not planned nothing but its way.
fn name(s: &SpeedUp, row: &SpeedUpRow) -> String {
    let way = s.axis.in_words(&row.value);
    let place = place_in_words(row.place.iter().cloned());
    clean(&joined([way, place], ", "))
}

/// The table of the overview: a row for each place of each pair.
pub(crate) fn table(a: &Analysis) -> DocTable {
    let rows = a.speed_ups.iter().flat_map(|s| {
        s.rows.iter().map(move |row| {
            let (times, interval) = match &row.point {
                Point::Measured(e) => {
                    let blocks = count(e.trials, "block", "blocks");
                    (ratio(e.value).into(), format!("{}, {blocks}", interval(e)))
                }
                Point::Gap(gap) => (DocEntry::gap(), gap_in_words(gap, a.study.unit)),
            };
            let published = s.published.map_or_else(String::new, ratio);
            vec![
                clean(&s.title).into(),
                name(s, row).into(),
                times,
                interval.into(),
                published.into(),
            ]
        })
    });
    let columns = DocColumn::all("Pair | Where | Times as fast> | 95 % interval | Published>");
    DocTable::of(columns, rows).without_empty_columns()
}

/// A row for each pair that was measured, with all of its places together, and how many rows there
/// was no room for. Where there is room for all, pairs that were not measured have their reasons.
pub(crate) fn summary(a: &Analysis, most_rows: usize) -> (DocTable, usize) {
    let columns = DocColumn::all("pair | times as fast | places | published>");
    let is_measured = |s: &&SpeedUp| s.rows.iter().any(|row| row.point.measured().is_some());
    let (measured, others): (Vec<&SpeedUp>, Vec<_>) = a.speed_ups.iter().partition(is_measured);
    let all = measured.len() + others.len();
    let is_whole = most_rows == usize::MAX || measured.is_empty();
    let unmeasured = others.into_iter().filter(|_| is_whole);
    let shown = measured
        .into_iter()
        .chain(unmeasured)
        .take(most_rows)
        .collect_vec();
    let left = all - shown.len();
    let rows = shown.into_iter().map(|s| {
        let (times, places) = together(a, s);
        let published = s.published.map_or_else(String::new, ratio);
        vec![
            clean(&s.title).into(),
            times,
            places.into(),
            published.into(),
        ]
    });
    (DocTable::of(columns, rows).without_empty_columns(), left)
}

/// Summary of a pair: the range of the decided intervals, or else of the exploratory ones, and the numbers of
/// decided, exploratory and undecided places.
fn together(a: &Analysis, s: &SpeedUp) -> (DocEntry, String) {
    let finding = |row: &SpeedUpRow| {
        let mut findings = a.findings.iter();
        findings.find(|f| f.compares(s.metric, &row.cell, &row.baseline))
    };
    let estimates = |counts: &dyn Fn(&Finding) -> bool| -> Vec<&Estimate> {
        let counted = s.rows.iter().filter(|row| finding(row).is_some_and(counts));
        counted.filter_map(|row| row.point.measured()).collect()
    };
    let decided = estimates(&Finding::is_decided);
    let exploratory = estimates(&Finding::is_exploratory);
    let measured = s.rows.iter().filter(|row| row.point.measured().is_some());
    let undecided = measured.count() - decided.len() - exploratory.len();
    if decided.is_empty() && exploratory.is_empty() && undecided == 0 {
        let why = s
            .rows
            .iter()
            .find_map(|row| missing(&row.point, a.study.unit))
            .map_or_else(
                || "not measured here: no such cells".to_owned(),
                |why| without_stop(&why).to_owned(),
            );
        return (DocEntry::gap(), why);
    }
    let shown = if decided.is_empty() {
        &exploratory
    } else {
        &decided
    };
    let lows = shown.iter().map(|e| e.low.unwrap_or(e.value));
    let highs = shown.iter().map(|e| e.high.unwrap_or(e.value));
    let ends = lows.reduce(f64::min).zip(highs.reduce(f64::max));
    let range = ends.map_or_else(String::new, |(low, high)| ratios(low, high));
    let times = match shown[..] {
        [] => "?".to_owned(),
        [one] => format!("{} ({range})", ratio(one.value)),
        _ => range + "×",
    };
    let cells =
        |n: usize, before: &str| (n > 0).then(|| format!("{before}{}", count(n, "cell", "cells")));
    let places = [
        cells(decided.len(), ""),
        cells(exploratory.len(), "exploratory in "),
        cells(undecided, "undecided in "),
    ];
    (times.into(), places.into_iter().flatten().join("; "))
}
