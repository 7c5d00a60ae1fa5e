//! A row is right: the survey refuses a mover where something that it needs is not there, and
//! nowhere else.

use bytecost_engine::Mover;
use bytecost_engine::statement::Requirement;
use bytecost_lab::helpers::Helpers;
use bytecost_spec::survey::FileSurvey;
use bytecost_spec::{Cache, Survey, Transport};

use super::{is_root, machine};

/// File systems that are known to answer at once what they would have to wait for.
const NOWAIT: &[&str] = &["btrfs", "ext4", "xfs"];

/// Of what the survey found over each transport.
pub fn over_transports(survey: &Survey, helpers: &Helpers) {
    let had = |t: Transport| !t.is_made() || is_root();
    let rows = survey.movers.iter().filter(|row| had(row.transport));
    let wrong = rows.filter_map(|row| {
        let is_there = |need: &Requirement| match need {
            Requirement::Tcp => Some(row.transport.is_tcp()),
            Requirement::Receiver => Some(row.transport.has_receiver()),
            need => has(need, helpers),
        };
        wrong(&row.name, row.transport.name(), is_there, &row.refused)
    });
    none(wrong.collect());
}

/// Of what the survey found on files: those that are not cold, which they may not become.
pub fn on_files(found: &FileSurvey, helpers: &Helpers) {
    let had = |cache| match cache {
        Cache::Memory | Cache::Warm => true,
        Cache::Cold => false,
        Cache::Direct => found.direct_bytes.is_some(),
    };
    let rows = found.movers.iter().filter(|row| had(row.cache));
    let is_known = |cache| cache != Cache::Memory && NOWAIT.contains(&&*found.file_system);
    let wrong = rows.filter_map(|row| {
        let is_there = |need: &Requirement| match need {
            Requirement::PageCache => Some(row.cache != Cache::Direct),
            Requirement::Nowait => is_known(row.cache).then_some(true),
            need => has(need, helpers),
        };
        wrong(&row.name, row.cache.name(), is_there, &row.refused)
    });
    none(wrong.collect());
}

fn has(need: &Requirement, helpers: &Helpers) -> Option<bool> {
    let found = machine::has(need, || helpers.java_version().is_some());
    Some(found.unwrap_or(true))
}

fn none(wrong: Vec<String>) {
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The error of a refusal, or of its absence.
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
