//! The lengths of the cells' windows: longer where a flow moved nothing in one.

use std::collections::BTreeMap;
use std::time::Duration;

use bytecost_spec::Cell;

/// The factor by which windows become longer when a flow moved nothing in one, and the largest multiple.
const LONGER: u32 = 4;
const LONGEST: u32 = 64;

/// The windows of cells, as multiples of the usual length.
#[derive(Debug, Default)]
pub(crate) struct WindowLengths {
    /// The multiples that are not 1, by the id of the cell.
    multiples: BTreeMap<String, u32>,
    is_fixed: bool,
}

impl WindowLengths {
    /// The multiples that are not 1, by the id of their cell.
    pub(crate) fn multiples(&self) -> &BTreeMap<String, u32> {
        &self.multiples
    }

    /// Uses the multiples of an earlier block.
    pub(crate) fn resume(&mut self, multiples: &BTreeMap<String, u32>) {
        self.multiples.clone_from(multiples);
    }

    /// Sets if all lengths stay as they are.
    pub(crate) fn fix(&mut self, is_fixed: bool) {
        self.is_fixed = is_fixed;
    }

    /// The window of a cell, by the usual length of windows.
    pub(crate) fn window(&self, cell: &Cell, usual: Duration) -> Duration {
        usual * self.multiple(cell)
    }

    /// Returns true if the windows of a cell cannot become longer.
    pub(crate) fn is_longest(&self, cell: &Cell) -> bool {
        self.is_fixed || self.multiple(cell) * LONGER > LONGEST
    }

    /// Makes the windows of a cell and its twin longer, unless they are as long as they may be.
    pub(crate) fn lengthen(&mut self, cell: &Cell) {
        if self.is_longest(cell) {
            return;
        }
        let multiple = self.multiple(cell) * LONGER;
        for twin in [cell.clone(), cell.other_twin()] {
            self.multiples.insert(twin.id(), multiple);
        }
    }

    fn multiple(&self, cell: &Cell) -> u32 {
        self.multiples.get(&cell.id()).copied().unwrap_or(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_become_longer_up_to_a_bound_with_those_of_the_twin() {
        let mut lengths = WindowLengths::default();
        let cell = Cell::default();
        let other = Cell {
            size_bytes: 7,
            ..Cell::default()
        };
        let usual = Duration::from_millis(50);
        for multiple in [1, 4, 16, 64, 64] {
            for twin in [&cell, &cell.other_twin()] {
                assert_eq!(lengths.window(twin, usual), multiple * usual);
            }
            assert_eq!(lengths.is_longest(&cell), multiple == 64);
            lengths.lengthen(&cell);
        }
        assert_eq!(lengths.window(&other, usual), usual);
        lengths.fix(true);
        lengths.lengthen(&other);
        assert_eq!(lengths.window(&other, usual), usual);
        let mut resumed = WindowLengths::default();
        resumed.resume(lengths.multiples());
        assert_eq!(resumed.window(&cell, usual), 64 * usual);
    }
}
