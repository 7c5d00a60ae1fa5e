//! Cells whose trials fall into two groups.

use bytecost_spec::Measure;
use itertools::Itertools as _;

use super::constructors::cells_caveat;
use crate::result::Caveat;
use crate::result::CaveatFact::Groups;
use crate::stages::Measured;

pub(super) fn near(run: &Measured<'_>) -> Option<Caveat> {
    groups(run, |_| true, false)
}

/// Groups of such measures that no one number stands for.
pub(super) fn far(run: &Measured<'_>, of: fn(Measure) -> bool) -> Option<Caveat> {
    groups(run, of, true)
}

/// The caveat of cells with two groups of trials in a compared metric of such measures.
fn groups(run: &Measured<'_>, of: fn(Measure) -> bool, far: bool) -> Option<Caveat> {
    let compares = run.input.manifest.study.compare.iter();
    let metrics = compares
        .flat_map(|c| c.metrics.iter().copied())
        .filter(|m| of(m.measure))
        .sorted_unstable()
        .dedup();
    let groups = metrics
        .flat_map(|metric| {
            run.cells.iter().filter_map(move |cell| {
                let mut groups = cell.two_groups.iter();
                let is_of_it = groups.any(|g| g.metric == metric && g.are_far_apart() == far);
                is_of_it.then_some((cell, metric))
            })
        })
        .collect_vec();
    let cells = groups.iter().map(|(cell, _)| cell.id.clone()).dedup();
    let parted = groups.iter().map(|(_, metric)| *metric).dedup();
    cells_caveat(cells.collect(), parted.map(Groups))
}
