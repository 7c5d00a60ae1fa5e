//! What share of the ceiling of this machine is reached.

use bytecost_spec::{Axis, units};
use itertools::Itertools as _;

use super::{Answered, Answers, Explained, MOST_ROWS, Question};
use crate::grid;
use crate::phrases;
use crate::result::{CeilingKind, CeilingRate, CeilingShare, CellResult};

/// What is said of a ceiling that was measured beside something else.
const TOO_LOW: &str = "something else ran while the ceiling was measured, so that it may be too low and shares of it too high";

pub(super) const QUESTION: Question = Question {
    key: "ceiling-share",
    text: "What share of what this machine can copy, and of what its disk gives, is reached?",
    asks: |run| run.input.ceiling.is_some(),
    answers: Answers::Own(ask),
    would_change: "fewer copies and fewer calls bring it up; `bytecost ceiling` measures the ceiling anew",
};

/// What the rate is a rate of: `what this core can copy, out of 4 MiB (159 Gbit/s)`.
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
fn shares<'v>(run: &'v Explained<'v>, of_disk: bool) -> Vec<(&'v CellResult, &'v CeilingShare)> {
    let own = all(&run.cells).filter(|(_, s)| s.ceiling.kind.is_of_disk() == of_disk);
    let own = own.filter_map(|(cell, s)| Some((s.share?, (cell, s))));
    let own = own.sorted_by(|a, b| b.0.total_cmp(&a.0));
    own.map(|(_, of_cell)| of_cell).collect()
}

fn all(cells: &[CellResult]) -> impl Iterator<Item = (&CellResult, &CeilingShare)> {
    cells.iter().filter_map(|c| Some((c, c.ceiling.as_ref()?)))
}

fn withheld(run: &Explained<'_>) -> Option<String> {
    let why = all(&run.cells).filter_map(|(_, s)| s.withheld.as_ref());
    let why = why.collect_vec();
    let (cells, first) = (phrases::count(why.len(), "cell"), why.first()?);
    Some(format!("in {cells} no share is given, since {first}"))
}

fn named(cell: &CellResult, varied: &[Axis]) -> String {
    let rest = varied.iter().filter(|a| **a != Axis::Mover);
    let place = phrases::circumstances(&grid::coordinates(&cell.cell, rest));
    let named = format!("`{}` {place}", cell.cell.mover);
    named.trim_end().to_owned()
}

/// With the best of each mover; none without a share.
fn ask(run: &Explained<'_>) -> Option<Answered> {
    let ceiling = run.input.ceiling?;
    let mut numbers = Vec::new();
    let mut spans = Vec::new();
    let sorts = ["what this core can copy", "what this disk gives"];
    for (of, of_disk) in sorts.into_iter().zip([false, true]) {
        let all = shares(run, of_disk).into_iter();
        let bests = all.unique_by(|(cell, _)| &cell.cell.mover).collect_vec();
        let (Some(most), Some(least)) = (bests.first(), bests.last()) else {
            continue;
        };
        let [most, least] = [most, least].map(|(_, s)| percent(s));
        spans.push(format!("{} of {of}", phrases::from_to([least, most])));
        numbers.extend(bests.iter().map(|(cell, share)| {
            let [cell, share_of] = [named(cell, run.varied()), of_what(&share.ceiling)];
            format!("{cell}: {} of {share_of}", with_interval(share))
        }));
    }
    if spans.is_empty() {
        return None;
    }
    numbers.truncate(MOST_ROWS);
    let day = ceiling.started.get(..10).unwrap_or(&ceiling.started);
    let mut evidence = vec![format!(
        "run {} of {day} measured the ceiling: one core's copy in the kernel by calls of 64 KiB at several working sets, the disk past the page cache",
        ceiling.run
    )];
    evidence.extend(withheld(run));
    evidence.extend(ceiling.disturbed.iter().map(|evidence| {
        format!("{TOO_LOW} ({evidence}): measure it again on the quiet machine, `bytecost ceiling`")
    }));
    Some(Answered {
        numbers,
        evidence,
        ..Answered::of(Ok(format!(
            "each mover at its best reaches {}.",
            phrases::list(spans)
        )))
    })
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
