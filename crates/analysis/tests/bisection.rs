//! Which sizes a run measures next: between two where one way becomes better, and no others.

use bytecost_analysis::bisected;
use bytecost_spec::Cell;

use crate::world::{STUDY, True, World};

/// What is measured next where `sendfile` and `writev` cost so many times what `send` does.
fn next(noise: f64, ratio: fn(&Cell) -> f64) -> Vec<(String, u64)> {
    let world = World::new(STUDY).run(1, 16, noise, |cell| True::both(ratio(cell)));
    let cells = bisected(world.input());
    let told = cells.into_iter().map(|c| (c.mover, c.size_bytes));
    told.collect()
}

fn is_long(cell: &Cell) -> bool {
    cell.size_bytes >= 65_536
}

#[test]
fn both_are_measured_between_the_sizes_where_one_becomes_better() {
    let found = next(0.003, |cell| match cell.mover.as_str() {
        "sendfile" if is_long(cell) => 0.6,
        "sendfile" => 1.4,
        _ => 1.0,
    });
    let both = ["send", "sendfile"].map(|mover| (mover.to_owned(), 16_384));
    assert_eq!(found, both, "between 4 KiB and 64 KiB");
    // A gain that ceases to matter is one too; a baseline that two need is measured once.
    let found = next(0.003, |cell| match cell.mover.as_str() {
        "sendfile" | "writev" if !is_long(cell) => 0.6,
        _ => 1.0,
    });
    assert_eq!(found.len(), 3, "{found:?}");
}

#[test]
fn nothing_is_measured_where_nothing_crosses_or_nothing_is_decided() {
    assert_eq!(next(0.003, |_| 1.0), []);
    let always = |cell: &Cell| if cell.mover == "sendfile" { 0.6 } else { 1.0 };
    assert_eq!(next(0.003, always), []);
    let open = next(1.0, |cell| match cell.mover.as_str() {
        "sendfile" if is_long(cell) => 0.9,
        "sendfile" => 1.1,
        _ => 1.0,
    });
    assert_eq!(open, []);
}
