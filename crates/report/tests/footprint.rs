//! The table of what moving displaces from the caches.

use crate::fixture::{self, estimate, section};

use bytecost_analysis::{Analysis, CellFootprint, LevelFootprint, NoValue};
use bytecost_report::html;

fn level(level: u32, displaced_kib: Option<f64>) -> LevelFootprint {
    LevelFootprint {
        level,
        size_bytes: 32 << (10 + 4 * level),
        primed_bytes: 16 << (10 + 4 * level),
        moved_bytes: 64 << 10,
        displaced_kib: displaced_kib.map(|kib| estimate(kib, 0.1, 40)),
        idle_kib: displaced_kib.map(|_| estimate(0.25, 0.1, 40)),
        hit_ticks: 20.0,
        miss_ticks: 30.0,
        missing: displaced_kib
            .is_none()
            .then(|| NoValue::Recorded("its hits look like its <misses>".to_owned())),
    }
}

/// An analysis whose first cells were looked at, in two caches, the second without a result.
fn looked_at(cells: usize) -> Analysis {
    let mut a = fixture::analysis();
    let own = a.cells.iter().take(cells).map(|c| CellFootprint {
        cell: c.id.clone(),
        levels: vec![level(1, Some(143.0)), level(2, None)],
    });
    a.footprints = own.collect();
    a
}

#[test]
fn each_cell_is_a_row_with_what_was_displaced_and_what_would_have_been_anyway() {
    let page = html(&looked_at(3));
    insta::assert_snapshot!("footprint", section(&page, "footprint"));
}

#[test]
fn where_nothing_was_looked_at_there_is_no_table() {
    assert!(!html(&looked_at(0)).contains("id=\"footprint\""));
}
