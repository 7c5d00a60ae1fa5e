//! Whether trials are steadier with pinned ends than with free ones, tried on this machine.

use std::sync::atomic::{AtomicBool, Ordering};

use bytecost_spec::survey::PlacementTrial;
use bytecost_spec::{Cell, Counter, Placement, Reading};

use crate::trial::Lab;

/// Trials of each cell with pinned ends, and as many with free ones.
const TRIALS: usize = 8;

impl Lab {
    /// Trials of cells whose ends are pinned, by turns as they are and left free; failed ones are
    /// left out.
    pub fn steadiness(&mut self, cells: &[Cell], stop: &AtomicBool) -> Vec<PlacementTrial> {
        let mut found = Vec::new();
        for turn in 0..2 * TRIALS {
            let pinned = matches!(turn % 4, 0 | 3);
            for cell in cells {
                if stop.load(Ordering::Relaxed) {
                    return found;
                }
                let mut cell = cell.clone();
                if !pinned {
                    cell.placement = Placement::Free;
                }
                let parts = self.attempt(&cell, None, stop).ok();
                let trial = parts.and_then(|parts| {
                    let sides = [&parts.sender, parts.receiver.as_ref()?];
                    let [sender, receiver] = sides.map(|side| {
                        let readings = &side.side.readings;
                        let read = |c| readings.get(&c).and_then(Reading::measured);
                        Some((read(Counter::CpuNs)?, read(Counter::Bytes)?))
                    });
                    let ((sent_ns, _), (taken_ns, bytes)) = sender.zip(receiver)?;
                    (bytes > 0 && sent_ns + taken_ns > 0).then_some(PlacementTrial {
                        pinned,
                        size_bytes: cell.size_bytes,
                        cpu_ns: sent_ns + taken_ns,
                        bytes,
                    })
                });
                found.extend(trial);
            }
        }
        found
    }
}
