//! Shares of the ceiling in words.

use bytecost_spec::{Axis, units};

use super::{CeilingKind, CeilingRate, CeilingShare};
use crate::doubts::View;
use crate::grid;
use crate::result::{Answer, CellResult, Explanation};
use crate::words;

/// Rows of numbers that are told; the rest is in the results.
const ROWS_MOST: usize = 8;

impl CeilingKind {
    /// Whether it is the disk's.
    #[must_use]
    pub fn is_of_disk(self) -> bool {
        matches!(self, CeilingKind::DiskSequential | CeilingKind::DiskRandom)
    }

    /// What reaches it, as the subject of a sentence: `one core's kernel`.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            CeilingKind::UserCopy => "memcpy by one core",
            CeilingKind::KernelRead => "one core's copy in the kernel, out of a file",
            CeilingKind::KernelWrite => "one core's copy in the kernel, into a file",
            CeilingKind::DiskSequential => "this disk in order",
            CeilingKind::DiskRandom => "this disk in random order",
        }
    }
}

/// What the rate is a rate of: `what this core can copy, out of a file of 4 MiB (159 Gbit/s)`.
fn of_what(rate: &CeilingRate) -> String {
    let set = units::bytes_in_words(rate.working_set_bytes);
    let what = match rate.kind {
        CeilingKind::UserCopy => format!("what this core copies by itself, out of {set}"),
        CeilingKind::KernelRead => format!("what this core can copy, out of a file of {set}"),
        CeilingKind::KernelWrite => format!("what this core can copy, into a file of {set}"),
        CeilingKind::DiskSequential => "what this disk gives in order".to_owned(),
        CeilingKind::DiskRandom => {
            let size = units::bytes_in_words(rate.size_bytes);
            format!("what this disk gives in random order, {size} each")
        }
    };
    format!("{what} ({} Gbit/s)", units::number(rate.gbit_per_s.value))
}

fn with_interval(share: &CeilingShare) -> String {
    let value = words::percent(share.share);
    match (share.low, share.high) {
        (Some(low), Some(high)) => format!(
            "{value} (95 % interval {} to {})",
            words::percent(low),
            words::percent(high)
        ),
        _ => value,
    }
}

/// Cells with a share of one sort of ceiling, the largest share first; then in their order.
fn shares<'v>(view: &View<'v>, of_disk: bool) -> Vec<(&'v CellResult, &'v CeilingShare)> {
    let own = view
        .cells
        .iter()
        .filter_map(|c| Some((c, c.ceiling.as_ref()?)));
    let mut own: Vec<_> = own
        .filter(|(_, s)| s.ceiling.kind.is_of_disk() == of_disk)
        .collect();
    own.sort_by(|a, b| b.1.share.total_cmp(&a.1.share));
    own
}

fn named(cell: &CellResult, varied: &[Axis]) -> String {
    let rest: Vec<Axis> = varied
        .iter()
        .copied()
        .filter(|a| *a != Axis::Mover)
        .collect();
    let place = words::circumstances(&grid::coordinates(&cell.cell, &rest));
    format!("`{}` {place}", cell.cell.mover)
        .trim_end()
        .to_owned()
}

/// The largest and the smallest share of each sort of ceiling; nothing without a ceiling.
pub(crate) fn answers(view: &View<'_>, varied: &[Axis]) -> Vec<Answer> {
    [false, true]
        .into_iter()
        .filter_map(|of_disk| sentence(&shares(view, of_disk), varied))
        .map(|sentence| Answer {
            sentence,
            findings: Vec::new(),
        })
        .collect()
}

fn sentence(shares: &[(&CellResult, &CeilingShare)], varied: &[Axis]) -> Option<String> {
    let (best, most) = shares.first()?;
    let head = format!(
        "{} reaches {} of {}",
        words::capital(&named(best, varied)),
        with_interval(most),
        of_what(&most.ceiling)
    );
    Some(match shares.split_last() {
        Some(((worst, least), rest)) if !rest.is_empty() => format!(
            "{head}, the largest share here; the smallest is {}, {}.",
            words::percent(least.share),
            named(worst, varied)
        ),
        _ => format!("{head}."),
    })
}

/// The question of what share of the ceiling is reached, with the best of each mover; none where
/// no cell has a ceiling.
pub(crate) fn explanation(view: &View<'_>, varied: &[Axis]) -> Option<Explanation> {
    let ceiling = view.input.ceiling?;
    let mut numbers = Vec::new();
    let mut seen: Vec<(&str, bool)> = Vec::new();
    for of_disk in [false, true] {
        for (cell, share) in shares(view, of_disk) {
            let key = (cell.cell.mover.as_str(), of_disk);
            if !seen.contains(&key) && numbers.len() < ROWS_MOST {
                seen.push(key);
                numbers.push(format!(
                    "{}: {} of {}",
                    named(cell, varied),
                    with_interval(share),
                    of_what(&share.ceiling)
                ));
            }
        }
    }
    let told = answers(view, varied);
    if told.is_empty() {
        return None;
    }
    let told: Vec<String> = told.into_iter().map(|a| a.sentence).collect();
    Some(Explanation {
        key: "ceiling-share".to_owned(),
        question: "What share of what this machine can copy, and of what its disk gives, is reached?"
            .to_owned(),
        answer: Some(told.join(" ")),
        numbers,
        evidence: vec![format!(
            "run {} of {} measured the ceiling: one core's copy in the kernel by calls of 64 KiB at several working sets, the disk past the page cache; more than 100 % is reached where less is copied than that, or by more than one core",
            ceiling.run,
            ceiling.started.get(..10).unwrap_or(&ceiling.started)
        )],
        would_change: Some(
            "fewer copies and fewer calls bring it up; `bytecost ceiling` measures the ceiling anew".to_owned(),
        ),
        missing: None,
        findings: Vec::new(),
    })
}
