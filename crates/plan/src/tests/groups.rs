//! Compared cells are measured one after another, in an order that favours none of them.

use std::collections::BTreeMap;

use bytecost_spec::{Axis, Cell, Plan, Study};
use proptest::prelude::*;

use super::properties::{seeded, studies};
use super::{paying, plan};
use crate::order;

fn twinned(study: Study) -> Study {
    Study {
        twins: true,
        ..study
    }
}

/// The number of times that each number follows each other one, and is at each position, in so many blocks.
fn counted(cells: usize, blocks: u32) -> [BTreeMap<(usize, usize), u32>; 2] {
    let all: Vec<u32> = (0..cells as u32).collect();
    let mut counts = [const { BTreeMap::new() }; 2];
    for block in 0..blocks {
        let ordered = order::grouped(&[&all[..]], 7, block).into_iter();
        let order: Vec<usize> = ordered.map(|cell| cell as usize).collect();
        for two in order.windows(2) {
            *counts[0].entry((two[0], two[1])).or_default() += 1;
        }
        for pair in order.into_iter().enumerate() {
            *counts[1].entry(pair).or_default() += 1;
        }
    }
    counts
}

#[test]
fn each_cell_follows_each_other_one_and_is_at_each_position_equally_often() {
    for cells in 2..=12_usize {
        let rows = cells as u32 * (1 + cells as u32 % 2);
        for rounds in [1, 3] {
            let [follows, stands] = counted(cells, rounds * rows);
            let each = rounds * (1 + cells as u32 % 2);
            assert_eq!(follows.len(), cells * (cells - 1), "{cells}");
            assert!(follows.values().all(|n| *n == each), "{cells} {follows:?}");
            assert!(stands.len() == cells * cells, "{cells}");
            assert!(stands.values().all(|n| *n == each), "{cells} {stands:?}");
        }
        // A run that ends between two rounds is off by one of each at most.
        let [follows, _] = counted(cells, rows + rows / 2);
        let least = follows.values().min().unwrap();
        assert!(follows.values().all(|n| n - least <= 1 + cells as u32 % 2));
    }
}

// Invariant 7.
#[test]
fn the_order_of_groups_never_changes() {
    // Computed by a second implementation of the comments in `order`.
    let [a, b, c] = [&[0_u32][..], &[1, 2, 3, 7], &[4, 5, 6]];
    for (seed, block, expected) in [
        (1, 0, [2, 1, 7, 3, 5, 6, 4, 0]),
        (1, 5, [0, 7, 1, 3, 2, 4, 6, 5]),
        (2, 0, [5, 6, 4, 0, 3, 1, 2, 7]),
        (u64::MAX, u32::MAX, [1, 3, 7, 2, 0, 4, 6, 5]),
    ] {
        assert_eq!(order::grouped(&[a, b, c], seed, block), expected);
    }
}

#[test]
fn a_size_with_its_baseline_and_its_twin_is_one_group() {
    let plan = plan(&twinned(paying(3600)));
    for block in 0..4 {
        let order = plan.orders[block].iter();
        let cells: Vec<&Cell> = order.map(|&i| &plan.cells[i as usize]).collect();
        let name = |cell: &Cell| match cell.mover.as_str() {
            "null" => "null".to_owned(),
            _ if cell.twin => cell.other_twin().id_without(&[Axis::Mover]),
            _ => cell.id_without(&[Axis::Mover]),
        };
        let names: Vec<String> = (cells.chunk_by(|a, b| name(a) == name(b)))
            .map(|group| name(group[0]))
            .collect();
        let mut once = names.clone();
        once.sort();
        once.dedup();
        assert_eq!(once.len(), names.len(), "{names:?}");
    }
}

fn positions(plan: &Plan, block: usize) -> Vec<Vec<usize>> {
    let order = &plan.orders[block];
    let position = |cell: &u32| order.iter().position(|c| c == cell).unwrap();
    let of_group = |group: &Vec<u32>| {
        let mut positions: Vec<usize> = group.iter().map(position).collect();
        positions.sort_unstable();
        positions
    };
    plan.groups.iter().map(of_group).collect()
}

proptest! {
    #![proptest_config(seeded(100))]

    #[test]
    fn a_block_measures_each_cell_once_and_no_group_has_another_between(
        study in studies(), chosen in any::<prop::sample::Index>(),
    ) {
        let plan = plan(&twinned(study));
        let block = chosen.index(plan.orders.len());
        let mut all = plan.orders[block].clone();
        all.sort_unstable();
        prop_assert!(all.into_iter().eq(0..plan.cells.len() as u32));
        for positions in positions(&plan, block) {
            prop_assert_eq!(positions[positions.len() - 1] - positions[0] + 1, positions.len());
        }
        for (index, twin) in plan.cells.iter().enumerate().filter(|(_, c)| c.twin) {
            let group = plan.groups.iter().find(|g| g.contains(&(index as u32))).unwrap();
            prop_assert!(group.iter().any(|&i| plan.cells[i as usize] == twin.other_twin()));
        }
    }
}
