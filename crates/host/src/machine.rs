//! Single facts from one file each: distribution, architecture, CPU model, memory, resource limits,
//! congestion controls.

use bytecost_spec::cpulist;
use bytecost_spec::host::Cpu;

use crate::roots::{Roots, value};

struct ArmCore {
    implementer: u32,
    part: u32,
    name: &'static str,
}

const fn core(implementer: u32, part: u32, name: &'static str) -> ArmCore {
    ArmCore {
        implementer,
        part,
        name,
    }
}

/// Arm cores by `CPU implementer` and `CPU part` (Arm ARM, MIDR_EL1; makers' technical manuals).
const ARM_CORES: &[ArmCore] = &[
    core(0x41, 0xd03, "Cortex-A53"),
    core(0x41, 0xd05, "Cortex-A55"),
    core(0x41, 0xd07, "Cortex-A57"),
    core(0x41, 0xd08, "Cortex-A72"),
    core(0x41, 0xd0a, "Cortex-A75"),
    core(0x41, 0xd0b, "Cortex-A76"),
    core(0x41, 0xd0c, "Neoverse-N1"),
    core(0x41, 0xd40, "Neoverse-V1"),
    core(0x41, 0xd41, "Cortex-A78"),
    core(0x41, 0xd44, "Cortex-X1"),
    core(0x41, 0xd49, "Neoverse-N2"),
    core(0x41, 0xd4f, "Neoverse-V2"),
    core(0x41, 0xd84, "Neoverse-V3"),
    core(0x41, 0xd8e, "Neoverse-N3"),
    core(0x43, 0x0af, "ThunderX2"),
    core(0x46, 0x001, "A64FX"),
    core(0x48, 0xd01, "Kunpeng-920"),
    core(0xc0, 0xac3, "Ampere-1"),
    core(0xc0, 0xac4, "Ampere-1a"),
];

/// The distribution's name (os-release(5)).
pub(crate) fn distribution(roots: &Roots) -> Option<String> {
    let text = roots.etc("os-release").ok()?;
    let value = |key: &str| {
        let line = text
            .lines()
            .find_map(|l| l.strip_prefix(key)?.strip_prefix('='))?;
        let name = line.trim().trim_matches(['"', '\'']).to_owned();
        (!name.is_empty()).then_some(name)
    };
    value("PRETTY_NAME").or_else(|| value("NAME"))
}

/// The architecture; before Linux 6.1 the one that bytecost was built for.
pub(crate) fn architecture(roots: &Roots) -> String {
    roots
        .proc("sys/kernel/arch")
        .ok()
        .filter(|arch| !arch.is_empty())
        .unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

/// The distinct values that `read` gives of the blocks of /proc/cpuinfo, one a CPU, joined by ` + `.
pub(crate) fn distinct_of_cpus(
    roots: &Roots,
    read: impl Fn(&str) -> Option<String>,
) -> Option<String> {
    let text = roots.proc("cpuinfo").unwrap_or_default();
    let mut distinct: Vec<String> = Vec::new();
    for value in text.split("\n\n").filter_map(read) {
        if !distinct.contains(&value) {
            distinct.push(value);
        }
    }
    (!distinct.is_empty()).then(|| distinct.join(" + "))
}

/// The name of a CPU's model by its block of /proc/cpuinfo, which differs among architectures.
pub(crate) fn model(block: &str) -> Option<String> {
    let value = |key: &str| value(block, key);
    let name_keys = ["model name", "Model Name", "cpu model", "cpu", "uarch"];
    if let Some(name) = name_keys.iter().find_map(|key| value(key)) {
        return Some(name);
    }
    let hex = |key| u32::from_str_radix(value(key)?.trim_start_matches("0x"), 16).ok();
    let (implementer, part) = (hex("CPU implementer")?, hex("CPU part")?);
    let known = ARM_CORES
        .iter()
        .find(|core| (core.implementer, core.part) == (implementer, part));
    Some(match known {
        Some(core) => core.name.to_owned(),
        None => format!("Arm implementer {implementer:#04x} part {part:#05x}"),
    })
}

/// The online CPUs on which this process may run; all where the kernel does not say.
pub(crate) fn cpus_allowed(roots: &Roots, online: &[Cpu]) -> Vec<u32> {
    let allowed = (roots.proc_value("self/status", "Cpus_allowed_list"))
        .and_then(|list| cpulist::parse(&list).ok());
    let is_allowed = |cpu: &u32| allowed.as_ref().is_none_or(|list| list.contains(cpu));
    online.iter().map(|c| c.cpu).filter(is_allowed).collect()
}

/// A row of /proc/meminfo, in bytes.
pub(crate) fn memory(roots: &Roots, name: &str) -> Option<u64> {
    let value = roots.proc_value("meminfo", name)?;
    let kib: u64 = value.strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// The congestion controls that the kernel has loaded; setting some of them needs CAP_NET_ADMIN.
pub fn congestion_available(roots: &Roots) -> Vec<String> {
    roots
        .proc("sys/net/ipv4/tcp_available_congestion_control")
        .unwrap_or_default()
        .split_whitespace()
        .map(str::to_owned)
        .collect()
}

/// A soft limit of /proc/self/limits: none if it cannot be read, `Some(None)` if it is unlimited.
pub(crate) fn limit(roots: &Roots, name: &str) -> Option<Option<u64>> {
    let text = roots.proc("self/limits").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(None),
        soft => soft.parse().ok().map(Some),
    }
}
