//! The warm-up of a cell: by the clock, or until its connections have stopped growing.

use bytecost_engine::Mover;
use bytecost_spec::{Cell, Pattern};

use crate::passes::Passes;

/// Returns true if the connections of a cell may grow before a window by the clock, as those of TCP
/// streams do by its buffers.
pub(crate) fn may_grow(cell: &Cell) -> bool {
    let has_peer = Mover::named(&cell.mover).is_some_and(|m| m.has_peer());
    let streams = cell.transport.is_tcp() && cell.pattern == Pattern::Stream;
    has_peer && streams && Passes::new(cell).is_none()
}
