//! Whether trials are steadier with pinned ends than with free ones, tried on this machine.

use std::sync::atomic::{AtomicBool, Ordering};

use bytecost_spec::survey::PlacementTrial;
use bytecost_spec::{Cell, Counter, Placement};

use crate::counters_cost::{of_sides, turns};
use crate::trial::Lab;

/// Trials of each cell with pinned ends, and as many with free ones.
const TRIALS: usize = 8;

impl Lab {
    /// Trials of cells whose ends are pinned, by turns as they are and left free; failed ones are
    /// left out.
    pub fn steadiness(&mut self, cells: &[Cell], stop: &AtomicBool) -> Vec<PlacementTrial> {
        let mut found = Vec::new();
        for pinned in turns(TRIALS) {
            for (place, cell) in (0..).zip(cells) {
                if stop.load(Ordering::Relaxed) {
                    return found;
                }
                let mut cell = cell.clone();
                if !pinned {
                    cell.placement = Placement::Free;
                }
                let parts = self.attempt(&cell, None, stop).ok();
                let trial = parts.and_then(|parts| {
                    let [_, bytes] = of_sides(&parts, Counter::Bytes)?;
                    let cpu_ns = of_sides(&parts, Counter::CpuNs)?.iter().sum();
                    (bytes > 0 && cpu_ns > 0).then_some(PlacementTrial {
                        pinned,
                        place,
                        size_bytes: cell.size_bytes,
                        cpu_ns,
                        bytes,
                    })
                });
                found.extend(trial);
            }
        }
        found
    }
}
