//! A receiver that does not touch what it got.

use super::{UnnamedCaveat, ids};
use crate::phrases;
use crate::trials::CellTrials;
use crate::view::View;

/// One for each receiver that cannot see the payload.
pub(super) fn detect(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let facts = &view.input.manifest.survey.receiver_facts;
    let blind = facts.iter().filter(|r| !r.sees_content);
    let told = blind.filter_map(|receiver| {
        let own = |c: &&CellTrials<'_>| {
            c.cell.receiver == receiver.name && c.trials().any(|t| t.sample.receiver.is_some())
        };
        let cells: Vec<&CellTrials<'_>> = view.moved().filter(own).collect();
        (!cells.is_empty()).then(|| UnnamedCaveat {
            text: format!(
                "`{}` never touches what it got: the copy to the reader is not in these cells, and no program that uses its data can be so fast.",
                receiver.name
            ),
            evidence: format!(
                "{}; its bytes are counted, not compared",
                phrases::count(cells.len(), "cell")
            ),
            remedy: "--receiver recv beside it".to_owned(),
            cells: ids(cells),
        })
    });
    told.collect()
}
