//! Windows that are a number of passes over a long message or a cold file, instead of a time.

use bytecost_engine::{Mover, Route};
use bytecost_spec::{Cache, Cell};

/// From this size on a message is long, in bytes: a few of them fill a window.
pub const LONG_BYTES: u64 = 4 << 20;
/// Passes before the window: the connection and its buffers have grown by then.
pub const WARMUP_PASSES: u64 = 1;
/// Bytes before the window of a mover whose program compiles itself: 16,384 turns through 4 KiB.
const WARMUP_BYTES: u64 = 64 << 20;
/// The most such passes.
const WARMUP_MOST: u64 = 100;
/// The slowest rate at which a pass is waited for, in bytes per second.
const SLOWEST_BYTES_PER_S: u64 = 20_000_000;

/// The passes of a cell's window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passes {
    /// Messages of a pass.
    pub messages: u64,
    /// Bytes of a pass of one flow.
    pub bytes: u64,
    /// Passes before the window.
    pub warmup: u64,
}

impl Passes {
    /// The passes of a cell; none where its window is one segment of time.
    pub fn new(cell: &Cell) -> Option<Passes> {
        // Both ends count passes.
        if !cell.transport.has_receiver() {
            return None;
        }
        let mover = Mover::named(&cell.mover)?;
        let is_cold = mover.route == Route::FileToSocket && cell.cache == Cache::Cold;
        let messages = match (mover.has_peer(), is_cold) {
            (true, true) => cell.ring_slots(),
            (true, false) if cell.size_bytes >= LONG_BYTES => 1,
            _ => return None,
        };
        let bytes = messages.saturating_mul(cell.size_bytes);
        let warmup = if mover.is_helped() {
            WARMUP_BYTES.div_ceil(bytes.max(1)).min(WARMUP_MOST)
        } else {
            WARMUP_PASSES
        };
        Some(Passes {
            messages,
            bytes,
            warmup,
        })
    }

    /// The longest time for a pass of all flows, in ns.
    pub fn most_ns(&self, flows: u32) -> u64 {
        let bytes = self.bytes.saturating_mul(u64::from(flows));
        (bytes / SLOWEST_BYTES_PER_S + 1).saturating_mul(1_000_000_000)
    }
}
