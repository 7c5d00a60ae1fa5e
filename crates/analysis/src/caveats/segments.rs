//! Comparisons of movers whose bytes went out in packets of different sizes.

use bytecost_spec::{Counter, Transport, units};
use itertools::Itertools as _;

use super::UnnamedCaveat;
use crate::result::Verdict;
use crate::trials::CellTrials;
use crate::view::View;

/// How far apart the sizes may be, larger over smaller.
const ALIKE: f64 = 1.25;

/// Bytes of a packet or segment with data, mean of a trial, median over trials; none where they
/// are not counted.
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

pub(super) fn detect(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let of = |id: &str| {
        let cell = view.trials.by_id(id)?;
        Some((cell, packet_bytes(cell)?))
    };
    let mut cells: Vec<String> = Vec::new();
    let mut worst: Option<(f64, String)> = None;
    for finding in view.findings {
        let decided = matches!(finding.verdict, Verdict::Better | Verdict::Worse);
        if !finding.first || !decided || view.stalls.touch(finding) {
            continue;
        }
        let (Some((one, a)), Some((other, b))) = (of(&finding.baseline), of(&finding.cell)) else {
            continue;
        };
        let same_link = one.cell.transport == other.cell.transport
            && one.cell.mtu_bytes == other.cell.mtu_bytes
            && one.cell.segment_bytes == other.cell.segment_bytes
            && one.cell.size_bytes == other.cell.size_bytes;
        let times = a.max(b) / a.min(b);
        if !same_link || times < ALIKE {
            continue;
        }
        cells.extend([finding.baseline.clone(), finding.cell.clone()]);
        if worst.as_ref().is_none_or(|(most, _)| times > *most) {
            let told = format!(
                "{} {} B, {} {} B",
                finding.axis.subject(&finding.baseline_value),
                units::number(a.round()),
                finding.axis.subject(&finding.value),
                units::number(b.round())
            );
            worst = Some((times, told));
        }
    }
    let Some((_, told)) = worst else {
        return Vec::new();
    };
    vec![UnnamedCaveat {
        text: "The sides compared did not send segments of the same size: a part of the difference is the cost of more or fewer packets, not of the way to send.".to_owned(),
        evidence: format!(
            "bytes of a segment with data, where they are furthest apart: {told}"
        ),
        remedy: "the same TCP_NODELAY and TCP_CORK on both sides (--nodelay, --cork), or messages that fill segments".to_owned(),
        cells: cells.into_iter().unique().collect(),
    }]
}
