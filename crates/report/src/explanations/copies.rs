//! Copies of each byte, by place, in words.

use bytecost_analysis::{CellCopies, CellResult, grouped};
use bytecost_spec::evidence::{CopyMeans, CopyPlace};
use bytecost_spec::{Axis, Side};
use itertools::Itertools as _;

use super::why::{AnswerParts, MOST_ROWS, Why};
use crate::phrases;

/// Largest difference between numbers of copies that are shown as equal.
const ALIKE: f64 = 0.05;
/// Copies from which on a byte is said to have been copied at a place.
const SOME: f64 = 0.01;
/// Ways that the sentence has; the rows have the others.
const MOST_WAYS: usize = 6;

struct CopiedCell<'a> {
    name: String,
    cell: &'a CellResult,
    copies: &'a CellCopies,
}

/// Cells with equal copies of each byte.
type Way<'a> = Vec<CopiedCell<'a>>;

pub(super) fn answer(why: &Why<'_>) -> AnswerParts {
    let ways = ways(why);
    let mut rows = ways.iter().map(|w| sentence(w, &ways));
    let shown = rows.by_ref().take(MOST_WAYS).join("; of ");
    AnswerParts {
        answer: format!("the kernel copies each byte of {shown}."),
        numbers: rows.take(2 * MOST_ROWS).collect(),
        evidence: evidence(why),
    }
}

fn ways<'a>(why: &Why<'a>) -> Vec<Way<'a>> {
    let named = [Axis::Receiver, Axis::Transport, Axis::Cache];
    let mut ways: Vec<Way<'a>> = Vec::new();
    for copies in why.a.copies.iter().filter(|c| !c.is_flagged_only()) {
        let Some(cell) = why.a.result(&copies.cell) else {
            continue;
        };
        let varied = named
            .iter()
            .filter(|axis| why.a.study.varied.contains(axis));
        let places = varied.map(|axis| axis.circumstance(&cell.cell.value(*axis)));
        // The name has no size: `names` adds it where it is needed.
        let mover = Axis::Mover.subject(&cell.cell.value(Axis::Mover));
        let name = [mover].into_iter().chain(places).join(" ");
        let entry = CopiedCell { name, cell, copies };
        let alike = |w: &&mut Way<'_>| w.iter().all(|c| is_alike(c.copies, copies));
        match ways.iter_mut().find(alike) {
            Some(way) => way.push(entry),
            None => ways.push(vec![entry]),
        }
    }
    ways
}

/// Returns true if two cells have equal copies at every place. A place that a cell does not have
/// counts as zero copies.
fn is_alike(a: &CellCopies, b: &CellCopies) -> bool {
    let at = |c: &CellCopies, leg: CopyPlace| {
        if c.legs.iter().any(|l| l.leg == leg) {
            c.at(leg)
        } else {
            Some(0.0)
        }
    };
    let mut places = CopyPlace::ALL.iter();
    places.all(|leg| match (at(a, *leg), at(b, *leg)) {
        (Some(a), Some(b)) => (a - b).abs() < ALIKE,
        (a, b) => a.is_some() == b.is_some(),
    })
}

/// Names of the ways with these copies, with sizes where not every size of a way has them.
fn names(way: &Way<'_>, all: &[Way<'_>]) -> String {
    let sizes = grouped(way.iter().map(|c| {
        let size = Axis::Size.circumstance(&c.cell.cell.value(Axis::Size));
        (c.name.as_str(), size)
    }));
    let is_split = |name: &str| {
        let has = |w: &&Way<'_>| w.iter().any(|c| c.name == name);
        all.iter().filter(has).count() > 1
    };
    phrases::list(sizes.into_iter().map(|(name, mut sizes)| {
        sizes.dedup();
        if is_split(name) {
            format!("{name} {}", phrases::list(&sizes))
        } else {
            name.to_owned()
        }
    }))
}

/// `` `send` and `sendmsg` 2.00 times (1.00 into the kernel and 1.00 to the reader)``.
fn sentence(way: &Way<'_>, all: &[Way<'_>]) -> String {
    let mean = |leg: &CopyPlace| {
        let known = Vec::from_iter(way.iter().filter_map(|c| c.copies.at(*leg)));
        let sum: f64 = known.iter().sum();
        (!known.is_empty()).then(|| (leg.title(), sum / known.len() as f64))
    };
    let means = CopyPlace::ALL.iter().filter_map(mean).collect_vec();
    let legs = means.iter().filter(|(_, value)| *value >= SOME);
    let legs = phrases::list(legs.map(|(title, value)| format!("{value:.2} {title}")));
    let sum: f64 = means.iter().map(|(_, value)| value).sum();
    let lost = way[0].copies.legs.iter().find(|l| l.per_byte.is_none());
    let name = names(way, all);
    match (lost.map(|lost| lost.leg.title()), legs.is_empty()) {
        (None, true) => format!("{name} not once"),
        (None, false) => format!("{name} {sum:.2} times ({legs})"),
        (Some(lost), true) => format!("{name}: {lost} is not counted"),
        (Some(lost), false) => format!("{name} {legs} ({lost} is not counted)"),
    }
}

fn evidence(why: &Why<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    let counted = || why.a.copies.iter().filter(|c| !c.is_flagged_only());
    for means in [CopyMeans::Functions, CopyMeans::Tracepoints] {
        let legs = CopyPlace::ALL.iter().filter(|leg| {
            let mut all = counted().flat_map(|c| &c.legs);
            all.any(|l| l.leg == **leg && l.means == Some(means))
        });
        let legs = phrases::list(legs.map(|l| l.title()));
        if !legs.is_empty() {
            lines.push(format!("counted by {}: {legs}", means.title()));
        }
    }
    let gaps = counted().flat_map(|c| c.gaps.iter().map(String::as_str));
    let absent = counted().flat_map(|c| c.legs.iter().filter_map(|l| l.absent.as_deref()));
    let lost = gaps.chain(absent).unique();
    lines.extend(lost.map(|reason| format!("unavailable: {reason}")));
    if let Some(cost) = &why.a.counting_cost {
        let of = if cost.cells < cost.of_cells {
            format!(" of {}, within a tenth of the budget", cost.of_cells)
        } else {
            String::new()
        };
        let rate = cost.rate.map(|rate| format!("; the rate was {rate:.2} times that of the timed trials while it was counted (median)"));
        let (s, rate) = (cost.took_s, rate.unwrap_or_default());
        let trials = phrases::count(cost.cells, "trial");
        let took = format!("counting took {s:.1} s after the last block, in {trials}{of}{rate}");
        lines.push(took);
    }
    if counted().any(|c| matches!(c.per_byte(Side::Both), Some(Ok(_)))) {
        lines.push("a byte's way is counted from the first that moved to the last, warm-up included; what is sent again is copied again".to_owned());
    }
    lines
}
