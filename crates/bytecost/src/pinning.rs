//! The CPUs that a command runs on, chosen with `--cpu` as with taskset(1).

use std::fs;

use anyhow::{Context, Result};
use bytecost_spec::cpulist;
use bytecost_spec::units;
use bytecost_sys::process;

use crate::failure::bad_input;

/// The list of CPUs that are there and run, cpuset(7) "List format".
const ONLINE: &str = "/sys/devices/system/cpu/online";

/// Restricts the calling thread to a list of CPUs. Threads and processes that it starts later
/// inherit that, so this is called before there are any.
pub fn pin(list: &str) -> Result<()> {
    let wanted = cpulist::parse(list).map_err(|why| {
        bad_input(format!(
            "--cpu `{}`: {}: write numbers and ranges, such as 0 or 0-3,8",
            units::one_line(list),
            units::one_line(&why)
        ))
    })?;
    let online = fs::read_to_string(ONLINE).with_context(|| ONLINE)?;
    let online = cpulist::parse(&online).map_err(|why| anyhow::anyhow!("{ONLINE}: {why}"))?;
    // A thread may go wherever its cpuset lets it, whatever CPUs it has been restricted to
    // before: asking for all of them tells which these are.
    process::set_affinity(&online)?;
    let allowed = process::affinity()?;
    check(list, &wanted, &online, &allowed).map_err(bad_input)?;
    Ok(process::set_affinity(&wanted)?)
}

fn check(list: &str, wanted: &[u32], online: &[u32], allowed: &[u32]) -> Result<(), String> {
    let choice = || format!("choose from {}", cpulist::write(allowed));
    if wanted.is_empty() {
        return Err(format!("--cpu `{list}` names no CPU: {}", choice()));
    }
    let beyond = |some: &[u32]| wanted.iter().find(|cpu| !some.contains(cpu)).copied();
    if let Some(cpu) = beyond(online) {
        return Err(format!(
            "--cpu `{list}`: CPU {cpu} does not exist here, or is off: {}",
            choice()
        ));
    }
    match beyond(allowed) {
        Some(cpu) => Err(format!(
            "--cpu `{list}`: CPU {cpu} is not allowed to this process (its cpuset): {}",
            choice()
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_that_cannot_be_had_are_told_with_those_that_can() {
        let check = |wanted: &[u32], says: &str| {
            let told = check("LIST", wanted, &[0, 1, 2, 3, 8], &[0, 1, 8]);
            assert_eq!(told.err().unwrap_or_default(), says, "{wanted:?}");
        };
        check(&[0], "");
        check(&[0, 1, 8], "");
        check(&[], "--cpu `LIST` names no CPU: choose from 0-1,8");
        check(
            &[0, 9],
            "--cpu `LIST`: CPU 9 does not exist here, or is off: choose from 0-1,8",
        );
        check(
            &[0, 2],
            "--cpu `LIST`: CPU 2 is not allowed to this process (its cpuset): choose from 0-1,8",
        );
    }
}
