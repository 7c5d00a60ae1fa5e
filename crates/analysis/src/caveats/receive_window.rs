//! A receive window that held the sender back although the receiver had time.

use bytecost_spec::{Counter, units};

use super::{UnnamedCaveat, clause, of_cells, receiver_bound, span};
use crate::phrases::percent;
use crate::trials::CellTrials;
use crate::value::{Trial, read};
use crate::view::View;

/// Share of the busy time that the window may hold a flow back.
const HELD: f64 = 0.5;

pub(super) fn detect(view: &View<'_>) -> Vec<UnnamedCaveat> {
    // A receiver that is busy fills its buffer whatever its size.
    let has_time = |c: &&CellTrials<'_>| !receiver_bound::is_busy(c);
    let buffer =
        |t: &Trial<'_>| read(t.sample.receiver.as_ref()?, Counter::ReceiveBufferBytes).ok();
    let shows = |cell: &CellTrials<'_>| {
        let held = |t: &Trial<'_>| t.sent_over(Counter::TcpRwndLimitedUs, Counter::TcpBusyUs);
        let share = cell.typical(held).filter(|s| *s > HELD)?;
        Some([Some(share), cell.typical(buffer)])
    };
    of_cells(
        view.moved().filter(has_time),
        shows,
        |_, [shares, buffers]| {
            let bytes = |b| format!("{} B", units::number(b));
            (
            "The receive window held the sender back for most of the time, though the receiver had time left: these rates are bounded by its buffer or by when it was woken.".to_owned(),
            format!(
                "TCP_INFO: limited by the receive window for {} of the busy time{}",
                span(&shares, percent),
                clause(", SO_RCVBUF {}", &buffers, bytes)
            ),
            "a larger --socket-buffer, or auto; --placement with a CPU for the receiver alone",
        )
        },
    )
}
