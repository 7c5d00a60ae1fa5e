//! Shares of this machine's ceiling that rates reach, in words.

use bytecost_analysis::{CeilingKind, CeilingRate, CeilingShare, CellResult};
use bytecost_spec::{Axis, units};
use itertools::Itertools as _;

use super::why::{AnswerParts, MOST_ROWS, Why};
use crate::caveats::others;
use crate::phrases;
use crate::text::joined;

/// Caution for a ceiling that was measured while another program ran.
const TOO_LOW: &str = "something else ran while the ceiling was measured, so that it may be too low and shares of it too high";

/// Description of a ceiling's rate: `what this core can copy, out of 4 MiB (159 Gbit/s)`.
fn of_what(rate: &CeilingRate) -> String {
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

/// Cells with a share of one sort of ceiling, the largest share first; then in their order.
fn shares<'a>(why: &Why<'a>, of_disk: bool) -> Vec<(&'a CellResult, &'a CeilingShare)> {
    let share = |(_, s): &(&CellResult, &CeilingShare)| s.share.unwrap_or_default();
    (all(&why.a.cells))
        .filter(|(_, s)| s.share.is_some() && s.ceiling.kind.is_of_disk() == of_disk)
        .sorted_by(|a, b| share(b).total_cmp(&share(a)))
        .collect()
}

fn all(cells: &[CellResult]) -> impl Iterator<Item = (&CellResult, &CeilingShare)> {
    cells.iter().filter_map(|c| Some((c, c.ceiling.as_ref()?)))
}

fn withheld(why: &Why<'_>) -> Option<String> {
    let above = all(&why.a.cells)
        .filter(|(_, s)| s.share.is_none())
        .collect_vec();
    let (_, first) = above.first()?;
    let reason = if first.ceiling.kind.is_of_disk() {
        "not all bytes came from the disk"
    } else {
        "the cell copies each byte less than once"
    };
    let cells = phrases::count(above.len(), "cell");
    Some(format!(
        "in {cells} no share is given, since it would be above 100 %: {reason}, or the ceiling was measured too low"
    ))
}

fn named(cell: &CellResult, varied: &[Axis]) -> String {
    let axes = varied.iter().filter(|a| **a != Axis::Mover);
    let others: Vec<_> = axes.map(|a| (*a, cell.cell.value(*a))).collect();
    let mover = format!("`{}`", cell.cell.mover);
    joined([mover, phrases::circumstances(&others)], " ")
}

/// With the best of each mover.
pub(super) fn answer(why: &Why<'_>) -> AnswerParts {
    let mut numbers = Vec::new();
    let mut spans = Vec::new();
    let sorts = ["what this core can copy", "what this disk gives"];
    for (of, of_disk) in sorts.into_iter().zip([false, true]) {
        let all = shares(why, of_disk).into_iter();
        let bests = all.unique_by(|(cell, _)| &cell.cell.mover).collect_vec();
        let (Some(most), Some(least)) = (bests.first(), bests.last()) else {
            continue;
        };
        let [most, least] = [most, least].map(|(_, s)| percent(s));
        spans.push(format!("{} of {of}", phrases::from_to([least, most])));
        numbers.extend(bests.iter().map(|(cell, share)| {
            let cell = named(cell, &why.a.study.varied);
            let share_of = of_what(&share.ceiling);
            format!("{cell}: {} of {share_of}", with_interval(share))
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
                "{TOO_LOW} ({others}): measure it again on the quiet machine, `bytecost ceiling`"
            )
        }));
    }
    AnswerParts {
        answer: format!("each mover at its best reaches {}.", phrases::list(spans)),
        numbers,
        evidence,
    }
}

fn percent(share: &CeilingShare) -> String {
    share.share.map_or_else(|| "–".to_owned(), in_percent)
}

/// A share as a percentage, as finely as it bears: `62 %`, `0.4 %`.
fn in_percent(share: f64) -> String {
    match share {
        s if s >= 0.1 => format!("{:.0} %", 100.0 * s),
        s => phrases::percent(s),
    }
}
