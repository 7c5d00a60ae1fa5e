//! `bytecost doctor`: what this machine is, what that means for results, and what to do.

use anyhow::Result;
use bytecost_report::tables;
use bytecost_store::Root;

use crate::args::DoctorArgs;
use crate::failure::Exit;
use crate::{machine, terminal};

pub fn run(args: &DoctorArgs) -> Result<Exit> {
    if args.clean {
        let left = super::clean(&Root::at(&args.root.runs_dir));
        let mut told: Vec<&str> = left.iter().map(|l| l.summary.as_str()).collect();
        if told.is_empty() {
            told.push("nothing was left behind");
        }
        super::print(&(told.join("\n") + "\n"))?;
        return Ok(Exit::of(left.iter().all(|l| l.gone)));
    }
    let host = machine::host().0;
    super::printed(&tables::doctor(&host, terminal::style()))
}
