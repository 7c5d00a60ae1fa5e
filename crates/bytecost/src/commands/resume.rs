//! Resuming a run: in its last leg, or, if machine, boot or build changed, in a new one.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use bytecost_lab::files::Files;
use bytecost_lab::peer::PeerLink;
use bytecost_lab::program::own_build;
use bytecost_spec::manifest::{Difference, Leg, Measurer};
use bytecost_spec::survey::FileSurvey;
use bytecost_spec::{Host, Plan, Study};
use bytecost_store::{Root, Run};
use bytecost_sys::regular_file;
use itertools::Itertools as _;
use rustix::fs::OFlags;

use crate::args::RunArgs;
use crate::failure::bad_input;
use crate::{known, machine};

/// Number of differences that a refusal names; the leg has all of them.
const MAX_NAMED: usize = 4;

/// A run whose manifest is written and whose files are made: all that measuring needs.
pub(super) struct ReadyRun {
    pub run: Run,
    pub plan: Plan,
    /// The study with the limits of the command line.
    pub study: Study,
    pub files: Files,
}

/// Refuses options that would change the cells of a run that is resumed.
pub(super) fn check_only_limits(args: &RunArgs) -> Result<()> {
    if !args.axes.0.is_empty()
        || args.as_published
        || args.seed.is_some()
        || args.window.is_some()
        || args.warmup.is_some()
        || args.dir.is_some()
        || args.file.is_some()
        || !args.evidence.is_empty()
        || args.rounds.is_some()
    {
        return Err(bad_input(
            "--resume continues the cells of the run: only --budget, --precision, --blocks, --repeats and --anyway may be given with it, and the --peer of the run with its options",
        ));
    }
    Ok(())
}

/// Replaces the limits of a study by those that the command line names.
pub(super) fn set_limits(study: &mut Study, args: &RunArgs) {
    let ms_or = |time: Option<Duration>, default_ms: u64| {
        time.map_or(default_ms, |t| {
            u64::try_from(t.as_millis()).unwrap_or(u64::MAX)
        })
    };
    study.budget_ms = ms_or(args.budget, study.budget_ms);
    study.window_ms = ms_or(args.window, study.window_ms);
    study.warmup_ms = ms_or(args.warmup, study.warmup_ms);
    study.precision = args.precision.unwrap_or(study.precision);
    study.repeats_most = args.repeats.unwrap_or(study.repeats_most);
    if let Some(blocks) = args.blocks {
        study.blocks_most = blocks;
        study.blocks_least = study.blocks_least.min(blocks);
    }
}

/// Opens a run to continue it by its own plan, with the time and precision of the command line.
///
/// # Errors
/// Differences of machine, boot or build without `--anyway`.
pub(super) fn resumed(
    root: &Root,
    name: &str,
    args: &RunArgs,
    peer: Option<&PeerLink>,
) -> Result<ReadyRun> {
    let mut run = root.open_to_change(name)?;
    let mut study = run.manifest().study.clone();
    set_limits(&mut study, args);
    study.check(&known::tables()).map_err(bad_input)?;
    let mut plan = run.manifest().plan.clone();
    let (host, build) = (machine::host().0, own_build()?);
    let here = Measurer {
        version: env!("CARGO_PKG_VERSION"),
        build: Some(&build),
        host: &host,
    };
    let before = run.manifest().measurer();
    let mut differences = before.differences(&here);
    if let Some(link) = peer {
        differences.extend(super::peer::differences(run.manifest(), link.host()));
    }
    if !before.is_known() && !args.measuring.quiet {
        super::note(format!(
            "run {name} has no record of its boot and its build of bytecost: a change of these cannot be detected"
        ));
    }
    if !differences.is_empty() && !args.measuring.anyway {
        return Err(bad_input(refusal(name, &differences)));
    }
    let new_leg = if differences.is_empty() {
        None
    } else {
        Some(leg(&run, &study, build, host, differences)?)
    };
    let last_leg = new_leg.as_ref().or(run.manifest().legs.last());
    let leg_first_block = last_leg.map_or(0, |leg| leg.first_block);
    bytecost_plan::order_blocks(&mut plan, &study, run.manifest().seed, leg_first_block);
    let files = files_ready(&plan, run.manifest().survey.files.as_ref())?;
    run.resume()?;
    run.plan_more(plan.clone())?;
    new_leg.map_or(Ok(()), |leg| run.begin_leg(leg))?;
    Ok(ReadyRun {
        run,
        plan,
        study,
        files,
    })
}

/// Makes the files of a plan. This comes before the run is created or changed, so that an error
/// leaves nothing of a new run, and an existing one as it is.
pub(super) fn files_ready(plan: &Plan, found: Option<&FileSurvey>) -> Result<Files> {
    let Some(found) = found else {
        return Ok(Files::default());
    };
    let user_file = found.user_file.as_ref().map(PathBuf::from);
    if let Some(path) = &user_file {
        regular_file::open(path, OFlags::RDONLY)
            .map_err(|why| bad_input(format!("{}: {why}", path.display())))?;
    }
    let mut files = Files::new(PathBuf::from(&found.dir), user_file);
    files.check_room(&plan.cells).map_err(bad_input)?;
    for cell in &plan.cells {
        files.prepare(cell).map_err(bad_input)?;
    }
    Ok(files)
}

/// The leg that begins behind the last block of the run.
fn leg(
    run: &Run,
    study: &Study,
    build: String,
    host: Host,
    differences: Vec<Difference>,
) -> Result<Leg> {
    let begun = run.blocks_begun()?.unwrap_or(0);
    let earlier = run.manifest().legs.last().map_or(0, |l| l.first_block);
    let first_block = begun.max(earlier);
    if first_block >= study.blocks_most {
        return Err(bad_input(format!(
            "a second leg needs new blocks, and {first_block} of {} have begun: raise --blocks",
            study.blocks_most
        )));
    }
    Ok(Leg {
        first_block,
        started: machine::now()?,
        bytecost_version: env!("CARGO_PKG_VERSION").to_owned(),
        build_id: Some(build),
        host,
        differences,
    })
}

fn refusal(name: &str, differences: &[Difference]) -> String {
    let more = differences.len().saturating_sub(MAX_NAMED);
    let reasons = differences
        .iter()
        .take(MAX_NAMED)
        .map(|d| format!("{} was {}, is {}", d.what, d.was, d.is))
        .chain((more > 0).then(|| format!("and {more} more")))
        .join("; ");
    format!(
        "run {name} was measured under other conditions: {reasons}: start a new run, or add --anyway to continue with new blocks as a second leg"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_first_differences_in_one_line() {
        let refusal_of = |n: usize| {
            let difference = |i| Difference {
                what: format!("fact {i}"),
                was: "a".to_owned(),
                is: "b".to_owned(),
            };
            refusal("r", &(0..n).map(difference).collect_vec())
        };
        assert!(refusal_of(2).contains("fact 0 was a, is b; fact 1 was a, is b: start"));
        let six = refusal_of(6);
        assert!(six.contains("and 2 more") && !six.contains("fact 4"));
        assert!(six.contains("--anyway") && six.lines().count() == 1);
    }
}
