//! What the tables say of movers, receivers and servers.

use bytecost_spec::Cache;

use super::{Caveat, caveat, ids};
use crate::phrases;
use crate::stages::Measured;
use crate::trials::CellTrials;

pub(super) fn mover(run: &Measured<'_>) -> Vec<Caveat> {
    let facts = &run.input.manifest.survey.mover_facts;
    let told = facts.iter().filter_map(|mover| {
        let caution = mover.caution.as_ref()?.trim_end_matches('.');
        let own = |c: &&CellTrials<'_>| {
            let is_spared = mover.caution_spares_direct && c.cell.cache == Cache::Direct;
            c.cell.mover == mover.name && !is_spared
        };
        let cells = ids(run.measured().filter(own));
        caveat(
            format!("`{}`: {caution}.", mover.name),
            format!("measured in {}", phrases::count(cells.len(), "cell")),
            "know it before you choose this mover; no setting removes it",
            cells,
        )
    });
    told.collect()
}

pub(super) fn server(run: &Measured<'_>) -> Vec<Caveat> {
    let serving = run.input.manifest.survey.serving.iter();
    let told = serving.flat_map(|s| &s.servers).filter_map(|server| {
        let own = |c: &&CellTrials<'_>| c.cell.serving.server.as_ref() == Some(&server.name);
        let caution = phrases::sentence(server.caution.as_ref()?);
        caveat(
            format!("`{}`: {caution}", server.name),
            "the table of servers",
            "choose another model where this matters",
            ids(run.measured().filter(own)),
        )
    });
    told.collect()
}

pub(super) fn untouched(run: &Measured<'_>) -> Vec<Caveat> {
    let facts = &run.input.manifest.survey.receiver_facts;
    let blind = facts.iter().filter(|r| !r.sees_content);
    let told = blind.filter_map(|receiver| {
        let own = |c: &&CellTrials<'_>| {
            c.cell.receiver == receiver.name && c.trials().any(|t| t.sample.receiver.is_some())
        };
        let cells = ids(run.moved().filter(own));
        let (name, all) = (&receiver.name, phrases::count(cells.len(), "cell"));
        caveat(
            format!(
                "`{name}` never touches what it got: the copy to the reader is not in these cells, and no program that uses its data can be so fast."
            ),
            format!("{all}; its bytes are counted, not compared"),
            "--receiver recv beside it",
            cells,
        )
    });
    told.collect()
}
