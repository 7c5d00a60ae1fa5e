//! Checks of what sets a trial apart from others: scheduler classes and control groups.

use bytecost_spec::Class;

use super::{CheckInput, Told};
use crate::cgroups::{self, Controller, Version};
use crate::classes;

pub(super) fn classes(seen: &CheckInput<'_>) -> Told {
    let means = "--class is available (each value is tried)";
    if let Some(why) = classes::unavailable_reason(seen.roots, Class::Fifo) {
        let (found, remedy) = why.split_once(": as root").unwrap_or((&why, ""));
        let told = Told::note(found, "--class fifo and rr are refused");
        return match remedy {
            "" => told,
            remedy => told.remedy(format!("as root{remedy}")),
        };
    }
    if seen.capabilities.schedule() {
        return Told::good("all, with CAP_SYS_NICE", means);
    }
    Told::note(
        "those that need no CAP_SYS_NICE",
        "--class batch, idle and nice values from 0 up are available; real time and nice values below 0 are found by trying",
    )
    .remedy("run as root, or raise `ulimit -r` and `ulimit -e`")
}

pub(super) fn groups(seen: &CheckInput<'_>) -> Told {
    match cgroups::parents(seen.roots, &[Controller::Cpu, Controller::Cpuset]) {
        Ok(parents) => {
            let told: Vec<String> = (parents.iter())
                .map(|parent| {
                    let version = match parent.version {
                        Version::V1 => 1,
                        Version::V2 => 2,
                    };
                    let names: Vec<&str> = parent.controllers.iter().map(|c| c.name()).collect();
                    format!("{} in version {version}", names.join(" and "))
                })
                .collect();
            let means = "--cgroup makes a group for a trial where this process may write to it";
            Told::good(told.join(", "), means)
        }
        Err(why) => Told::note(
            format!("not available: {why}"),
            "--cgroup is refused, in part or altogether",
        ),
    }
}
