//! `bytecost doctor`: what this machine is, what that means for results, and what to do.

use anyhow::Result;
use bytecost_store::Root;

use crate::args::DoctorArgs;
use crate::failure::Ending;
use crate::{machine, terminal};

/// Prints the checks, or what was removed.
pub fn run(args: &DoctorArgs) -> Result<Ending> {
    if args.clean {
        let mut told = super::clean(&Root::at(&args.root.runs_dir));
        if told.is_empty() {
            told.push("nothing was left behind".to_owned());
        }
        super::print(&(told.join("\n") + "\n"))?;
        return Ok(Ending::Done);
    }
    super::print(&bytecost_report::tables::doctor(
        &machine::host(),
        terminal::style(),
    ))?;
    Ok(Ending::Done)
}
