//! Zero-copy with one buffer: each send waits for the completion of the one before.

use bytecost_spec::{Measure, Metric, Pattern, Reaping, units};

use super::{UnnamedCaveat, clause, of_cells};
use crate::trials::CellTrials;
use crate::view::View;

/// Whether a cell waits for every completion; where that lasts as long as a timer, another caveat
/// says so.
fn waits(view: &View<'_>, cell: &CellTrials<'_>) -> bool {
    let of_cell = cell.cell;
    cell.completes()
        && of_cell.pattern == Pattern::Stream
        && of_cell.reaping == Reaping::Full
        && of_cell.ring_slots() == 1
        && view.stalls.waits(&cell.id).is_none()
}

pub(super) fn detect(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let shows = |cell: &CellTrials<'_>| {
        let rate = Metric::both(Measure::MessagesPerS);
        let rate = cell.typical(|t| t.value(rate).known());
        let flows = f64::from(cell.cell.threads);
        Some([rate.map(|r| 1e6 * flows / r.max(f64::MIN_POSITIVE))])
    };
    of_cells(
        view.moved().filter(|c| waits(view, c)),
        shows,
        |_, [times]| {
            (
            "These zero-copy senders have one buffer, and wait for each completion before they send again: this is the usual wrong use, and shows the wait more than the sending.".to_owned(),
            format!(
                "the ring holds one message, and completions are taken before it is used again{}",
                clause(", {} µs a message", &times, units::number)
            ),
            "several buffers in flight: --ring 4MiB or more",
        )
        },
    )
}
