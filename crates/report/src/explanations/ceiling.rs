//! The explanation of ceiling shares: how much of the machine's highest rates the cells reach.

use bytecost_analysis::{CeilingKind, CeilingRate, CeilingShare, CellResult};
use bytecost_spec::{Axis, units};
use itertools::Itertools as _;

use super::why::{AnswerParts, MOST_ROWS, Why};
use crate::caveats::others;
use crate::phrases;
use crate::text::joined;

/// The caution for a ceiling that was measured while another program ran.
const DISTURBED: &str = "something else ran while the ceiling was measured, so that it may be too low and shares of it too high";

/// The description of a ceiling's rate: `what this core can copy, out of 4 MiB (159 Gbit/s)`.
fn rate_in_words(rate: &CeilingRate) -> String {
    let set = units::bytes_in_words(rate.working_set_bytes);
    let what = match rate.kind {
        CeilingKind::UserCopy => format!("what this core copies by itself, out of {set}"),
        CeilingKind::KernelRead => format!("what this core can copy, out of {set}"),
        CeilingKind::KernelWrite => format!("what this core can copy, into {set}"),
        CeilingKind::DiskSequential => "what this disk gives in order".to_owned(),
        CeilingKind::DiskRandom => {
            let size = units::bytes_in_words(rate.size_bytes);
            format!("what this disk gives in random order, {size} each")
        }
    };
    format!("{what} ({} Gbit/s)", units::number(rate.gbit_per_s.value))
}

fn with_interval(share: &CeilingShare) -> String {
    let value = percent(share);
    match (share.low, share.high) {
        (Some(low), Some(high)) => {
            let [low, high] = [low, high].map(in_percent);
            format!("{value} (95 % interval {low} to {high})")
        }
        _ => value,
    }
}

/// Cells with a share of a ceiling of the disk or of the CPU, the largest share first.
fn shares<'a>(why: &Why<'a>, is_of_disk: bool) -> Vec<(&'a CellResult, &'a CeilingShare)> {
    let share = |(_, s): &(&CellResult, &CeilingShare)| s.share.unwrap_or_default();
    (cells_with_ceiling(&why.a.cells))
        .filter(|(_, s)| s.share.is_some() && s.ceiling.kind.is_of_disk() == is_of_disk)
        .sorted_by(|a, b| share(b).total_cmp(&share(a)))
        .collect()
}

/// The cells that have a ceiling, each with its share of it.
fn cells_with_ceiling(cells: &[CellResult]) -> impl Iterator<Item = (&CellResult, &CeilingShare)> {
    cells.iter().filter_map(|c| Some((c, c.ceiling.as_ref()?)))
}

/// A sentence on the shares that are withheld, if any are.
fn withheld(why: &Why<'_>) -> Option<String> {
    let without_share = cells_with_ceiling(&why.a.cells)
        .filter(|(_, s)| s.share.is_none())
        .collect_vec();
    let (_, first) = without_share.first()?;
    let reason = if first.ceiling.kind.is_of_disk() {
        "not all bytes came from the disk"
    } else {
        "the cell copies each byte less than once"
    };
    let cells = phrases::count(without_share.len(), "cell");
    Some(format!(
        "in {cells} no share is given, since it would be above 100 %: {reason}, or the ceiling was measured too low"
    ))
}

/// A cell by its mover and its values of the other varied axes.
fn cell_in_words(cell: &CellResult, varied: &[Axis]) -> String {
    let axes = varied.iter().filter(|a| **a != Axis::Mover);
    let values: Vec<_> = axes.map(|a| (*a, cell.cell.value(*a))).collect();
    let mover = format!("`{}`", cell.cell.mover);
    joined([mover, phrases::circumstances(&values)], " ")
}

/// The answer, by the largest share of each mover.
pub(super) fn answer(why: &Why<'_>) -> AnswerParts {
    let mut numbers = Vec::new();
    let mut spans = Vec::new();
    let ceilings = ["what this core can copy", "what this disk gives"];
    for (ceiling, is_of_disk) in ceilings.into_iter().zip([false, true]) {
        let bests = shares(why, is_of_disk)
            .into_iter()
            .unique_by(|(cell, _)| &cell.cell.mover)
            .collect_vec();
        let (Some(most), Some(least)) = (bests.first(), bests.last()) else {
            continue;
        };
        let [most, least] = [most, least].map(|(_, s)| percent(s));
        spans.push(format!("{} of {ceiling}", phrases::from_to([least, most])));
        numbers.extend(bests.iter().map(|(cell, share)| {
            let cell = cell_in_words(cell, &why.a.study.varied);
            let rate = rate_in_words(&share.ceiling);
            format!("{cell}: {} of {rate}", with_interval(share))
        }));
    }
    numbers.truncate(MOST_ROWS);
    let mut evidence = Vec::new();
    if let Some(ceiling) = &why.a.ceiling {
        let day = ceiling.started.get(..10).unwrap_or(&ceiling.started);
        evidence.push(format!(
            "run {} of {day} measured the ceiling: one core's copy in the kernel by calls of 64 KiB at several working sets, the disk past the page cache",
            ceiling.run
        ));
        evidence.extend(withheld(why));
        evidence.extend(ceiling.disturbed.iter().map(|load| {
            let others = others(load);
            format!(
                "{DISTURBED} ({others}): measure it again on the quiet machine, `bytecost ceiling`"
            )
        }));
    }
    AnswerParts {
        answer: format!("each mover at its best reaches {}.", phrases::list(spans)),
        numbers,
        evidence,
    }
}

/// A share as a percentage; a dash if it is withheld.
fn percent(share: &CeilingShare) -> String {
    share.share.map_or_else(|| "–".to_owned(), in_percent)
}

/// A share as a percentage, with decimals only below 10 %: `62 %`, `0.4 %`.
fn in_percent(share: f64) -> String {
    match share {
        s if s >= 0.1 => format!("{:.0} %", 100.0 * s),
        s => phrases::percent(s),
    }
}
