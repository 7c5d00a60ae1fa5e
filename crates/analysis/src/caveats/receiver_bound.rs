//! A receiver that is busy throughout while the sender waits for it.

use bytecost_spec::{Measure, Metric, Pattern, Side};

use super::{UnnamedCaveat, of_cells, span};
use crate::phrases::percent;
use crate::trials::CellTrials;
use crate::view::View;

/// Share of its time from which the receiver is busy throughout.
const BUSY: f64 = 0.9;
/// Share of its time up to which the sender has time left.
const IDLE: f64 = 0.75;

/// How busy the CPUs of both sides are, as shares of one thread's time: the sender's and the
/// receiver's.
fn busy(cell: &CellTrials<'_>) -> Option<(f64, f64)> {
    let of = |side| {
        let metric = Metric {
            measure: Measure::CpuUtilization,
            side,
        };
        Some(cell.typical(|t| t.value(metric).known())? / f64::from(cell.cell.threads.max(1)))
    };
    Some((of(Side::Sender)?, of(Side::Receiver)?))
}

/// Whether the receiver has no time left.
pub(super) fn is_busy(cell: &CellTrials<'_>) -> bool {
    busy(cell).is_some_and(|(_, receiver)| receiver >= BUSY)
}

pub(super) fn detect(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let streams = |c: &&CellTrials<'_>| c.cell.pattern == Pattern::Stream;
    let shows = |cell: &CellTrials<'_>| {
        let (sender, receiver) = busy(cell)?;
        (receiver >= BUSY && sender <= IDLE).then_some([Some(receiver), Some(sender)])
    };
    of_cells(
        view.moved().filter(streams),
        shows,
        |_, [receivers, senders]| {
            (
            "The receiver was busy throughout while the sender waited: these rates are the receiver's, and say little of the movers.".to_owned(),
            format!(
                "CPU time over elapsed time: receiver {}, sender {}",
                span(&receivers, percent),
                span(&senders, percent)
            ),
            "compare the sender's CPU time per byte; a cheaper receiver, or --transport wire, which has none, shows what the sender can do",
        )
        },
    )
}
