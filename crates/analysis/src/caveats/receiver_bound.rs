//! A receiver that is busy throughout while the sender waits for it.

use bytecost_spec::{Measure, Metric, Pattern, Side};

use super::{UnnamedCaveat, span};
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
    let (mut cells, mut senders, mut receivers) = (Vec::new(), Vec::new(), Vec::new());
    let streams = |c: &&CellTrials<'_>| c.cell.pattern == Pattern::Stream;
    for cell in view.moved().filter(streams) {
        let Some((sender, receiver)) = busy(cell) else {
            continue;
        };
        if receiver >= BUSY && sender <= IDLE {
            cells.push(cell.id.clone());
            senders.push(sender);
            receivers.push(receiver);
        }
    }
    if cells.is_empty() {
        return Vec::new();
    }
    vec![UnnamedCaveat {
        text: "The receiver was busy throughout while the sender waited: these rates are the receiver's, and say little of the movers.".to_owned(),
        evidence: format!(
            "CPU time over elapsed time: receiver {}, sender {}",
            span(&receivers, percent),
            span(&senders, percent)
        ),
        remedy: "compare the sender's CPU time per byte; a cheaper receiver, or --transport wire, which has none, shows what the sender can do".to_owned(),
        cells,
    }]
}
