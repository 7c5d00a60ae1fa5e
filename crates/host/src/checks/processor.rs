//! Checks of kernel and processor.

use std::collections::BTreeSet;

use bytecost_spec::host::Cpu;
use bytecost_spec::units::bytes_in_words;

use super::{CheckInput, Told, count};
use bytecost_spec::cpulist;

pub(super) fn kernel(seen: &CheckInput<'_>) -> Told {
    let host = seen.host;
    let found = match &host.distribution {
        Some(name) => format!("{} on {}, {name}", host.kernel, host.architecture),
        None => format!("{} on {}", host.kernel, host.architecture),
    };
    let mut numbers = host.kernel.split(['.', '-']).map(str::parse::<u32>);
    let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else {
        return Told::unknown(
            found,
            "which ways to send this kernel has is found by trying",
        );
    };
    if (major, minor) >= (6, 0) {
        Told::good(found, "has every way to send that bytecost knows")
    } else {
        Told::note(
            found,
            "before 6.0 io_uring has no zero-copy send, before 4.14 there is no MSG_ZEROCOPY",
        )
        .remedy("a newer kernel, where zero-copy is the question")
    }
}

pub(super) fn cpus(seen: &CheckInput<'_>) -> Told {
    let host = seen.host;
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
        return Told::unknown(found, "threads are placed by the kernel alone");
    }
    if allowed < host.cpus.len() {
        found += &format!(
            "; this process may use {}",
            cpulist::write(&host.cpus_allowed)
        );
    }
    if allowed == 1 {
        Told::warning(
            found,
            "both sides take turns on one CPU: throughput is that of the sum of their work",
        )
        .remedy("give the process two CPUs: `taskset`, or the cpuset of its container")
    } else if allowed == 2 {
        Told::note(
            found,
            "one flow fills both: anything else that runs takes from it, and more flows share",
        )
    } else {
        Told::good(found, "both sides of a flow have a CPU of their own")
    }
}

pub(super) fn kinds(seen: &CheckInput<'_>) -> Told {
    let (fast, slow): (Vec<_>, Vec<_>) = seen.host.cpus.iter().partition(|c| c.kind == 0);
    if slow.is_empty() {
        return Told::good("one kind", "every CPU does the same work in the same time");
    }
    let [fast, slow] = [fast, slow]
        .map(|cpus: Vec<&Cpu>| -> Vec<u32> { cpus.into_iter().map(|c| c.cpu).collect() });
    let placement = match fast.as_slice() {
        [first, .., last] => format!("{first}:{last}"),
        _ => "SENDER:RECEIVER".to_owned(),
    };
    Told::warning(
        format!(
            "fast {}, slow {}",
            cpulist::write(&fast),
            cpulist::write(&slow)
        ),
        "a trial is as fast as the CPUs that the scheduler chose for it: intervals widen",
    )
    .remedy(format!(
        "pin both sides to one kind: `--placement {placement}`"
    ))
}

pub(super) fn caches(seen: &CheckInput<'_>) -> Told {
    let of_first = |c: &&bytecost_spec::host::CpuCache| {
        let first = seen.host.cpus.first().map(|cpu| cpu.cpu);
        c.kind != "Instruction" && first.is_some_and(|cpu| c.shared_by.contains(&cpu))
    };
    let parts: Vec<String> = seen
        .host
        .caches
        .iter()
        .filter(of_first)
        .map(|c| {
            let kind = if c.kind == "Data" { "d" } else { "" };
            let shared = match c.shared_by.len() {
                1 => String::new(),
                n => format!(" shared by {n}"),
            };
            format!(
                "L{}{kind} {}{shared}",
                c.level,
                bytes_in_words(c.size_bytes)
            )
        })
        .collect();
    if parts.is_empty() {
        return Told::unknown(
            "the kernel reports no caches",
            "what fits into a cache is not drawn",
        );
    }
    Told::good(
        parts.join(", "),
        "payload that is larger than a cache is read from the next: compare sizes with --ring in mind",
    )
}

pub(super) fn smt(seen: &CheckInput<'_>) -> Told {
    let Some(shared) = seen.host.cpus.iter().find(|c| c.siblings.len() > 1) else {
        let hidden = seen.host.virtualization.is_some();
        let means = if hidden {
            "no core is seen to be shared; under a hypervisor one may be all the same"
        } else {
            "no two CPUs share a core"
        };
        return Told::good("no hardware threads share a core", means);
    };
    let other = seen
        .host
        .cpus
        .iter()
        .find(|c| !shared.siblings.contains(&c.cpu));
    let told = Told::note(
        format!(
            "hardware threads share cores: {}",
            cpulist::write(&shared.siblings)
        ),
        "two sides on one core slow each other: where they run decides the result",
    );
    match other {
        Some(other) => told.remedy(format!(
            "pin to two cores: `--placement {}:{}`",
            shared.cpu, other.cpu
        )),
        None => told,
    }
}

pub(super) fn nodes(seen: &CheckInput<'_>) -> Told {
    let nodes: BTreeSet<u32> = seen.host.cpus.iter().filter_map(|c| c.node).collect();
    match nodes.len() {
        0 => Told::unknown(
            "the kernel reports no nodes",
            "memory is taken to be equally near",
        ),
        1 => Told::good("one node", "all memory is equally near"),
        n => {
            let first = nodes.first();
            let near: Vec<u32> = seen
                .host
                .cpus
                .iter()
                .filter(|c| c.node.as_ref() == first)
                .map(|c| c.cpu)
                .collect();
            Told::warning(
                format!("{n} nodes"),
                "payload on the other node costs more per byte; left free, sides land on either",
            )
            .remedy(format!(
                "keep a run on one node: `taskset -c {} bytecost run`",
                cpulist::write(&near)
            ))
        }
    }
}

pub(super) fn virtualization(seen: &CheckInput<'_>) -> Told {
    match &seen.host.virtualization {
        None => Told::good("none seen", "results are those of the hardware"),
        Some(what) => Told::note(
            what.as_str(),
            "the host's other work is seen only in part (steal), and wake-ups across CPUs cost more: results hold for this guest",
        ),
    }
}

pub(super) fn governor(seen: &CheckInput<'_>) -> Told {
    let governors: BTreeSet<&str> = seen
        .host
        .cpus
        .iter()
        .filter_map(|c| c.governor.as_deref())
        .collect();
    let names: Vec<&str> = governors.into_iter().collect();
    match names.as_slice() {
        [] => Told::note(
            "none",
            "the frequency is not this kernel's to set: a hypervisor or the firmware sets it",
        ),
        ["performance"] => Told::good("performance", "the frequency does not follow the load"),
        _ => Told::warning(
            names.join(", "),
            "the frequency follows the load: short trials and waiting sides run slower than they could",
        )
        .remedy("as root: `cpupower frequency-set -g performance`"),
    }
}

pub(super) fn turbo(seen: &CheckInput<'_>) -> Told {
    let switches = [
        ("devices/system/cpu/intel_pstate/no_turbo", "0", "1"),
        ("devices/system/cpu/cpufreq/boost", "1", "0"),
    ];
    for (path, on, off) in switches {
        match seen.roots.sys(path) {
            Ok(value) if value == on => {
                return Told::note(
                    "on",
                    "the frequency depends on heat and on how many cores work: slow drift, which paired blocks take out",
                )
                .remedy(format!("for narrower intervals, as root: `echo {off} > /sys/{path}`"));
            }
            Ok(value) if value == off => {
                return Told::good("off", "the frequency has a fixed upper end");
            }
            _ => {}
        }
    }
    Told::unknown(
        "the kernel reports none",
        "the frequency may drift with heat, which paired blocks take out",
    )
}

pub(super) fn mitigations(seen: &CheckInput<'_>) -> Told {
    let dir = "devices/system/cpu/vulnerabilities";
    let (mut mitigated, mut vulnerable) = (Vec::new(), Vec::new());
    for name in seen.roots.sys_names(dir) {
        match seen.roots.sys(&format!("{dir}/{name}")) {
            Ok(state) if state.starts_with("Mitigation") => mitigated.push(name),
            Ok(state) if state.starts_with("Vulnerable") => vulnerable.push(name),
            _ => {}
        }
    }
    let off = seen.roots.proc("cmdline").is_ok_and(|line| {
        line.split_whitespace()
            .any(|word| word == "mitigations=off")
    });
    let list = |names: &[String]| match names {
        [] => "none".to_owned(),
        names => names.join(", "),
    };
    let found = format!(
        "mitigated: {}; vulnerable: {}{}",
        list(&mitigated),
        list(&vulnerable),
        if off { "; mitigations=off" } else { "" }
    );
    let means = "a system call costs more with them: compare only with machines that have the same";
    if mitigated.is_empty() && vulnerable.is_empty() {
        Told::good(if off { found } else { "none needed".to_owned() }, means)
    } else {
        Told::note(found, means)
    }
}
