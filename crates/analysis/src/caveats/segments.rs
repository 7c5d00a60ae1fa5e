//! Segments: of different sizes, or sent more than once.

use bytecost_spec::{Cell, Counter, Transport, units};
use itertools::Itertools as _;

use super::{Caveat, caveat, clause, ids, known};
use crate::phrases::percent;
use crate::result::Finding;
use crate::trials::CellTrials;
use crate::view::View;

/// How far apart the sizes may be, larger over smaller.
const ALIKE: f64 = 1.25;

/// Bytes of a packet or segment with data; none where they are not counted.
fn packet_bytes(cell: &CellTrials<'_>) -> Option<f64> {
    cell.typical(|t| {
        let bytes = t.sent(Counter::Bytes)?;
        let packets = match cell.cell.transport {
            Transport::Wire => t.of_all(Counter::WirePackets)?,
            _ => t.sent(Counter::TcpDataSegments)?,
        };
        (packets > 0.0).then(|| bytes / packets)
    })
}

pub(super) fn sizes_differ(view: &View<'_>) -> Option<Caveat> {
    let link = |c: &Cell| (c.transport, c.mtu_bytes, c.segment_bytes, c.size_bytes);
    let apart = |finding: &Finding| {
        let is_asked = finding.first && finding.is_apart() && !view.stalls.touch(finding);
        let pair = view.trials.pair(finding).filter(|_| is_asked)?;
        let (one, other) = (pair.baseline, pair.other);
        let (a, b) = (packet_bytes(one)?, packet_bytes(other)?);
        let times = a.max(b) / a.min(b);
        let told = || {
            let [from, to] =
                [&finding.baseline_value, &finding.value].map(|v| finding.axis.subject(v));
            let [a, b] = [a, b].map(|bytes| units::number(bytes.round()));
            format!("{from} {a} B, {to} {b} B")
        };
        let is_told = link(one.cell) == link(other.cell) && times >= ALIKE;
        is_told.then(|| (times, told(), [one, other]))
    };
    let all = view.findings.iter().filter_map(apart).collect_vec();
    // Of equals the first.
    let (_, told, _) = all.iter().rev().max_by(|a, b| a.0.total_cmp(&b.0))?;
    caveat(
        "The sides compared did not send segments of the same size: a part of the difference is the cost of more or fewer packets, not of the way to send.",
        format!("bytes of a segment with data, where they are furthest apart: {told}"),
        "the same TCP_NODELAY and TCP_CORK on both sides (--nodelay, --cork), or messages that fill segments",
        ids(all.iter().flat_map(|(.., both)| *both).unique_by(|c| &c.id)),
    )
}

/// Share sent again that goes unremarked: the kernel probes at the end of a burst.
const FEW: f64 = 0.001;

pub(super) fn retransmits(view: &View<'_>) -> Option<Caveat> {
    let again = |c: &CellTrials<'_>| c.sum(|t| t.sent(Counter::TcpRetransmits));
    // Older logs do not have the segments.
    let share = |c: &&CellTrials<'_>| {
        let sent = c.sum(|t| t.sent(Counter::TcpDataSegments));
        (sent > 0.0).then(|| again(c) / sent)
    };
    let many = |c: &&CellTrials<'_>| again(c) > 0.0 && share(c).is_none_or(|s| s > FEW);
    let cells = view.measured().filter(many).collect_vec();
    let shares = known(&cells.iter().filter_map(share).collect_vec(), percent);
    let again: f64 = cells.iter().map(|c| again(c)).sum();
    caveat(
        "Segments were sent again: these cells pay for them twice, and their rates show the path as well as the mover.",
        format!("TCP_INFO: {again:.0} retransmitted")
            + &clause(", {} of a cell's segments", &shares),
        "a larger --socket-buffer, fewer --threads, or a quieter path; over loopback nothing is lost unless memory is short or an acknowledgement late",
        ids(cells),
    )
}
