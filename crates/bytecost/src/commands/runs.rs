//! `bytecost runs`: the list of runs and profiles, and the variation of ratios from run to run.

use anyhow::Result;
use bytecost_host::Roots;
use bytecost_report::{ProfileReport, tables};
use bytecost_spec::RunProgress;
use bytecost_store::Root;

use crate::args::RootArgs;
use crate::failure::Exit;
use crate::history::EarlierRounds;
use crate::{machine, terminal};

pub fn run(args: &RootArgs) -> Result<Exit> {
    let root = Root::at(&args.runs_dir);
    let mut runs = root.runs()?;
    for id in root.profiles()? {
        let profile = profile(&root, id);
        let later = runs.iter().position(|run| run.started > profile.started);
        runs.insert(later.unwrap_or(runs.len()), profile);
    }
    if runs.is_empty() {
        return super::printed(&format!(
            "no runs in {}: `bytecost run` makes one\n",
            args.runs_dir.display()
        ));
    }
    let earlier = EarlierRounds::read(super::note);
    let machine = bytecost_host::machine_kernel(&Roots::real());
    let noise: Vec<_> = earlier
        .conditions()
        .into_iter()
        .filter(|conditions| Some(&conditions.machine) == machine.as_ref())
        .map(|conditions| {
            let noise = earlier.noise(&conditions);
            (conditions, noise)
        })
        .collect();
    super::printed(&tables::runs(&runs, &noise, terminal::style()))
}

/// A kept profile as a row of the list, or why it cannot be read.
fn profile(root: &Root, id: String) -> RunProgress {
    let text = root.profile(&id).map_err(|why| why.to_string());
    let report = text.and_then(|text| ProfileReport::parse(&text.unwrap_or_default()));
    match report {
        Ok(ProfileReport { profile, .. }) => RunProgress {
            id,
            started: machine::utc(profile.began_s).unwrap_or_default(),
            study: format!("profile of {}", profile.program),
            records: profile.calls,
            state: "complete".to_owned(),
        },
        Err(why) => RunProgress {
            id,
            study: "profile".to_owned(),
            state: format!("unreadable: {why}"),
            ..RunProgress::default()
        },
    }
}
