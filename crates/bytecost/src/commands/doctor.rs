//! `bytecost doctor`: a check of this machine for what distorts results, with remedies.

use anyhow::Result;
use bytecost_report::tables;
use bytecost_store::Root;

use crate::args::DoctorArgs;
use crate::failure::Exit;
use crate::{machine, terminal};

pub fn run(args: &DoctorArgs) -> Result<Exit> {
    if args.clean {
        let leftovers = super::clean(&Root::at(&args.root.runs_dir));
        let mut lines: Vec<&str> = leftovers.iter().map(|l| l.summary.as_str()).collect();
        if lines.is_empty() {
            lines.push("nothing was left behind");
        }
        super::print(&(lines.join("\n") + "\n"))?;
        return Ok(Exit::from_success(leftovers.iter().all(|l| l.gone)));
    }
    let host = machine::host().0;
    super::printed(&tables::doctor(&host, terminal::style()))
}
