//! The choice of trials for evidence, after the last block of a run.

use std::collections::BTreeMap;
use std::time::Duration;

use bytecost_spec::Cell;
use bytecost_spec::evidence::COUNTED_TRIALS;

/// Share of the time for counting that goes into cells whose counts are compared; each of the
/// others is counted once in the remaining time, as far as that goes.
const COMPARED_SHARE: f64 = 0.8;

/// Returns the numbers of the cells whose counts are compared: those of the first pairs of ids, in their
/// order, that fit into the time for counting if a trial takes so long.
pub fn compared_cells(
    cells: &[Cell],
    pairs: &[[String; 2]],
    time: Duration,
    trial: Duration,
) -> Vec<u32> {
    let cell_s = trial.as_secs_f64() * COUNTED_TRIALS as f64;
    let max_cells = (time.mul_f64(COMPARED_SHARE).as_secs_f64() / cell_s) as usize;
    let ids: Vec<String> = cells.iter().map(Cell::id).collect();
    let cell_number = |id: &String| ids.iter().position(|i| i == id).map(|i| i as u32);
    let mut compared: Vec<u32> = Vec::new();
    for pair in pairs {
        let new: Vec<u32> = pair
            .iter()
            .filter_map(cell_number)
            .filter(|cell| !compared.contains(cell))
            .collect();
        if compared.len() + new.len() <= max_cells {
            compared.extend(new);
        }
    }
    compared
}

/// A trial for evidence by its cell's number, and its number among the trials of that cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedEvidence {
    /// The number of the trial among those of its cell, from 0.
    pub round: u32,
    /// The number of the cell.
    pub cell: u32,
}

/// Returns the trials that are still to be made, where `made` is the number of trials that a cell has, or
/// none for one that gets no evidence: compared cells once in each round, in an order that is rotated by one
/// from round to round, and then all others once: one cell of each mover, then a second one of each, since
/// the time may run out.
pub fn evidence_left(
    cells: &[Cell],
    compared: &[u32],
    made: impl Fn(u32) -> Option<u32>,
) -> Vec<PlannedEvidence> {
    let mut order: Vec<u32> = compared.to_vec();
    order.retain(|cell| made(*cell).is_some());
    let mut left = Vec::new();
    for round in 0..COUNTED_TRIALS as u32 {
        let cells_left = order.iter().filter(|cell| made(**cell) <= Some(round));
        left.extend(cells_left.map(|cell| PlannedEvidence { round, cell: *cell }));
        let step = order.len().min(1);
        order.rotate_left(step);
    }
    let mut cells_of_mover: BTreeMap<&str, u32> = BTreeMap::new();
    let mut others: Vec<(u32, u32)> = (0..cells.len() as u32)
        .filter(|cell| !compared.contains(cell) && made(*cell) == Some(0))
        .map(|cell| {
            let nth_of_mover = cells_of_mover
                .entry(&cells[cell as usize].mover)
                .or_default();
            *nth_of_mover += 1;
            (*nth_of_mover, cell)
        })
        .collect();
    others.sort_unstable();
    left.extend(
        others
            .into_iter()
            .map(|(_, cell)| PlannedEvidence { round: 0, cell }),
    );
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(movers: &[&str]) -> Vec<Cell> {
        let cell = |(i, mover): (usize, &&str)| Cell {
            mover: (*mover).to_owned(),
            size_bytes: 1 << i,
            ..Cell::default()
        };
        movers.iter().enumerate().map(cell).collect()
    }

    #[test]
    fn pairs_are_compared_as_long_as_both_cells_fit() {
        let cells = cells(&["send", "sendmsg", "sendfile", "splice"]);
        let pair = |a: usize, b: usize| [cells[a].id(), cells[b].id()];
        let pairs = [pair(3, 0), pair(2, 1), pair(1, 0)];
        let second = Duration::from_secs(1);
        // Of 0.8 of the time each cell takes five trials.
        for (time_s, expected) in [
            (12, &[][..]),
            (13, &[3, 0]),
            (19, &[3, 0, 1]),
            (25, &[3, 0, 2, 1]),
        ] {
            let compared = compared_cells(&cells, &pairs, second * time_s, second);
            assert_eq!(compared, expected, "{time_s} s");
        }
    }

    #[test]
    fn compared_cells_rotate_and_the_others_come_mover_by_mover() {
        let cells = cells(&["send", "send", "sendfile", "splice", "send", "sendfile"]);
        let made = |cell: u32| match cell {
            1 => Some(4),
            3 => None,
            _ => Some(0),
        };
        let left = evidence_left(&cells, &[0, 1, 3], made);
        let left: Vec<(u32, u32)> = left.iter().map(|t| (t.round, t.cell)).collect();
        let compared = [(0, 0), (1, 0), (2, 0), (3, 0), (4, 0), (4, 1)];
        let others = [(0, 2), (0, 4), (0, 5)];
        assert_eq!(left, [&compared[..], &others].concat());
    }
}
