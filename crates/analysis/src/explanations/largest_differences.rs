//! The comparisons that are worth a reason.

use bytecost_spec::evidence::{CountedEvent, EVENTS};
use bytecost_spec::{Measure, Side, units};

use super::Why;
use crate::phrases;
use crate::result::{CellCounts, Finding, Verdict};

/// From which factor on counts are told as different, and from how many for each message.
const APART: (f64, f64) = (1.2, 0.02);
/// Events that a difference is told in.
const MOST_EVENTS: usize = 3;

/// The decided comparison with the greatest ratio of each value with its baseline, greatest first;
/// of cells of which both are there. Where one side waits for a timer, only their CPU times are
/// worth one.
pub(super) fn decided<'v>(why: &Why<'v>, is_there: impl Fn(&str) -> bool) -> Vec<&'v Finding> {
    let mut found: Vec<&'v Finding> = Vec::new();
    let far = |f: &Finding| f.ratio.ln().abs();
    for finding in why.view.findings {
        let decided = matches!(finding.verdict, Verdict::Better | Verdict::Worse);
        let seen = is_there(&finding.baseline) && is_there(&finding.cell);
        let of_cpu = match finding.metric.measure {
            Measure::CpuSPerGb => true,
            Measure::CpuNsPerMessage => finding.metric.side == Side::Server,
            _ => false,
        };
        let is_told = of_cpu || finding.primary && !why.view.stalls.touch(finding);
        if !is_told || !decided || !seen {
            continue;
        }
        let same = |f: &&mut &Finding| {
            f.value == finding.value
                && f.baseline_value == finding.baseline_value
                && f.axis == finding.axis
        };
        match found.iter_mut().find(same) {
            Some(there) if far(there) >= far(finding) => {}
            Some(there) => *there = finding,
            None => found.push(finding),
        }
    }
    found.sort_by(|a, b| far(b).total_cmp(&far(a)));
    found
}

/// Where a finding's cells are: `` at 64 KiB over loopback``, with a space in front.
pub(super) fn place(why: &Why<'_>, finding: &Finding) -> String {
    let cell = why.view.cells.iter().find(|c| c.id == finding.cell);
    let place = cell.map_or_else(String::new, |c| {
        let varied = why.varied.iter().filter(|a| **a != finding.axis);
        let values: Vec<_> = varied.map(|a| (*a, c.cell.value(*a))).collect();
        phrases::joined_circumstances(&values)
    });
    match place.chars().next() {
        None | Some(',') => place,
        Some(_) => format!(" {place}"),
    }
}

/// `8.00 system calls a message instead of 1.00`, of the events that differ most, and of a server's
/// own where there is one; retransmits are chance.
pub(super) fn events(baseline: &CellCounts, other: &CellCounts) -> Vec<String> {
    let apart = |event: CountedEvent| {
        let (from, to) = (baseline.per_message(event)?, other.per_message(event)?);
        let least = APART.1;
        let factor = (to.max(least) / from.max(least)).ln().abs();
        let differs = factor > APART.0.ln() && (to - from).abs() > least;
        differs.then_some((factor, event, from, to))
    };
    let counted = EVENTS.iter().map(|r| r.event);
    let mut all: Vec<_> = counted
        .filter(|e| *e != CountedEvent::Retransmits)
        .filter_map(apart)
        .collect();
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    let each = match other.is_of_server() {
        true => "of the server for each request",
        false => "a message",
    };
    let told = all.iter().take(MOST_EVENTS).map(|(_, event, from, to)| {
        let title = event.row().title;
        let [from, to] = [*from, *to].map(units::number);
        format!("{to} {title} {each} instead of {from}")
    });
    told.collect()
}
