//! Cautions that the tables of movers, receivers and servers have.

use bytecost_spec::Cache;

use super::constructors::{cells_caveat, ids};
use crate::result::Caveat;
use crate::result::CaveatFact::Reason;
use crate::stages::Measured;
use crate::trials::CellTrials;

pub(super) fn mover(run: &Measured<'_>) -> Vec<Caveat> {
    let facts = run.input.manifest.survey.mover_facts.iter();
    let caveats = facts.filter_map(|mover| {
        let own = |c: &&CellTrials<'_>| {
            let is_spared = mover.caution_spares_direct && c.cell.cache == Cache::Direct;
            c.cell.mover == mover.name && !is_spared
        };
        let caution = Reason(mover.caution.clone()?);
        let cells = ids(run.trials.measured().filter(own));
        Some(cells_caveat(cells, [caution])?.about(&mover.name))
    });
    caveats.collect()
}

pub(super) fn server(run: &Measured<'_>) -> Vec<Caveat> {
    let serving = run.input.manifest.survey.serving.iter();
    let caveats = serving.flat_map(|s| &s.servers).filter_map(|server| {
        let own = |c: &&CellTrials<'_>| c.cell.serving.server.as_ref() == Some(&server.name);
        let caution = Reason(server.caution.clone()?);
        let cells = ids(run.trials.measured().filter(own));
        Some(cells_caveat(cells, [caution])?.about(&server.name))
    });
    caveats.collect()
}

pub(super) fn untouched(run: &Measured<'_>) -> Vec<Caveat> {
    let facts = &run.input.manifest.survey.receiver_facts;
    let blind = facts.iter().filter(|r| !r.sees_content);
    let caveats = blind.filter_map(|receiver| {
        let own = |c: &&CellTrials<'_>| {
            c.cell.receiver == receiver.name && c.trials().any(|t| t.sample.receiver.is_some())
        };
        let cells = ids(run.trials.moved().filter(own));
        Some(cells_caveat(cells, [])?.about(&receiver.name))
    });
    caveats.collect()
}
