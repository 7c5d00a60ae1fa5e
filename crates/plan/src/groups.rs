//! Groups of cells that are compared, which a block measures one after another.

use bytecost_spec::{Cell, Study};

use crate::candidates::{Candidate, PlanContext, baselines};

/// The groups by the cells' indices: a baseline of the first comparison with its twin and the cells that
/// are compared with it. Other cells are grouped by the first comparison that has them, or by themselves.
pub(crate) fn groups(cells: &[Cell], study: &Study, context: &PlanContext<'_>) -> Vec<Vec<u32>> {
    let plain: Vec<usize> = (0..cells.len()).filter(|&i| !cells[i].twin).collect();
    let candidates: Vec<Candidate> = (plain.iter())
        .map(|&i| Candidate {
            tier: 0,
            cell: cells[i].clone(),
        })
        .collect();
    // The number of a group is the index of its first baseline.
    let mut group: Vec<Option<usize>> = vec![None; cells.len()];
    for baseline_of in baselines(&candidates, study, context) {
        for (&cell, baseline) in plain.iter().zip(baseline_of) {
            let (None, Some(baseline)) = (group[cell], baseline.map(|b| plain[b])) else {
                continue;
            };
            let number = *group[baseline].get_or_insert(baseline);
            group[cell] = Some(number);
        }
    }
    let baseline_of = |twin: &Cell| cells.iter().position(|cell| *cell == twin.other_twin());
    gathered((0..cells.len()).map(|i| {
        let index = if cells[i].twin {
            baseline_of(&cells[i]).unwrap_or(i)
        } else {
            i
        };
        group[index].unwrap_or(index)
    }))
}

/// The indices grouped by number, in the order in which the numbers appear.
fn gathered(numbers: impl Iterator<Item = usize>) -> Vec<Vec<u32>> {
    let mut groups: Vec<(usize, Vec<u32>)> = Vec::new();
    for (index, number) in (0..).zip(numbers) {
        match groups.iter_mut().find(|(known, _)| *known == number) {
            Some((_, group)) => group.push(index),
            None => groups.push((number, vec![index])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}
