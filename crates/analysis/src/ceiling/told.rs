//! Shares of the ceiling in words.

use bytecost_spec::{Axis, units};
use itertools::Itertools as _;

use super::{CeilingKind, CeilingRate, CeilingShare};
use crate::grid;
use crate::phrases;
use crate::result::{AnswerSentence, CellResult, Explanation};
use crate::view::View;

/// What is said of a ceiling that was measured beside something else.
const TOO_LOW: &str = "something else ran while the ceiling was measured, so that it may be too low and shares of it too high";
/// Rows of numbers that are told; the rest is in the results.
const ROWS_MOST: usize = 8;

impl CeilingKind {
    /// Whether it is the disk's.
    pub fn is_of_disk(self) -> bool {
        matches!(self, CeilingKind::DiskSequential | CeilingKind::DiskRandom)
    }

    /// What reaches it, as the subject of a sentence: `one core's kernel`.
    pub fn words(self) -> &'static str {
        match self {
            CeilingKind::UserCopy => "memcpy by one core",
            CeilingKind::KernelRead => "one core's copy out of the kernel",
            CeilingKind::KernelWrite => "one core's copy into the kernel",
            CeilingKind::DiskSequential => "this disk in order",
            CeilingKind::DiskRandom => "this disk in random order",
        }
    }
}

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
        (Some(low), Some(high)) => format!(
            "{value} (95 % interval {} to {})",
            in_percent(low),
            in_percent(high)
        ),
        _ => value,
    }
}

/// Cells with a share of one sort of ceiling, the largest share first; then in their order.
fn shares<'v>(view: &View<'v>, of_disk: bool) -> Vec<(&'v CellResult, &'v CeilingShare)> {
    let own = all(view.cells).filter(|(_, s)| s.ceiling.kind.is_of_disk() == of_disk);
    let own = own.filter(|(_, s)| s.share.is_some());
    let share = |s: &CeilingShare| s.share.unwrap_or(0.0);
    own.sorted_by(|a, b| share(b.1).total_cmp(&share(a.1)))
        .collect()
}

fn all(cells: &[CellResult]) -> impl Iterator<Item = (&CellResult, &CeilingShare)> {
    cells.iter().filter_map(|c| Some((c, c.ceiling.as_ref()?)))
}

/// In how many cells the share is withheld, and why.
fn withheld(view: &View<'_>) -> Option<String> {
    let why = all(view.cells)
        .filter_map(|(_, s)| s.withheld.as_ref())
        .collect_vec();
    let cells = phrases::count(why.len(), "cell");
    Some(format!(
        "in {cells} no share is given, since {}",
        why.first()?
    ))
}

fn named(cell: &CellResult, varied: &[Axis]) -> String {
    let rest = varied
        .iter()
        .copied()
        .filter(|a| *a != Axis::Mover)
        .collect_vec();
    let place = phrases::circumstances(&grid::coordinates(&cell.cell, &rest));
    format!("`{}` {place}", cell.cell.mover)
        .trim_end()
        .to_owned()
}

/// The largest and the smallest share of each sort of ceiling; nothing without a ceiling.
pub(crate) fn answers(view: &View<'_>) -> Vec<AnswerSentence> {
    let own = [false, true].into_iter();
    let own = own.filter_map(|of_disk| sentence(&shares(view, of_disk), view.varied));
    let withheld = withheld(view).map(|why| phrases::capital(&phrases::sentence(&why)));
    let told = own.chain(withheld).chain(too_low(view));
    let answer = |sentence| AnswerSentence {
        sentence,
        findings: Vec::new(),
    };
    told.map(answer).collect()
}

/// What is to be known of shares of a ceiling that was disturbed, where there are any.
fn too_low(view: &View<'_>) -> Option<String> {
    view.input.ceiling?.disturbed.as_ref()?;
    let any = all(view.cells).next().is_some();
    any.then(|| {
        format!(
            "{}: `bytecost ceiling` measures it again.",
            phrases::capital(TOO_LOW)
        )
    })
}

fn sentence(shares: &[(&CellResult, &CeilingShare)], varied: &[Axis]) -> Option<String> {
    let (best, most) = shares.first()?;
    let head = format!(
        "{} reaches {} of {}",
        phrases::capital(&named(best, varied)),
        with_interval(most),
        of_what(&most.ceiling)
    );
    Some(match shares.split_last() {
        Some(((worst, least), rest)) if !rest.is_empty() => format!(
            "{head}, the largest share here; the smallest is {}, {}.",
            percent(least),
            named(worst, varied)
        ),
        _ => format!("{head}."),
    })
}

/// The question of what share of the ceiling is reached, with the best of each mover; none where
/// no cell has a ceiling.
pub(crate) fn explanation(view: &View<'_>) -> Option<Explanation> {
    let ceiling = view.input.ceiling?;
    let mut numbers = Vec::new();
    let mut spans = Vec::new();
    for (of_disk, of) in [
        (false, "what this core can copy"),
        (true, "what this disk gives"),
    ] {
        let all = shares(view, of_disk).into_iter();
        let bests = all.unique_by(|(cell, _)| &cell.cell.mover).collect_vec();
        let (Some(most), Some(least)) = (bests.first(), bests.last()) else {
            continue;
        };
        let [most, least] = [most, least].map(|(_, s)| percent(s));
        spans.push(format!("{} of {of}", phrases::from_to([least, most])));
        numbers.extend(bests.iter().map(|(cell, share)| {
            let [cell, share_of] = [named(cell, view.varied), of_what(&share.ceiling)];
            format!("{cell}: {} of {share_of}", with_interval(share))
        }));
    }
    if spans.is_empty() {
        return None;
    }
    numbers.truncate(ROWS_MOST);
    let day = ceiling.started.get(..10).unwrap_or(&ceiling.started);
    let mut evidence = vec![format!(
        "run {} of {day} measured the ceiling: one core's copy in the kernel by calls of 64 KiB at several working sets, the disk past the page cache",
        ceiling.run
    )];
    evidence.extend(withheld(view));
    evidence.extend(ceiling.disturbed.iter().map(|evidence| {
        format!("{TOO_LOW} ({evidence}): measure it again on the quiet machine, `bytecost ceiling`")
    }));
    Some(Explanation {
        key: "ceiling-share".to_owned(),
        question: "What share of what this machine can copy, and of what its disk gives, is reached?"
            .to_owned(),
        answer: Some(format!(
            "Each mover at its best reaches {}.",
            phrases::list(spans)
        )),
        numbers,
        evidence,
        would_change: Some(
            "fewer copies and fewer calls bring it up; `bytecost ceiling` measures the ceiling anew"
                .to_owned(),
        ),
        missing: None,
        findings: Vec::new(),
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
