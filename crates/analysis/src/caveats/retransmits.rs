//! Segments that were sent more than once.

use bytecost_spec::Counter;

use super::{UnnamedCaveat, clause, of_cells};
use crate::phrases::percent;
use crate::trials::CellTrials;
use crate::view::View;

/// Share of the segments that may be sent again unremarked: the kernel probes at the end of a
/// burst, and nothing is lost there.
const FEW: f64 = 0.001;

pub(super) fn detect(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let shows = |cell: &CellTrials<'_>| {
        let sum = |counter| cell.sum(|t| t.sent(counter));
        let sent = sum(Counter::TcpDataSegments);
        let again = sum(Counter::TcpRetransmits);
        // Older logs do not have the segments.
        let share = (sent > 0.0).then(|| again / sent);
        let many = again > 0.0 && share.is_none_or(|s| s > FEW);
        many.then_some([Some(again), share])
    };
    of_cells(view.measured(), shows, |_, [again, shares]| {
        (
            "Segments were sent again: these cells pay for them twice, and their rates show the path as well as the mover.".to_owned(),
            format!(
                "TCP_INFO: {:.0} retransmitted{}",
                again.iter().sum::<f64>(),
                clause(", {} of a cell's segments", &shares, percent)
            ),
            "a larger --socket-buffer, fewer --threads, or a quieter path; over loopback nothing is lost unless memory is short or an acknowledgement late",
        )
    })
}
