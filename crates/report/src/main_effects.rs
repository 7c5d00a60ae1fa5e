//! Main effects in a report, as a table.

use bytecost_analysis::{Analysis, MainEffect};
use itertools::Itertools as _;

use crate::caveats::withholding_reason;
use crate::document::{DocBlock, DocColumn, DocEntry, DocMark, DocTable, Document};
use crate::numbers::{p_value, ratio, ratios};
use crate::style::Ink;

pub(crate) fn section(a: &Analysis, d: &mut Document) {
    if a.main_effects.is_empty() {
        return;
    }
    d.section("Main effects", "main-effects", "Main effects");
    d.paragraph(
        Ink::Faint,
        "One way against another over all places of an axis at once: each block gives the mean of their ratios. Those with a verdict are asked for by the study and corrected together; the others have the interval of the single comparison. The last columns show the place that differs most from the mean, and the chance of that where all places are alike.",
    );
    let numbers = "Mean ratio | 95 % interval | Differs most | By | Chance";
    let columns = DocColumn::all(&format!("What | Metric | Over | Where | {numbers}"));
    let mut notes = Vec::new();
    let rows = a.main_effects.iter().map(|e| row(a, e, &mut notes));
    let table = DocTable::of(columns, rows).without_empty_columns();
    d.push(DocBlock::Table(table));
    d.push(DocBlock::Notes(notes));
}

fn row(a: &Analysis, e: &MainEffect, notes: &mut Vec<String>) -> Vec<DocEntry> {
    let furthest = &e.furthest;
    let shown = e.place.iter().filter(|(axis, value)| axis.is_shown(value));
    let mut place = shown.map(|(axis, value)| axis.circumstance(value));
    let mut entries: Vec<DocEntry> = vec![
        format!("{} against {}", e.value, e.baseline_value).into(),
        e.metric.title(a.study.unit).into(),
        format!("{} × {}", e.places.len(), e.over.name()).into(),
        place.join(", ").into(),
    ];
    let turns = "better at one place and worse at another: there is no mean";
    let no_mean = e
        .withheld
        .map(withholding_reason)
        .or(e.turns.then_some(turns));
    entries.extend(match no_mean {
        Some(why) => [DocEntry::gap().noted(notes, Some(why)), DocEntry::gap()],
        None => [
            DocEntry {
                mark: e.p_corrected.map(|_| DocMark::from(e.verdict)),
                ..ratio(e.ratio).into()
            },
            ratios(e.low, e.high).into(),
        ],
    });
    let interval = ratios(furthest.low, furthest.high);
    entries.extend([
        e.over.circumstance(&furthest.value).into(),
        format!("{} ({interval})", ratio(furthest.ratio)).into(),
        p_value(furthest.p).into(),
    ]);
    entries
}
