//! Published values next to those measured here, cell by cell.

use std::collections::BTreeMap;

use bytecost_analysis::{Analysis, CellResult, Published, PublishedCell};
use bytecost_spec::axis::AXES;
use bytecost_spec::{Axis, Metric, Unit, Value, units};
use itertools::Itertools as _;

use crate::descriptions;
use crate::document::{DocBlock, DocColumn, DocTable, Document};
use crate::numbers::{self, ratio};
use crate::published_series::MATCHED;
use crate::question::axis_in_words;
use crate::style::Ink;
use crate::text::{count, joined};

/// An axis along which a measured cell differs from a published one.
#[derive(Clone, PartialEq)]
struct Difference {
    axis: Axis,
    ours: Value,
    theirs: Value,
}

/// A published cell with the nearest of the measured ones.
struct Pair<'a> {
    theirs: &'a PublishedCell,
    ours: Option<&'a CellResult>,
    differs: Vec<Difference>,
}

/// The published and the measured values, a table a metric; nothing where nothing was published.
pub(crate) fn section(a: &Analysis, d: &mut Document) {
    let Some(published) = &a.published else {
        return;
    };
    let pairs: Vec<Pair<'_>> = (published.cells.iter())
        .flat_map(|c| pairs(a, published, c))
        .collect();
    let mut matched = pairs.iter().filter(|p| p.ours.is_some());
    let mut common = matched.next().map_or(Vec::new(), |p| p.differs.clone());
    common.retain(|d| matched.clone().all(|p| p.differs.contains(d)));
    let mut tables: BTreeMap<Metric, Vec<Vec<String>>> = BTreeMap::new();
    for p in &pairs {
        for (&metric, &value) in &p.theirs.values {
            let row = row(a, published, p, metric, value, &common);
            tables.entry(metric).or_default().push(row);
        }
    }
    d.section("Published beside measured", "published", "Published");
    d.paragraph(Ink::Plain, summary(published, &pairs, a.study.unit));
    if !common.is_empty() {
        let differs = in_words(common.iter());
        let text = format!("The measured cells differ from the published in {differs}.");
        d.paragraph(Ink::Plain, text);
    }
    for note in &published.notes {
        d.paragraph(Ink::Faint, note);
    }
    for (metric, rows) in tables {
        let headings = "Cell | > | Measured here> | 95 % interval | Here / there> | Differs in";
        let mut columns = DocColumn::all(headings);
        columns[1].heading.clone_from(&published.source);
        let heading = descriptions::metric_with_unit(metric, a.study.unit);
        let title = format!("{heading}: {}", count(rows.len(), "cell", "cells"));
        let table = DocBlock::Table(DocTable::of(columns, rows));
        d.push(DocBlock::fold(title, vec![table]));
    }
}

/// A published cell with its matches in the run, equal along [`MATCHED`]. Where the publication gives
/// single axes, these are all measured cells that are equal along those too; else it is the cell with the
/// fewest differences, measured if possible.
fn pairs<'a>(a: &'a Analysis, published: &Published, theirs: &'a PublishedCell) -> Vec<Pair<'a>> {
    let is_same = |c: &CellResult, axis: Axis| c.cell.value(axis) == theirs.cell.value(axis);
    let matched = MATCHED.iter().chain(&published.named);
    let is_alike = |c: &&CellResult| matched.clone().all(|axis| is_same(c, *axis));
    let alike = a.cells.iter().filter(is_alike);
    let ours: Vec<&CellResult> = if published.named.is_empty() {
        let rank = |c: &&CellResult| (c.estimates.is_empty(), differences(c, theirs).len());
        alike.min_by_key(rank).into_iter().collect()
    } else {
        alike.filter(|c| c.trials > 0).collect()
    };
    let pair = |ours: Option<&'a CellResult>| Pair {
        theirs,
        ours,
        differs: match ours {
            Some(ours) if published.named.is_empty() => differences(ours, theirs),
            _ => Vec::new(),
        },
    };
    if ours.is_empty() {
        return vec![pair(None)];
    }
    ours.into_iter().map(Some).map(pair).collect()
}

/// Values of a measured cell along the axes that the study varies and the publication does not
/// give.
fn place(a: &Analysis, published: &Published, ours: &CellResult) -> String {
    let free = |axis: &&Axis| !MATCHED.contains(axis) && !published.named.contains(axis);
    let axes = a.study.varied.iter().filter(free);
    axes.map(|axis| axis_in_words(*axis, &ours.cell.value(*axis)))
        .join(", ")
}

fn differences(ours: &CellResult, theirs: &PublishedCell) -> Vec<Difference> {
    let differences = AXES.iter().map(|row| Difference {
        axis: row.axis,
        ours: ours.cell.value(row.axis),
        theirs: theirs.cell.value(row.axis),
    });
    differences.filter(|d| d.ours != d.theirs).collect()
}

/// `payload prepared (theirs refilled), response 64 B (theirs field)`.
fn in_words<'d>(differences: impl Iterator<Item = &'d Difference>) -> String {
    let mut words = differences.map(|d| {
        let theirs = d.axis.in_words(&d.theirs);
        format!("{} (theirs {theirs})", axis_in_words(d.axis, &d.ours))
    });
    words.join(", ")
}

/// The cell, as published, as measured here (`–` where it was not), its interval or why there is
/// none, measured over published, how the cells differ or which of several ours is.
fn row(
    a: &Analysis,
    published: &Published,
    pair: &Pair<'_>,
    metric: Metric,
    value: f64,
    common: &[Difference],
) -> Vec<String> {
    let estimate = pair.ours.and_then(|c| c.estimates.get(&metric));
    let interval = match (estimate, pair.ours) {
        (Some(e), _) => numbers::interval(e).unwrap_or_else(|| "no interval".to_owned()),
        (None, None) => "no such cell in this run".to_owned(),
        (None, Some(c)) => (c.absent.get(&metric))
            .map_or("not measured", String::as_str)
            .to_owned(),
    };
    let times = (estimate.map(|e| e.value / value)).filter(|r| r.is_finite() && *r > 0.0);
    let which = match pair.ours {
        Some(ours) if !published.named.is_empty() => place(a, published, ours),
        _ => in_words(pair.differs.iter().filter(|d| !common.contains(d))),
    };
    vec![
        name(published, pair.theirs),
        units::number(value),
        estimate.map_or("–".to_owned(), |e| units::number(e.value)),
        interval,
        times.map_or("–".to_owned(), ratio),
        which,
    ]
}

/// `send-fields, 256 B, 2 threads`; the pattern only where it varies.
fn name(published: &Published, c: &PublishedCell) -> String {
    let mut patterns = published.cells.iter().map(|o| o.cell.pattern);
    let is_one_pattern = patterns.all_equal();
    let pattern = c.cell.pattern.name();
    let size = units::bytes_in_words(c.cell.size_bytes);
    let threads = count(c.cell.threads as usize, "thread", "threads");
    let pattern = if is_one_pattern { "" } else { pattern };
    joined([&c.cell.mover, &size, &threads, pattern], ", ")
}

/// `44 of the 48 cells of pa02-a were measured here too: Throughput here is 3.1× theirs …`.
fn summary(published: &Published, pairs: &[Pair<'_>], unit: Unit) -> String {
    let cells = |of: &[&Pair<'_>]| of.iter().map(|p| &p.theirs.id).dedup().count();
    let matched: Vec<&Pair<'_>> = pairs.iter().filter(|p| p.ours.is_some()).collect();
    let both = |metric: Metric| -> Vec<f64> {
        let ratio = |p: &&Pair<'_>| {
            let ours = p.ours?.estimates.get(&metric)?.value;
            Some(ours / *p.theirs.values.get(&metric)?)
        };
        (matched.iter().filter_map(ratio))
            .filter(|ratio| ratio.is_finite() && *ratio > 0.0)
            .sorted_by(f64::total_cmp)
            .collect()
    };
    let metrics = published.cells.iter().flat_map(|c| c.values.keys());
    let mut by_metric = metrics.map(|&metric| (metric, both(metric)));
    let first = by_metric.find(|(_, ratios)| !ratios.is_empty());
    let ratios = first.map_or_else(String::new, |(metric, all)| {
        let [low, middle, high] = [0, all.len() / 2, all.len() - 1].map(|at| ratio(all[at]));
        let title = metric.title(unit);
        format!(": {title} here is {low} to {high} theirs, {middle} in the middle")
    });
    let all = count(cells(&pairs.iter().collect_vec()), "cell", "cells");
    let (some, source) = (cells(&matched), &published.source);
    format!("{some} of the {all} that {source} published have a counterpart in this run{ratios}.")
}
