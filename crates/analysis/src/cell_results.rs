//! The results of cells, by their timed trials and by those for evidence.

use itertools::{Either, Itertools as _};

use crate::ceiling::cell_share;
use crate::cells::CellEstimates;
use crate::copies::copy_metrics;
use crate::input::Input;
use crate::regimes::groups_by_cell;
use crate::result::{CellCopies, CellResult, TwoGroups};
use crate::trials::Trials;

/// The result of every cell of the plan.
pub(crate) fn all(
    input: &Input<'_>,
    trials: &Trials<'_>,
    timed: Vec<CellEstimates<'_>>,
    copies: &[CellCopies],
) -> Vec<CellResult> {
    let mut groups = groups_by_cell(trials);
    timed
        .into_iter()
        .map(|timed| {
            let two_groups = groups.remove(&timed.cell.id).unwrap_or_default();
            result(input, trials, timed, copies, two_groups)
        })
        .collect()
}

/// The result of a cell. Groups of trials that lie far apart have no estimate.
fn result(
    input: &Input<'_>,
    trials: &Trials<'_>,
    timed: CellEstimates<'_>,
    copies: &[CellCopies],
    two_groups: Vec<TwoGroups>,
) -> CellResult {
    let ceiling = cell_share(input, trials, &timed);
    let CellEstimates {
        cell,
        estimates,
        absent,
    } = timed;
    let of_copies = copy_metrics(input, cell, copies).into_iter();
    let (counted, uncounted): (Vec<_>, Vec<_>) =
        of_copies.partition_map(|(metric, found)| match found {
            Ok(estimate) => Either::Left((metric, estimate)),
            Err(why) => Either::Right((metric, why)),
        });
    let is_apart = |metric| {
        let mut own = two_groups.iter();
        own.any(|g| g.metric == metric && g.are_far_apart())
    };
    let truth = cell.trials().last().and_then(|t| t.sample.truth.as_ref());
    CellResult {
        id: cell.id.clone(),
        cell: cell.cell.clone(),
        trials: cell.by_block.len(),
        failed: cell.failures.len(),
        estimates: estimates
            .into_iter()
            .chain(counted)
            .filter(|(metric, _)| !is_apart(*metric))
            .collect(),
        absent: absent.into_iter().chain(uncounted).collect(),
        checked: truth.map(|t| t.checked.clone()),
        ceiling,
        stood_still: cell.stood_still(),
        two_groups,
    }
}
