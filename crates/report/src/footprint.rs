//! What each cell displaced from the caches, as a table: a row a cell, a column a cache.

use bytecost_analysis::{Analysis, LevelFootprint};
use bytecost_spec::units;

use crate::counted::CountTable;
use crate::descriptions;
use crate::text::{clean, count};

/// The most rows that are shown; findings.json has the others.
const MOST_ROWS: usize = 48;

/// The table; none where no cell was looked at.
pub(crate) fn table(a: &Analysis) -> Option<CountTable> {
    let first = a.footprints.first()?;
    let columns = first.levels.iter().map(|l| {
        format!(
            "L{}, {} of {}",
            l.level,
            units::bytes_in_words(l.primed_bytes),
            units::bytes_in_words(l.size_bytes)
        )
    });
    let mut missing: Vec<Missing<'_>> = Vec::new();
    let mut rows = Vec::new();
    for footprint in a.footprints.iter().take(MOST_ROWS) {
        let name = descriptions::cells(&[footprint.cell.as_str()], &a.study.varied);
        let entries = footprint.levels.iter().map(|l| entry(l, &mut missing));
        rows.push((clean(&name), entries.collect()));
    }
    missing.sort_by_key(|m| m.level);
    let missing = missing.iter().map(|m| {
        let cells = count(m.cells, "cell", "cells");
        format!("L{}, nothing of {cells}: {}.", m.level, clean(m.why))
    });
    let mut notes = vec![
        "In brackets what is displaced in as much time in which nothing is moved. Found by timing the lines of a primed working set, against what lines take that are there and that are not, in the same trial; no counters. What several messages displace twice counts once, so that an entry is at most the set.".to_owned(),
    ];
    notes.extend(missing);
    let hidden = a.footprints.len().saturating_sub(MOST_ROWS);
    if hidden > 0 {
        notes.push(format!("{hidden} more cells are in findings.json."));
    }
    Some(CountTable {
        section: "footprint",
        short: "Caches",
        title: "What moving displaces from the sending CPU's caches",
        lead: "KiB displaced of the set that was primed in each cache, by moving as many bytes as the set has, or one message.",
        columns: std::iter::once("cell".to_owned()).chain(columns).collect(),
        rows,
        notes,
    })
}

/// Of how many cells nothing is said of a level, and why of the first.
struct Missing<'a> {
    level: u32,
    cells: usize,
    why: &'a str,
}

fn entry<'a>(level: &'a LevelFootprint, missing: &mut Vec<Missing<'a>>) -> String {
    if let Some(why) = &level.missing {
        match missing.iter_mut().find(|m| m.level == level.level) {
            Some(m) => m.cells += 1,
            None => missing.push(Missing {
                level: level.level,
                cells: 1,
                why,
            }),
        }
    }
    let (Some(moved), Some(idle)) = (&level.displaced_kib, &level.idle_kib) else {
        return "–".to_owned();
    };
    format!("{} ({})", kib(moved.value), kib(idle.value))
}

/// Whole KiB of the large, a decimal of the small.
fn kib(value: f64) -> String {
    if value >= 100.0 {
        units::number(value.round())
    } else {
        format!("{value:.1}")
    }
}
