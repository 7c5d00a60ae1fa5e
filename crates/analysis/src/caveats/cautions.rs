//! What the tables say of movers, receivers and servers.

use bytecost_spec::Cache;

use super::{UnnamedCaveat, caveat, ids};
use crate::phrases;
use crate::trials::CellTrials;
use crate::view::View;

pub(super) fn mover(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let facts = &view.input.manifest.survey.mover_facts;
    let told = facts.iter().filter_map(|mover| {
        let caution = mover.caution.as_ref()?;
        let own = |c: &&CellTrials<'_>| {
            let is_spared = mover.caution_spares_direct && c.cell.cache == Cache::Direct;
            c.cell.mover == mover.name && !is_spared
        };
        let cells = ids(view.measured().filter(own));
        caveat(
            format!("`{}`: {}.", mover.name, caution.trim_end_matches('.')),
            format!("measured in {}", phrases::count(cells.len(), "cell")),
            "know it before you choose this mover; no setting removes it",
            cells,
        )
    });
    told.collect()
}

pub(super) fn server(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let facts = view
        .input
        .manifest
        .survey
        .serving
        .iter()
        .flat_map(|s| &s.servers);
    let told = facts.filter_map(|server| {
        let own = |c: &&CellTrials<'_>| c.cell.serving.server.as_ref() == Some(&server.name);
        caveat(
            format!(
                "`{}`: {}",
                server.name,
                phrases::sentence(server.caution.as_ref()?)
            ),
            "the table of servers",
            "choose another model where this matters",
            ids(view.measured().filter(own)),
        )
    });
    told.collect()
}

/// One for each receiver that cannot see the payload.
pub(super) fn untouched(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let facts = &view.input.manifest.survey.receiver_facts;
    let blind = facts.iter().filter(|r| !r.sees_content);
    let told = blind.filter_map(|receiver| {
        let own = |c: &&CellTrials<'_>| {
            c.cell.receiver == receiver.name && c.trials().any(|t| t.sample.receiver.is_some())
        };
        let cells = ids(view.moved().filter(own));
        caveat(
            format!(
                "`{}` never touches what it got: the copy to the reader is not in these cells, and no program that uses its data can be so fast.",
                receiver.name
            ),
            format!(
                "{}; its bytes are counted, not compared",
                phrases::count(cells.len(), "cell")
            ),
            "--receiver recv beside it",
            cells,
        )
    });
    told.collect()
}
