//! Groups: cells that are compared, which a block measures one after another.

use bytecost_spec::{Cell, Study};

use crate::candidates::{Candidate, Norm, baselines};

/// By places: what the first comparison of the study compares with one baseline, that baseline and
/// its twin; other cells go by the first other comparison that has them, or else alone.
pub(crate) fn groups(cells: &[Cell], study: &Study, norm: &Norm<'_>) -> Vec<Vec<u32>> {
    let plain: Vec<usize> = (0..cells.len()).filter(|&i| !cells[i].twin).collect();
    let candidate = |&i: &usize| Candidate {
        tier: 0,
        cell: cells[i].clone(),
    };
    let candidates: Vec<Candidate> = plain.iter().map(candidate).collect();
    let mut group: Vec<Option<usize>> = vec![None; cells.len()];
    for of in baselines(&candidates, study, norm) {
        for (&cell, baseline) in plain.iter().zip(of) {
            let (None, Some(baseline)) = (group[cell], baseline.map(|b| plain[b])) else {
                continue;
            };
            // Named for the first of it: a baseline that is in no group begins one.
            let of_baseline = *group[baseline].get_or_insert(baseline);
            group[cell] = Some(of_baseline);
        }
    }
    let baseline_of = |twin: &Cell| cells.iter().position(|cell| *cell == twin.other_twin());
    gathered((0..cells.len()).map(|i| {
        let of = match cells[i].twin {
            true => baseline_of(&cells[i]).unwrap_or(i),
            false => i,
        };
        group[of].unwrap_or(of)
    }))
}

/// In the order in which the names appear.
fn gathered<K: PartialEq>(names: impl Iterator<Item = K>) -> Vec<Vec<u32>> {
    let mut groups: Vec<(K, Vec<u32>)> = Vec::new();
    for (place, name) in (0..).zip(names) {
        match groups.iter_mut().find(|(of, _)| *of == name) {
            Some((_, group)) => group.push(place),
            None => groups.push((name, vec![place])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}
