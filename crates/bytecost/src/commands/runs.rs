//! `bytecost runs`: the runs that are there, and how much ratios differ from one to the next.

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
    let conditions = earlier.conditions().into_iter();
    let known = conditions.filter(|c| Some(&c.machine) == machine.as_ref());
    let noise = known.map(|conditions| {
        let noise = earlier.noise(&conditions);
        (conditions, noise)
    });
    super::printed(&tables::runs(
        &runs,
        &noise.collect::<Vec<_>>(),
        terminal::style(),
    ))
}
