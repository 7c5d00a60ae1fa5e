//! Caveats about the books: CPU time that nobody accounts for.

use super::{UnnamedCaveat, span};
use crate::books::MOST_LEFT_OVER;
use crate::phrases::{self, percent};
use crate::result::{CellBooks, Closed};
use crate::view::View;

fn of_kind<'v>(view: &View<'v>, closed: Closed) -> Vec<&'v CellBooks> {
    let books = view.books.iter();
    books.filter(|b| b.closed == closed).collect()
}

fn cells(books: &[&CellBooks]) -> Vec<String> {
    books.iter().map(|b| b.cell.clone()).collect()
}

/// More is left over than chance explains, or time was counted twice.
pub(super) fn open(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let open = of_kind(view, Closed::No);
    if open.is_empty() {
        return Vec::new();
    }
    let shares: Vec<f64> = open.iter().map(|b| b.left_over).collect();
    vec![UnnamedCaveat {
        text: format!(
            "CPU time of {} is unaccounted for, or counted twice: something works for them, or beside them, that no clock of ours has. Their CPU time has no verdict.",
            phrases::count(open.len(), "cell")
        ),
        evidence: format!(
            "left over: {} of the cell's own CPU time, sums over blocks",
            span(&shares, signed)
        ),
        remedy: "stop other programs that start many short processes; as root, --evidence counts shows exactly who used the CPUs".to_owned(),
        cells: cells(&open),
    }]
}

fn signed(share: f64) -> String {
    format!("{:+.1} %", 100.0 * share)
}

pub(super) fn not_closed(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let wide = of_kind(view, Closed::NotToThreePercent);
    if wide.is_empty() {
        return Vec::new();
    }
    let widths: Vec<f64> = wide.iter().map(|b| (b.high - b.low) / 2.0).collect();
    vec![UnnamedCaveat {
        text: format!(
            "The books of {} are not closed to {} in this run: the CPU time of everything else is known too coarsely beside theirs.",
            phrases::count(wide.len(), "cell"),
            percent(MOST_LEFT_OVER)
        ),
        evidence: format!(
            "95 % intervals of what is left over: ± {} of the cell's own CPU time",
            span(&widths, percent)
        ),
        remedy: "more blocks (a longer --budget) or a longer --window".to_owned(),
        cells: cells(&wide),
    }]
}

/// Runs of old have none.
pub(super) fn none(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let is_measured = view.measured().next().is_some();
    if !is_measured || !view.books.is_empty() || !view.input.blocks.is_empty() {
        return Vec::new();
    }
    vec![UnnamedCaveat {
        text: "This run has no books: an older version recorded it, which did not see all that worked for a side. CPU time of io_uring is incomplete, and trials were repeated one by one.".to_owned(),
        evidence: "no record of blocks in the log".to_owned(),
        remedy: "measure again with this version".to_owned(),
        cells: Vec::new(),
    }]
}
