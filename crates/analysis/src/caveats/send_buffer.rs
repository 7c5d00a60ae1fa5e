//! What holds the sender back: a full send buffer, and registered buffers on huge pages, which fill
//! the socket's memory account.

use bytecost_spec::{Counter, units};

use super::{UnnamedCaveat, clause, of_cells, span};
use crate::phrases::percent;
use crate::trials::CellTrials;
use crate::value::Trial;
use crate::view::View;

/// Share of the busy time that the send buffer may hold a flow back.
const SEND_BUFFER: f64 = 0.5;
/// The least that is a huge page, in bytes, where pages of 4 KiB are the small ones.
const HUGE_BYTES: f64 = 2_097_152.0;

pub(super) fn full(view: &View<'_>) -> Vec<UnnamedCaveat> {
    // Where huge pages fill it, a larger one does not help, and another caveat says so.
    let cells = view.measured().filter(|c| !fill(view, c));
    let shows = |cell: &CellTrials<'_>| Some([Some(buffer_holds(cell)?), buffer_bytes(cell)]);
    of_cells(cells, shows, |_, [shares, buffers]| {
        let bytes = |b| format!("{} B", units::number(b));
        (
            "The send buffer held the sender back for most of the time: these rates are bounded by the buffer as well as by the mover.".to_owned(),
            format!(
                "TCP_INFO: limited by the send buffer for {} of the busy time{}",
                span(&shares, percent),
                clause(", SO_SNDBUF {}", &buffers, bytes)
            ),
            "a larger --socket-buffer, or auto",
        )
    })
}

/// The share of the busy time for which the send buffer held a cell back, where that is most.
fn buffer_holds(cell: &CellTrials<'_>) -> Option<f64> {
    let share = cell.typical(|t| t.sent_over(Counter::TcpSndbufLimitedUs, Counter::TcpBusyUs));
    share.filter(|s| *s > SEND_BUFFER)
}

fn buffer_bytes(cell: &CellTrials<'_>) -> Option<f64> {
    cell.trials().last()?.sent(Counter::SendBufferBytes)
}

/// Whether registered huge pages fill the account: the buffers are registered and lie in huge
/// pages, completions are waited for, and the send buffer holds the sender back.
fn fill(view: &View<'_>, cell: &CellTrials<'_>) -> bool {
    let survey = &view.input.manifest.survey;
    let registers = survey
        .mover(&cell.cell.mover)
        .is_some_and(|m| m.locks_rings > 0);
    let ring = cell.cell.ring_slots() as f64 * cell.cell.size_bytes as f64;
    let huge = cell.typical(|t| t.sent(Counter::HugeMemoryBytes));
    let is_huge = huge.is_some_and(|bytes| bytes >= HUGE_BYTES && bytes >= ring / 2.0);
    registers && cell.completes() && is_huge && buffer_holds(cell).is_some()
}

pub(super) fn huge_pages(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let huge = |t: &Trial<'_>| t.sent(Counter::HugeMemoryBytes);
    let shows = |cell: &CellTrials<'_>| Some([buffer_holds(cell), cell.typical(huge)]);
    of_cells(
        view.moved().filter(|c| fill(view, c)),
        shows,
        |_, [shares, sizes]| {
            (
            "Registered buffers on huge pages fill the socket's memory account: the kernel charges each piece up to the end of what lies before it in its page, so that a few small sends seem to fill the send buffer. This is not the cost of sending.".to_owned(),
            format!(
                "{} of the sender's memory in huge pages; limited by the send buffer for {} of the busy time (TCP_INFO)",
                span(&sizes, |bytes| units::bytes_in_words(bytes as u64)),
                span(&shares, percent)
            ),
            "no huge pages for registered buffers (/sys/kernel/mm/transparent_hugepage/enabled to madvise), or send-zerocopy, which gains from them",
        )
        },
    )
}
