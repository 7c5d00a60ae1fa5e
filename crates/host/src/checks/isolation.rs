//! Checks of the means that isolate a trial: scheduler classes and control groups.

use bytecost_spec::Class;

use super::{Assessment, CheckInput};
use crate::cgroups::{self, Controller, Version};
use crate::scheduler_classes;

pub(super) fn classes(input: &CheckInput<'_>) -> Assessment {
    let means = "--class is available (each value is tried)";
    if let Some(obstacle) = scheduler_classes::obstacle(input.roots, Class::Fifo) {
        return Assessment::note(obstacle.found, "--class fifo and rr are refused")
            .remedy(obstacle.remedy);
    }
    if input.capabilities.may_schedule() {
        return Assessment::good("all, with CAP_SYS_NICE", means);
    }
    Assessment::note(
        "those that need no CAP_SYS_NICE",
        "--class batch, idle and nice values from 0 up are available; real time and nice values below 0 are found by trying",
    )
    .remedy("run as root, or raise `ulimit -r` and `ulimit -e`")
}

pub(super) fn groups(input: &CheckInput<'_>) -> Assessment {
    match cgroups::parents(input.roots, &[Controller::Cpu, Controller::Cpuset]) {
        Ok(parents) => {
            let places: Vec<String> = (parents.iter())
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
            Assessment::good(places.join(", "), means)
        }
        Err(why) => Assessment::note(
            format!("not available: {why}"),
            "--cgroup is refused, in part or altogether",
        ),
    }
}
