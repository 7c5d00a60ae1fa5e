//! `bytecost runs`: the list of runs, and the variation of ratios from run to run.

use anyhow::Result;
use bytecost_host::Roots;
use bytecost_report::tables;
use bytecost_store::Root;

use crate::args::RootArgs;
use crate::failure::Exit;
use crate::history::EarlierRounds;
use crate::terminal;

pub fn run(args: &RootArgs) -> Result<Exit> {
    let runs = Root::at(&args.runs_dir).runs()?;
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
