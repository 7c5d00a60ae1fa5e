//! Cells whose trials fall into two groups.

use bytecost_spec::Measure;
use itertools::Itertools as _;

use super::{Caveat, caveat, in_cells};
use crate::grid;
use crate::phrases;
use crate::stages::Measured;

const MOST_SHOWN: usize = 3;

pub(super) fn near(run: &Measured<'_>) -> Option<Caveat> {
    groups(run, |_| true, false)
}

/// Groups of such measures that no one number stands for.
pub(super) fn far(run: &Measured<'_>, of: fn(Measure) -> bool) -> Option<Caveat> {
    groups(run, of, true)
}

/// Of the compared metrics of such measures.
fn groups(run: &Measured<'_>, of: fn(Measure) -> bool, far: bool) -> Option<Caveat> {
    let compares = run.input.manifest.study.compare.iter();
    let metrics = compares.flat_map(|c| c.metrics.iter().copied());
    let metrics = metrics.filter(|m| of(m.measure)).sorted_unstable().dedup();
    let groups = metrics.flat_map(|metric| {
        run.cells.iter().flat_map(move |cell| {
            let groups = cell.two_groups.iter();
            let groups = groups.filter(move |g| g.metric == metric && g.are_far_apart() == far);
            groups.map(move |groups| (cell, groups))
        })
    });
    let groups = groups.collect_vec();
    let cells = groups.iter().map(|(cell, _)| cell.id.clone()).dedup();
    let cells = cells.collect_vec();
    let varied = grid::varied(run.cells.iter().map(|c| &c.cell));
    let shown = groups.iter().take(MOST_SHOWN).map(|(cell, groups)| {
        let place = phrases::circumstances(&grid::coordinates(&cell.cell, &varied));
        let noun = run.words(groups.metric);
        format!("{place}, {noun}: {}", groups.in_words())
    });
    let more = groups.len().saturating_sub(MOST_SHOWN);
    let more = (more > 0).then(|| format!("{more} more"));
    let place = in_cells(cells.len());
    caveat(
        format!("The trials fall into two groups {place}. No single number stands for both."),
        shown.chain(more).join("; "),
        "`--placement pinned`, where it was free, so that each end stays on its CPU; samples.csv has the trials",
        cells,
    )
}
