//! Segments that were sent more than once.

use bytecost_spec::Counter;

use super::{UnnamedCaveat, span};
use crate::phrases::percent;
use crate::trials::CellTrials;
use crate::value::{Trial, read};
use crate::view::View;

/// Share of the segments that may be sent again unremarked: the kernel probes at the end of a
/// burst, and nothing is lost there.
const FEW: f64 = 0.001;

fn sum(cell: &CellTrials<'_>, counter: Counter) -> f64 {
    let known = |t: &Trial<'_>| read(&t.sample.sender, counter).ok();
    cell.trials().filter_map(known).sum()
}

pub(super) fn detect(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let (mut cells, mut shares, mut again) = (Vec::new(), Vec::new(), 0.0);
    for cell in view.measured() {
        let (sent, resent) = (
            sum(cell, Counter::TcpDataSegments),
            sum(cell, Counter::TcpRetransmits),
        );
        // Older logs do not have the segments.
        let share = if sent > 0.0 { resent / sent } else { 1.0 };
        if resent > 0.0 && share > FEW {
            again += resent;
            shares.extend((sent > 0.0).then_some(share));
            cells.push(cell.id.clone());
        }
    }
    if cells.is_empty() {
        return Vec::new();
    }
    let of = match shares.is_empty() {
        true => String::new(),
        false => format!(", {} of a cell's segments", span(&shares, percent)),
    };
    vec![UnnamedCaveat {
        text: "Segments were sent again: these cells pay for them twice, and their rates show the path as well as the mover.".to_owned(),
        evidence: format!("TCP_INFO: {again:.0} retransmitted{of}"),
        remedy: "a larger --socket-buffer, fewer --threads, or a quieter path; over loopback nothing is lost unless memory is short or an acknowledgement late".to_owned(),
        cells,
    }]
}
