//! A run that was resumed under other conditions: each block is of one leg.

use std::collections::BTreeMap;

use bytecost_spec::Manifest;

use super::{UnnamedCaveat, ids};
use crate::trials::CellTrials;
use crate::value::Trial;
use crate::view::View;

/// The trials of a cell by leg, in the order of blocks: what is looked for over time is looked for
/// within each.
pub(super) fn by_leg<'t, 'a>(
    manifest: &Manifest,
    cell: &'t CellTrials<'a>,
) -> BTreeMap<usize, Vec<&'t Trial<'a>>> {
    let mut legs: BTreeMap<usize, Vec<&Trial<'a>>> = BTreeMap::new();
    for (block, trial) in &cell.by_block {
        legs.entry(manifest.leg_of(*block)).or_default().push(trial);
    }
    legs
}

pub(super) fn detect(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let manifest = view.input.manifest;
    let later = |c: &&CellTrials<'_>| by_leg(manifest, c).keys().any(|leg| *leg > 0);
    let cells: Vec<&CellTrials<'_>> = view.trials.cells.iter().filter(later).collect();
    if cells.is_empty() {
        return Vec::new();
    }
    let of_leg = |(i, leg): (usize, &bytecost_spec::manifest::Leg)| {
        let differences: Vec<String> = (leg.differences.iter())
            .map(|d| format!("{} was {}, is {}", d.what, d.was, d.is))
            .collect();
        format!(
            "leg {} from block {}: {}",
            i + 2,
            leg.first_block,
            differences.join("; ")
        )
    };
    let legs: Vec<String> = manifest.legs.iter().enumerate().map(of_leg).collect();
    let text = "The run was resumed under other conditions, and has more than one leg. Comparisons are paired within blocks, and each block is of one leg; an interval includes what the legs differ by. Values of single cells mix the legs.";
    vec![UnnamedCaveat {
        text: text.to_owned(),
        evidence: legs.join(". "),
        remedy: "run the study again without --resume".to_owned(),
        cells: ids(cells),
    }]
}
