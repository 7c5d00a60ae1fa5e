//! A run that is resumed: as it was, or, where machine, boot or build changed, as a new leg.

use std::io::{self, Write};
use std::time::Duration;

use anyhow::Result;
use bytecost_lab::peer::PeerLink;
use bytecost_plan::Plan;
use bytecost_spec::manifest::{Difference, Leg, Measurer};
use bytecost_spec::{Host, Record, Study};
use bytecost_store::{Root, Run};

use crate::args::RunArgs;
use crate::failure::bad_input;
use crate::{known, machine};

/// Differences that a refusal names; all are in the leg.
const MOST_NAMED: usize = 4;

/// That nothing is asked of a run that is resumed but more time or precision.
pub(super) fn only_limits(args: &RunArgs) -> Result<()> {
    if !args.axes.0.is_empty()
        || args.as_published
        || args.seed.is_some()
        || args.window.is_some()
        || args.warmup.is_some()
        || args.dir.is_some()
        || args.file.is_some()
        || !args.evidence.is_empty()
        || args.peer.peer.is_some()
    {
        return Err(bad_input(
            "--resume continues the cells of the run: only --budget, --precision, --blocks, --repeats and --anyway may be given with it",
        ));
    }
    Ok(())
}

/// Sets what the command line gives of time and precision.
pub(super) fn set_limits(study: &mut Study, args: &RunArgs) {
    let millis = |d: Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
    if let Some(budget) = args.budget {
        study.budget_ms = millis(budget);
    }
    if let Some(window) = args.window {
        study.window_ms = millis(window);
    }
    if let Some(warmup) = args.warmup {
        study.warmup_ms = millis(warmup);
    }
    if let Some(precision) = args.precision {
        study.precision = precision;
    }
    if let Some(blocks) = args.blocks {
        study.blocks_most = blocks;
        study.blocks_least = study.blocks_least.min(blocks);
    }
    if let Some(repeats) = args.repeats {
        study.repeats_most = repeats;
    }
}

/// A run that is there already: its own plan, with the time and precision of the command line.
/// `build` is that of this program.
pub(super) fn resumed(
    root: &Root,
    name: &str,
    args: &RunArgs,
    build: &str,
    peer: Option<&PeerLink>,
) -> Result<(Run, Plan, Study)> {
    let mut run = root.open(name)?;
    let plan = Plan::from_manifest(run.manifest()).map_err(bad_input)?;
    let mut study = run.manifest().study.clone();
    set_limits(&mut study, args);
    known::check(&study).map_err(bad_input)?;
    let host = machine::host().0;
    let here = Measurer {
        version: env!("CARGO_PKG_VERSION"),
        build: Some(build),
        host: &host,
    };
    let before = run.manifest().measurer();
    let mut differences = before.differences(&here);
    if let Some(link) = peer {
        differences.extend(super::peer::differences(run.manifest(), link.host()));
    }
    if !before.is_known() && !args.quiet {
        writeln!(
            io::stderr(),
            "note: run {name} has no record of its boot and its build of bytecost: a change of these cannot be detected"
        )?;
    }
    if !differences.is_empty() && !args.anyway {
        return Err(bad_input(refusal(name, &differences)));
    }
    let leg = match differences.is_empty() {
        true => None,
        false => Some(leg(&run, &study, build, host, differences)?),
    };
    run.resume()?;
    leg.map_or(Ok(()), |leg| run.begin_leg(leg))?;
    Ok((run, plan, study))
}

/// The leg that begins behind the last block of the run.
fn leg(
    run: &Run,
    study: &Study,
    build: &str,
    host: Host,
    differences: Vec<Difference>,
) -> Result<Leg> {
    let records = run.records()?.records;
    let timed = records.iter().filter(|r| !matches!(r, Record::Evidence(_)));
    let begun = timed
        .filter_map(|r| Some(r.trial()?.block + 1))
        .max()
        .unwrap_or(0);
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
        build_id: Some(build.to_owned()),
        host,
        differences,
    })
}

fn refusal(name: &str, differences: &[Difference]) -> String {
    let named = differences.iter().take(MOST_NAMED);
    let mut told: Vec<String> = named
        .map(|d| format!("{} was {}, is {}", d.what, d.was, d.is))
        .collect();
    if differences.len() > MOST_NAMED {
        told.push(format!("and {} more", differences.len() - MOST_NAMED));
    }
    format!(
        "run {name} was measured under other conditions: {}: start a new run, or add --anyway to continue with new blocks as a second leg",
        told.join("; ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_first_differences_in_one_line() {
        let of = |n: usize| -> Vec<Difference> {
            let one = |i| Difference {
                what: format!("fact {i}"),
                was: "a".to_owned(),
                is: "b".to_owned(),
            };
            (0..n).map(one).collect()
        };
        let said = refusal("r", &of(2));
        assert!(said.contains("fact 0 was a, is b; fact 1 was a, is b: start"));
        let said = refusal("r", &of(6));
        assert!(said.contains("and 2 more") && !said.contains("fact 4"));
        assert!(said.contains("--anyway") && said.lines().count() == 1);
    }
}
