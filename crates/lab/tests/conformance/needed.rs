//! What works here is what a row says: where all is there that a mover needs, the survey must not
//! refuse it, and where something is not there, it must.

use bytecost_engine::Mover;
use bytecost_engine::statement::Requirement;
use bytecost_lab::survey::Helpers;
use bytecost_spec::survey::FileSurvey;
use bytecost_spec::{Cache, Survey, Transport};

use super::{is_root, machine};

/// File systems that are known to answer at once what they would have to wait for.
const NOWAIT: &[&str] = &["btrfs", "ext4", "xfs"];

/// Of what the survey found over each transport.
pub fn over_transports(survey: &Survey, helpers: &Helpers) {
    let had = |t: Transport| !t.is_made() || is_root();
    let mut all = Vec::new();
    for row in survey.movers.iter().filter(|row| had(row.transport)) {
        let is_there = |need: &Requirement| match need {
            Requirement::Stream => Some(row.transport.most_message_bytes().is_none()),
            Requirement::Tcp => Some(row.transport.is_tcp()),
            Requirement::Inet => Some(row.transport != Transport::Unix),
            Requirement::Receiver => Some(row.transport.has_receiver()),
            _ => Some(machine::has(need, || helpers.java_version().is_some()).unwrap_or(true)),
        };
        all.extend(wrong(
            &row.name,
            row.transport.name(),
            is_there,
            &row.refused,
        ));
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
}

/// Of what the survey found on files: those that are not cold, which they may not become.
pub fn on_files(found: &FileSurvey, helpers: &Helpers) {
    let had = |cache| match cache {
        Cache::Memory | Cache::Warm => true,
        Cache::Cold => false,
        Cache::Direct => found.direct_bytes.is_some(),
    };
    let mut all = Vec::new();
    for row in found.movers.iter().filter(|row| had(row.cache)) {
        let is_there = |need: &Requirement| match need {
            Requirement::PageCache => Some(row.cache != Cache::Direct),
            Requirement::Nowait => {
                let is_known = row.cache != Cache::Memory && NOWAIT.contains(&&*found.file_system);
                is_known.then_some(true)
            }
            _ => Some(machine::has(need, || helpers.java_version().is_some()).unwrap_or(true)),
        };
        all.extend(wrong(&row.name, row.cache.name(), is_there, &row.refused));
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
}

/// What is wrong with a refusal, or with its absence.
fn wrong(
    mover: &str,
    place: &str,
    is_there: impl Fn(&Requirement) -> Option<bool>,
    refused: &Option<String>,
) -> Option<String> {
    let needs = Mover::named(mover).map(|mover| mover.states.needs)?;
    let there: Option<Vec<bool>> = needs.iter().map(is_there).collect();
    let must_work = !there?.contains(&false);
    (must_work != refused.is_none()).then(|| {
        let should = if must_work { "must" } else { "must not" };
        format!("{mover}, {place}: its row needs {needs:?}, so it {should} work here: {refused:?}")
    })
}
