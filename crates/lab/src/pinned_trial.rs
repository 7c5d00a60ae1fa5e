//! What the settings of a trial's endpoints depend on.

use std::time::Duration;

use bytecost_plan::Pins;
use bytecost_spec::Cell;

/// A trial's cell with the CPUs of its threads and the length of its window.
#[derive(Clone, Copy)]
pub(crate) struct PinnedTrial<'t> {
    pub(crate) cell: &'t Cell,
    pub(crate) pins: &'t Pins,
    pub(crate) window: Duration,
}
