//! Checks of the kernel and of the processor: cores, caches, frequency, mitigations.

use std::collections::BTreeSet;

use bytecost_spec::CircumstanceKind;
use bytecost_spec::cpulist;
use bytecost_spec::host::{Cpu, CpuCache, Level};

use super::{Assessment, CheckInput, count};

pub(super) fn kernel(input: &CheckInput<'_>) -> Assessment {
    let host = input.host;
    let found = match &host.distribution {
        Some(name) => format!("{} on {}, {name}", host.kernel, host.architecture),
        None => format!("{} on {}", host.kernel, host.architecture),
    };
    let mut numbers = host.kernel.split(['.', '-']).map(str::parse::<u32>);
    let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else {
        let means = "which ways to send this kernel has is found by trying";
        return Assessment::unknown(found, means);
    };
    if (major, minor) >= (6, 0) {
        Assessment::good(found, "has every way to send that bytecost knows")
    } else {
        let means =
            "before 6.0 io_uring has no zero-copy send, before 4.14 there is no MSG_ZEROCOPY";
        Assessment::note(found, means).remedy("a newer kernel, where zero-copy is the question")
    }
}

pub(super) fn cpus(input: &CheckInput<'_>) -> Assessment {
    let host = input.host;
    let cores: BTreeSet<&[u32]> = host.cpus.iter().map(|c| c.siblings.as_slice()).collect();
    let packages: BTreeSet<u32> = host.cpus.iter().filter_map(|c| c.package).collect();
    let mut found = format!(
        "{} online, {}, {}",
        count(host.cpus.len(), "CPU"),
        count(cores.len(), "core"),
        host.cpu_model
    );
    if packages.len() > 1 {
        found += &format!(", {}", count(packages.len(), "package"));
    }
    let allowed = host.cpus_allowed.len();
    if host.cpus.is_empty() || allowed == 0 {
        return Assessment::unknown(found, "threads are placed by the kernel alone");
    }
    if allowed < host.cpus.len() {
        found += &format!(
            "; this process may use {}",
            cpulist::write(&host.cpus_allowed)
        );
    }
    if allowed == 1 {
        Assessment::disturbed(CircumstanceKind::OneCpu, found)
    } else if allowed < host.cpus.len() {
        Assessment {
            level: Level::Note,
            ..Assessment::disturbed(CircumstanceKind::Affinity, found)
        }
    } else if allowed == 2 {
        let means =
            "one flow fills both: anything else that runs takes from it, and more flows share";
        Assessment::note(found, means)
    } else {
        Assessment::good(found, "both sides of a flow have a CPU of their own")
    }
}

pub(super) fn kinds(input: &CheckInput<'_>) -> Assessment {
    let (fast, slow): (Vec<_>, Vec<_>) = input.host.cpus.iter().partition(|c| c.kind == 0);
    if slow.is_empty() {
        return Assessment::good("one kind", "every CPU does the same work in the same time");
    }
    let numbers = |cpus: Vec<&Cpu>| cpus.into_iter().map(|c| c.cpu).collect::<Vec<u32>>();
    let [fast, slow] = [fast, slow].map(numbers);
    let placement = match fast.as_slice() {
        [first, .., last] => format!("{first}:{last}"),
        _ => "SENDER:RECEIVER".to_owned(),
    };
    let [fast, slow] = [fast, slow].map(|cpus| cpulist::write(&cpus));
    let means = "a trial is as fast as the CPUs that the scheduler chose for it: intervals widen";
    Assessment::warning(format!("fast {fast}, slow {slow}"), means).remedy(format!(
        "pin both sides to one kind: `--placement {placement}`"
    ))
}

pub(super) fn caches(input: &CheckInput<'_>) -> Assessment {
    let first = input.host.cpus.first().map(|cpu| cpu.cpu);
    let of_first = |c: &&CpuCache| {
        c.kind != "Instruction" && first.is_some_and(|cpu| c.shared_by.contains(&cpu))
    };
    let caches = input.host.caches.iter().filter(of_first);
    let parts: Vec<String> = caches.map(CpuCache::to_string).collect();
    if parts.is_empty() {
        let means = "what fits into a cache is not drawn";
        return Assessment::unknown("the kernel reports no caches", means);
    }
    Assessment::good(
        parts.join(", "),
        "payload that is larger than a cache is read from the next: compare sizes with --ring in mind",
    )
}

pub(super) fn smt(input: &CheckInput<'_>) -> Assessment {
    let mut cpus = input.host.cpus.iter();
    let Some(shared) = cpus.clone().find(|c| c.siblings.len() > 1) else {
        let means = match input.host.virtualization {
            Some(_) => "no core is seen to be shared; under a hypervisor one may be all the same",
            None => "no two CPUs share a core",
        };
        return Assessment::good("no hardware threads share a core", means);
    };
    let threads = cpulist::write(&shared.siblings);
    let means = "two sides on one core slow each other: where they run decides the result";
    let note = Assessment::note(format!("hardware threads share cores: {threads}"), means);
    match cpus.find(|c| !shared.siblings.contains(&c.cpu)) {
        Some(other) => note.remedy(format!(
            "pin to two cores: `--placement {}:{}`",
            shared.cpu, other.cpu
        )),
        None => note,
    }
}

pub(super) fn nodes(input: &CheckInput<'_>) -> Assessment {
    let nodes: BTreeSet<u32> = input.host.cpus.iter().filter_map(|c| c.node).collect();
    match nodes.len() {
        0 => {
            let means = "memory is taken to be equally near";
            Assessment::unknown("the kernel reports no nodes", means)
        }
        1 => Assessment::good("one node", "all memory is equally near"),
        n => {
            let cpus = input.host.cpus.iter();
            let near = cpus.filter(|c| c.node.as_ref() == nodes.first());
            let near = cpulist::write(&near.map(|c| c.cpu).collect::<Vec<_>>());
            let means =
                "payload on the other node costs more per byte; left free, sides land on either";
            Assessment::warning(format!("{n} nodes"), means).remedy(format!(
                "keep a run on one node: `taskset -c {near} bytecost run`"
            ))
        }
    }
}

pub(super) fn virtualization(input: &CheckInput<'_>) -> Assessment {
    match &input.host.virtualization {
        None => Assessment::good("none seen", "results are those of the hardware"),
        Some(name) => Assessment::note(
            name.as_str(),
            "the host's other work is seen only in part (steal), and wake-ups across CPUs cost more: results hold for this guest",
        ),
    }
}

pub(super) fn governor(input: &CheckInput<'_>) -> Assessment {
    let cpus = input.host.cpus.iter();
    let governors: BTreeSet<&str> = cpus.filter_map(|c| c.governor.as_deref()).collect();
    let names: Vec<&str> = governors.into_iter().collect();
    match names.as_slice() {
        [] => Assessment::note(
            "none",
            "the frequency is not this kernel's to set: a hypervisor or the firmware sets it",
        ),
        ["performance"] => Assessment::good("performance", "the frequency does not follow the load"),
        _ => Assessment::warning(
            names.join(", "),
            "the frequency follows the load: short trials and waiting sides run slower than they could",
        )
        .remedy(CircumstanceKind::Frequency.row().remedy),
    }
}

pub(super) fn turbo(input: &CheckInput<'_>) -> Assessment {
    let switches = [
        ("devices/system/cpu/intel_pstate/no_turbo", "0", "1"),
        ("devices/system/cpu/cpufreq/boost", "1", "0"),
    ];
    for (path, on, off) in switches {
        match input.roots.sys(path) {
            Ok(value) if value == on => {
                return Assessment::note(
                    "on",
                    "the frequency depends on heat and on how many cores work: slow drift, which paired blocks take out",
                )
                .remedy(format!("for narrower intervals, as root: `echo {off} > /sys/{path}`"));
            }
            Ok(value) if value == off => {
                return Assessment::good("off", "the frequency has a fixed upper end");
            }
            _ => {}
        }
    }
    Assessment::unknown(
        "the kernel reports none",
        "the frequency may drift with heat, which paired blocks take out",
    )
}

pub(super) fn mitigations(input: &CheckInput<'_>) -> Assessment {
    let dir = "devices/system/cpu/vulnerabilities";
    let (mut mitigated, mut vulnerable) = (Vec::new(), Vec::new());
    for name in input.roots.sys_names(dir) {
        match input.roots.sys(&format!("{dir}/{name}")) {
            Ok(state) if state.starts_with("Mitigation") => mitigated.push(name),
            Ok(state) if state.starts_with("Vulnerable") => vulnerable.push(name),
            _ => {}
        }
    }
    let line = input.roots.proc("cmdline").unwrap_or_default();
    let is_off = line.split_whitespace().any(|w| w == "mitigations=off");
    let is_affected = !mitigated.is_empty() || !vulnerable.is_empty();
    let [mitigated, vulnerable] = [mitigated, vulnerable].map(|names| match names.as_slice() {
        [] => "none".to_owned(),
        names => names.join(", "),
    });
    let off = if is_off { "; mitigations=off" } else { "" };
    let found = format!("mitigated: {mitigated}; vulnerable: {vulnerable}{off}");
    let means = "a system call costs more with them: compare only with machines that have the same";
    if is_affected {
        Assessment::note(found, means)
    } else if is_off {
        Assessment::good(found, means)
    } else {
        Assessment::good("none needed", means)
    }
}
