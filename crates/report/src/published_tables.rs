//! What others published beside what was measured here, cell by cell.

use std::collections::BTreeMap;

use bytecost_analysis::{Analysis, CellResult, Published, PublishedCell};
use bytecost_spec::axis::AXES;
use bytecost_spec::{Axis, Metric, Unit, units};

use crate::descriptions;
use crate::numbers::{self, ratio};
use crate::published_series::MATCHED;
use crate::question::value_in_words;
use crate::text::{clean, count};

/// A published table beside the measured one.
#[derive(Clone, Debug)]
pub(crate) struct PublishedTables {
    /// Whose it is.
    pub source: String,
    /// How much of it has a counterpart here, and what that comes to.
    pub summary: String,
    /// How its numbers became metrics, and what it does not tell.
    pub notes: Vec<String>,
    /// How all counterparts differ from what was published; empty where they do not.
    pub differs: String,
    /// One table a metric.
    pub tables: Vec<PublishedTable>,
}

/// One metric of it.
#[derive(Clone, Debug)]
pub(crate) struct PublishedTable {
    /// The metric with its unit.
    pub heading: String,
    /// One a published cell: the cell, as published, as measured here (`–` where it was not), its
    /// interval or why there is none, measured over published, how the cells differ.
    pub rows: Vec<Vec<String>>,
}

/// A published cell with the nearest of the measured ones.
struct Pair<'a> {
    theirs: &'a PublishedCell,
    ours: Option<&'a CellResult>,
    /// Axis, our value and theirs.
    differs: Vec<(Axis, String, String)>,
}

/// The published table beside the measured one; none where nothing was measured or published.
pub(crate) fn beside(a: &Analysis) -> Option<PublishedTables> {
    let published = a.published.as_ref()?;
    if descriptions::imported(a).is_some() {
        return None;
    }
    let pairs: Vec<Pair<'_>> = if published.tells.is_empty() {
        published.cells.iter().map(|c| pair(a, c)).collect()
    } else {
        let cells = published.cells.iter();
        cells.flat_map(|c| pairs_told(a, published, c)).collect()
    };
    let matched: Vec<&Pair<'_>> = pairs.iter().filter(|p| p.ours.is_some()).collect();
    let common: Vec<(Axis, String, String)> = match matched.split_first() {
        Some((first, rest)) => {
            let in_all = |d: &&(Axis, String, String)| rest.iter().all(|p| p.differs.contains(d));
            first.differs.iter().filter(in_all).cloned().collect()
        }
        None => Vec::new(),
    };
    let mut tables: BTreeMap<Metric, Vec<Vec<String>>> = BTreeMap::new();
    for p in &pairs {
        for (&metric, &value) in &p.theirs.values {
            let mut row = row(published, p, metric, value, &common);
            if let Some(ours) = p.ours.filter(|_| !published.tells.is_empty()) {
                row.pop();
                row.push(clean(&place(a, published, ours)));
            }
            tables.entry(metric).or_default().push(row);
        }
    }
    Some(PublishedTables {
        source: clean(&published.source),
        summary: summary(published, &pairs, a.study.unit),
        notes: published.notes.iter().map(|n| clean(n)).collect(),
        differs: clean(&in_words(&common)),
        tables: tables
            .into_iter()
            .map(|(metric, rows)| PublishedTable {
                heading: descriptions::metric_with_unit(metric, a.study.unit),
                rows,
            })
            .collect(),
    })
}

/// The nearest of our cells: the same in all that tells cells apart, else in as much as can be.
fn pair<'a>(a: &'a Analysis, theirs: &'a PublishedCell) -> Pair<'a> {
    let same = |c: &&CellResult| {
        MATCHED
            .iter()
            .all(|&axis| c.cell.value(axis) == theirs.cell.value(axis))
    };
    let candidates = a.cells.iter().filter(same);
    let best = candidates
        .map(|c| (differences(c, theirs), c))
        .min_by_key(|(differs, c)| (c.estimates.is_empty(), differs.len()));
    match best {
        Some((differs, c)) => Pair {
            theirs,
            ours: Some(c),
            differs,
        },
        None => Pair {
            theirs,
            ours: None,
            differs: Vec::new(),
        },
    }
}

/// Every measured cell that is alike in what the publication tells: it may be any of them. What
/// tells them apart is no difference to it.
fn pairs_told<'a>(
    a: &'a Analysis,
    published: &Published,
    theirs: &'a PublishedCell,
) -> Vec<Pair<'a>> {
    let told = |axis: &Axis| MATCHED.contains(axis) || published.tells.contains(axis);
    let alike = |c: &&CellResult| {
        let mut axes = AXES.iter().map(|row| row.axis).filter(told);
        axes.all(|axis| c.cell.value(axis) == theirs.cell.value(axis)) && c.trials > 0
    };
    let pair = |ours: Option<&'a CellResult>| Pair {
        theirs,
        ours,
        differs: Vec::new(),
    };
    let found: Vec<Pair<'_>> = a
        .cells
        .iter()
        .filter(alike)
        .map(|c| pair(Some(c)))
        .collect();
    if found.is_empty() {
        vec![pair(None)]
    } else {
        found
    }
}

/// Where a measured cell is, in what the study varies and the publication does not tell.
fn place(a: &Analysis, published: &Published, ours: &CellResult) -> String {
    let free = |axis: &&Axis| !MATCHED.contains(axis) && !published.tells.contains(axis);
    let axes = a.study.varied.iter().filter(free);
    let words = axes.map(|axis| {
        let value = value_in_words(*axis, &ours.cell.value(*axis));
        format!("{} {value}", axis.name())
    });
    words.collect::<Vec<_>>().join(", ")
}

fn differences(ours: &CellResult, theirs: &PublishedCell) -> Vec<(Axis, String, String)> {
    let axes = AXES.iter().map(|row| {
        (
            row.axis,
            ours.cell.value(row.axis),
            theirs.cell.value(row.axis),
        )
    });
    axes.filter(|(_, a, b)| a != b).collect()
}

/// `payload prepared (theirs refilled), answer 64 B (theirs field)`.
fn in_words(differs: &[(Axis, String, String)]) -> String {
    let parts: Vec<String> = differs
        .iter()
        .map(|(axis, ours, theirs)| {
            format!(
                "{} {} (theirs {})",
                axis.name(),
                value_in_words(*axis, ours),
                value_in_words(*axis, theirs)
            )
        })
        .collect();
    parts.join(", ")
}

fn row(
    published: &Published,
    pair: &Pair<'_>,
    metric: Metric,
    value: f64,
    common: &[(Axis, String, String)],
) -> Vec<String> {
    let estimate = pair.ours.and_then(|c| c.estimates.get(&metric));
    let own: Vec<(Axis, String, String)> = pair
        .differs
        .iter()
        .filter(|d| !common.contains(d))
        .cloned()
        .collect();
    let interval = match (estimate, pair.ours) {
        (Some(e), _) => numbers::interval(e).unwrap_or_else(|| "no interval".to_owned()),
        (None, None) => "no such cell in this run".to_owned(),
        (None, Some(c)) => c
            .absent
            .get(&metric)
            .map_or("not measured".to_owned(), |why| clean(why)),
    };
    let times = estimate.map(|e| e.value / value);
    let times = times.filter(|r| r.is_finite() && *r > 0.0);
    vec![
        name(published, pair.theirs),
        units::number(value),
        estimate.map_or("–".to_owned(), |e| units::number(e.value)),
        interval,
        times.map_or("–".to_owned(), ratio),
        clean(&in_words(&own)),
    ]
}

/// `send-fields, 256 B, 2 threads`; the pattern only where it varies.
fn name(published: &Published, c: &PublishedCell) -> String {
    let patterns = published
        .cells
        .iter()
        .any(|o| o.cell.pattern != c.cell.pattern);
    let mut name = format!(
        "{}, {}, {}",
        c.cell.mover,
        units::bytes_in_words(c.cell.size_bytes),
        count(c.cell.threads as usize, "thread", "threads")
    );
    if patterns {
        name = format!("{name}, {}", c.cell.pattern.name());
    }
    clean(&name)
}

/// `44 of the 48 cells of pa02-a were measured here too: Throughput here is 3.1× theirs …`.
fn summary(published: &Published, pairs: &[Pair<'_>], unit: Unit) -> String {
    let theirs = |wanted: bool| {
        let of = pairs.iter().filter(|p| !wanted || p.ours.is_some());
        let mut ids: Vec<&str> = of.map(|p| p.theirs.id.as_str()).collect();
        ids.dedup();
        ids.len()
    };
    let matched = theirs(true);
    let both = |metric: Metric| -> Vec<f64> {
        let ratios = pairs.iter().filter_map(|p| {
            let ours = p.ours?.estimates.get(&metric)?.value;
            let theirs = *p.theirs.values.get(&metric)?;
            let ratio = ours / theirs;
            (ratio.is_finite() && ratio > 0.0).then_some(ratio)
        });
        let mut ratios: Vec<f64> = ratios.collect();
        ratios.sort_by(f64::total_cmp);
        ratios
    };
    let found = published
        .cells
        .iter()
        .flat_map(|c| c.values.keys())
        .map(|&metric| (metric, both(metric)))
        .find(|(_, ratios)| !ratios.is_empty());
    let told = match found {
        Some((metric, ratios)) => format!(
            ": {} here is {} to {} theirs, {} in the middle",
            metric.title(unit),
            ratio(ratios[0]),
            ratio(ratios[ratios.len() - 1]),
            ratio(ratios[ratios.len() / 2]),
        ),
        None => String::new(),
    };
    format!(
        "{matched} of the {} that {} published have a counterpart in this run{told}.",
        count(theirs(false), "cell", "cells"),
        clean(&published.source)
    )
}
