//! The CPUs that a command runs on, chosen with `--cpu` as with taskset(1).

use std::fs;

use anyhow::{Context, Result};
use bytecost_spec::cpulist;
use bytecost_spec::units;
use bytecost_sys::process;

use crate::failure::bad_input;

/// File with the list of CPUs that are online, in the "List format" of cpuset(7).
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
    // The kernel cuts a mask down to the CPUs of the cpuset, whatever the mask was before: the mask
    // of all CPUs becomes that of the allowed ones.
    process::set_affinity(&online)?;
    let allowed = process::affinity()?;
    check(list, &wanted, &online, &allowed).map_err(bad_input)?;
    Ok(process::set_affinity(&wanted)?)
}

fn check(list: &str, wanted: &[u32], online: &[u32], allowed: &[u32]) -> Result<(), String> {
    let remedy = || format!("choose from {}", cpulist::write(allowed));
    if wanted.is_empty() {
        return Err(format!("--cpu `{list}` names no CPU: {}", remedy()));
    }
    let first_not_in = |set: &[u32]| wanted.iter().find(|cpu| !set.contains(cpu)).copied();
    if let Some(cpu) = first_not_in(online) {
        return Err(format!(
            "--cpu `{list}`: CPU {cpu} does not exist here, or is off: {}",
            remedy()
        ));
    }
    match first_not_in(allowed) {
        Some(cpu) => Err(format!(
            "--cpu `{list}`: CPU {cpu} is not allowed to this process (its cpuset): {}",
            remedy()
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_cpu_that_is_not_available_and_all_that_are() {
        let check = |wanted: &[u32], error: &str| {
            let checked = check("LIST", wanted, &[0, 1, 2, 3, 8], &[0, 1, 8]);
            assert_eq!(checked.err().unwrap_or_default(), error, "{wanted:?}");
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
