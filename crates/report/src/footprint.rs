//! Table of the bytes that each cell displaced from the caches: a row a cell, a column a cache.

use bytecost_analysis::{Analysis, LevelFootprint, grouped};
use bytecost_spec::units;
use itertools::Itertools as _;

use crate::counted::{CountTable, MOST_ROWS, further};
use crate::descriptions;
use crate::document::DocEntry;
use crate::no_value;
use crate::text::count;

/// The table; none where no cell was looked at.
pub(crate) fn table(a: &Analysis) -> Option<CountTable> {
    let first = a.footprints.first()?;
    let columns = first.levels.iter().map(|l| {
        let [primed, size] = [l.primed_bytes, l.size_bytes].map(units::bytes_in_words);
        format!("L{}, {primed} of {size}", l.level)
    });
    let rows = a.footprints.iter().take(MOST_ROWS).map(|footprint| {
        let name = descriptions::cells(a, &[footprint.cell.as_str()]);
        (name, footprint.levels.iter().map(entry).collect())
    });
    let mut notes = vec![
        "In brackets what is displaced in as much time in which nothing is moved. Found by timing the lines of a primed working set, against what lines take that are there and that are not, in the same trial; no counters. What several messages displace twice counts once, so that an entry is at most the set.".to_owned(),
    ];
    let levels = a.footprints.iter().take(MOST_ROWS).flat_map(|f| &f.levels);
    let missing = grouped(levels.filter_map(|l| Some((l.level, l.missing.as_ref()?))));
    for (level, reasons) in missing.into_iter().sorted_by_key(|(level, _)| *level) {
        let cells = count(reasons.len(), "cell", "cells");
        let why = no_value::words(reasons[0]);
        notes.push(format!("L{level}, nothing of {cells}: {why}."));
    }
    notes.extend(further(a.footprints.len(), MOST_ROWS, "more cells"));
    Some(CountTable {
        section: "footprint",
        short: "Caches",
        title: "What moving displaces from the sending CPU's caches",
        lead: "KiB displaced of the set that was primed in each cache, by moving as many bytes as the set has, or one message.",
        columns: columns.collect(),
        rows: rows.collect(),
        notes,
    })
}

fn entry(level: &LevelFootprint) -> DocEntry {
    let both = level.displaced_kib.as_ref().zip(level.idle_kib.as_ref());
    DocEntry::or_gap(
        both.map(|(moved, idle)| format!("{} ({})", kib(moved.value), kib(idle.value))),
    )
}

/// Whole KiB of the large, a decimal of the small.
fn kib(value: f64) -> String {
    if value >= 100.0 {
        units::number(value.round())
    } else {
        format!("{value:.1}")
    }
}
