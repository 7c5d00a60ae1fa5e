//! Published values next to those measured here, cell by cell.

use std::collections::BTreeMap;

use bytecost_analysis::{Analysis, CellResult, Published, PublishedCell};
use bytecost_spec::axis::AXES;
use bytecost_spec::{Axis, Metric, Unit, Value, units};
use itertools::Itertools as _;

use crate::descriptions;
use crate::document::{DocBlock, DocColumn, DocEntry, DocTable, Document};
use crate::missing_points::gap_in_words;
use crate::numbers::{self, ratio};
use crate::published_series::MATCHED;
use crate::question::axis_in_words;
use crate::style::Ink;
use crate::text::{count, joined};

/// An axis in which a measured cell differs from a published one.
#[derive(Clone, PartialEq)]
struct Difference {
    axis: Axis,
    measured: Value,
    published: Value,
}

/// A published cell with its counterpart among the measured ones.
struct Pair<'a> {
    published: &'a PublishedCell,
    measured: Option<&'a CellResult>,
    differences: Vec<Difference>,
}

/// Published and measured values, in a table for each metric. Without a publication there is no section.
pub(crate) fn section(a: &Analysis, d: &mut Document) {
    let Some(published) = &a.published else {
        return;
    };
    let pairs: Vec<Pair<'_>> = (published.cells.iter())
        .flat_map(|c| pairs(a, published, c))
        .collect();
    let mut matched = pairs.iter().filter(|p| p.measured.is_some());
    let mut common = matched.next().map_or(Vec::new(), |p| p.differences.clone());
    common.retain(|difference| matched.clone().all(|p| p.differences.contains(difference)));
    let mut tables: BTreeMap<Metric, Vec<Vec<DocEntry>>> = BTreeMap::new();
    for p in &pairs {
        for (&metric, &value) in &p.published.values {
            let row = row(a, published, p, metric, value, &common);
            tables.entry(metric).or_default().push(row);
        }
    }
    d.section("Published beside measured", "published", "Published");
    d.paragraph(Ink::Plain, summary(published, &pairs, a.study.unit));
    if !common.is_empty() {
        let differences = in_words(common.iter());
        let text = format!("The measured cells differ from the published in {differences}.");
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

/// A published cell with each of its counterparts in the run, which are equal in the axes [`MATCHED`]. If
/// the publication names further axes, all measured cells that are equal in these too are counterparts;
/// otherwise the one with the fewest differences is, if possible one that was measured.
fn pairs<'a>(
    a: &'a Analysis,
    publication: &Published,
    published: &'a PublishedCell,
) -> Vec<Pair<'a>> {
    let is_same = |c: &CellResult, axis: Axis| c.cell.value(axis) == published.cell.value(axis);
    let matched = MATCHED.iter().chain(&publication.named);
    let is_alike = |c: &&CellResult| matched.clone().all(|axis| is_same(c, *axis));
    let alike = a.cells.iter().filter(is_alike);
    let counterparts: Vec<&CellResult> = if publication.named.is_empty() {
        let rank = |c: &&CellResult| (c.estimates.is_empty(), differences(c, published).len());
        alike.min_by_key(rank).into_iter().collect()
    } else {
        alike.filter(|c| c.trials > 0).collect()
    };
    let pair = |measured: Option<&'a CellResult>| Pair {
        published,
        measured,
        differences: match measured {
            Some(measured) if publication.named.is_empty() => differences(measured, published),
            _ => Vec::new(),
        },
    };
    if counterparts.is_empty() {
        return vec![pair(None)];
    }
    counterparts.into_iter().map(Some).map(pair).collect()
}

/// The values of a measured cell in the axes that the study varies and the publication does not name.
fn unnamed_values(a: &Analysis, publication: &Published, measured: &CellResult) -> String {
    let is_unnamed = |axis: &&Axis| !MATCHED.contains(axis) && !publication.named.contains(axis);
    let axes = a.study.varied.iter().filter(is_unnamed);
    axes.map(|axis| axis_in_words(*axis, &measured.cell.value(*axis)))
        .join(", ")
}

fn differences(measured: &CellResult, published: &PublishedCell) -> Vec<Difference> {
    let differences = AXES.iter().map(|row| Difference {
        axis: row.axis,
        measured: measured.cell.value(row.axis),
        published: published.cell.value(row.axis),
    });
    differences.filter(|d| d.measured != d.published).collect()
}

/// `payload prepared (theirs refilled), response 64 B (theirs field)`.
fn in_words<'d>(differences: impl Iterator<Item = &'d Difference>) -> String {
    let mut words = differences.map(|d| {
        let published = d.axis.in_words(&d.published);
        let measured = axis_in_words(d.axis, &d.measured);
        format!("{measured} (theirs {published})")
    });
    words.join(", ")
}

/// A row: the cell, the published value, the measured value (`–` for none), its interval or the reason why
/// there is none, measured over published, and the differences of the two cells or, if the publication
/// names axes, the other values of the measured cell.
fn row(
    a: &Analysis,
    publication: &Published,
    pair: &Pair<'_>,
    metric: Metric,
    value: f64,
    common: &[Difference],
) -> Vec<DocEntry> {
    let estimate = pair.measured.and_then(|c| c.estimates.get(&metric));
    let interval = match (estimate, pair.measured) {
        (Some(e), _) => numbers::interval(e).unwrap_or_else(|| "no interval".to_owned()),
        (None, None) => "no such cell in this run".to_owned(),
        (None, Some(c)) => c.gap(metric).map_or_else(
            || "not measured".to_owned(),
            |gap| gap_in_words(&gap, a.study.unit),
        ),
    };
    let ratio_here = (estimate.map(|e| e.value / value)).filter(|r| r.is_finite() && *r > 0.0);
    let differences = match pair.measured {
        Some(cell) if !publication.named.is_empty() => unnamed_values(a, publication, cell),
        _ => in_words(pair.differences.iter().filter(|d| !common.contains(d))),
    };
    vec![
        name(publication, pair.published).into(),
        units::number(value).into(),
        DocEntry::or_gap(estimate.map(|e| units::number(e.value))),
        interval.into(),
        DocEntry::or_gap(ratio_here.map(ratio)),
        differences.into(),
    ]
}

/// `send-fields, 256 B, 2 threads`, and the pattern if the publication has several.
fn name(publication: &Published, c: &PublishedCell) -> String {
    let mut patterns = publication.cells.iter().map(|o| o.cell.pattern);
    let pattern = if patterns.all_equal() {
        ""
    } else {
        c.cell.pattern.name()
    };
    let size = units::bytes_in_words(c.cell.size_bytes);
    let threads = count(c.cell.threads as usize, "thread", "threads");
    joined([&c.cell.mover, &size, &threads, pattern], ", ")
}

/// `44 of the 48 cells of pa02-a were measured here too: Throughput here is 3.1× theirs …`.
fn summary(publication: &Published, pairs: &[Pair<'_>], unit: Unit) -> String {
    let cells = |own: &[&Pair<'_>]| own.iter().map(|p| &p.published.id).dedup().count();
    let matched: Vec<&Pair<'_>> = pairs.iter().filter(|p| p.measured.is_some()).collect();
    let sorted_ratios = |metric: Metric| -> Vec<f64> {
        let ratio = |p: &&Pair<'_>| {
            let measured = p.measured?.estimates.get(&metric)?.value;
            Some(measured / *p.published.values.get(&metric)?)
        };
        (matched.iter().filter_map(ratio))
            .filter(|ratio| ratio.is_finite() && *ratio > 0.0)
            .sorted_by(f64::total_cmp)
            .collect()
    };
    let metrics = publication.cells.iter().flat_map(|c| c.values.keys());
    let mut by_metric = metrics.map(|&metric| (metric, sorted_ratios(metric)));
    let first = by_metric.find(|(_, ratios)| !ratios.is_empty());
    let ratios = first.map_or_else(String::new, |(metric, all)| {
        let [low, middle, high] = [0, all.len() / 2, all.len() - 1].map(|at| ratio(all[at]));
        let title = metric.title(unit);
        format!(": {title} here is {low} to {high} theirs, {middle} in the middle")
    });
    let all = count(cells(&pairs.iter().collect_vec()), "cell", "cells");
    let (some, source) = (cells(&matched), &publication.source);
    format!("{some} of the {all} that {source} published have a counterpart in this run{ratios}.")
}
