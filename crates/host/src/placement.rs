//! Which CPUs are how near to each other: placements by name, chosen from what the kernel tells.
//!
//! Pure: a [`Host`] in, CPUs or the reason why there are none out. The fastest kind comes first,
//! then the nearest, then the lowest numbers.

use std::cmp::Reverse;

use bytecost_spec::host::Cpu;
use bytecost_spec::{Host, Nearness, cpulist};

/// Pairs of CPUs that are as near to each other as was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NearPairs {
    /// Never empty, and no CPU in two of them.
    pub cpus: Vec<(u32, u32)>,
    /// What the first pair shares, in words: `the L3 of 32 MiB`.
    pub shares: String,
}

/// The usable pairs so near to each other, or why there is none, and what to do about it.
pub fn pairs(nearness: Nearness, host: &Host) -> Result<NearPairs, String> {
    let usable = usable(host);
    let Some(first) = usable.first() else {
        return Err("the kernel reports no CPUs".to_owned());
    };
    let cpus: Vec<(u32, u32)> = match nearness {
        Nearness::SameCpu => usable.iter().map(|c| (c.cpu, c.cpu)).collect(),
        _ if usable.len() == 1 => {
            return Err(format!(
                "CPU {} is the only one that this process may use: {}",
                first.cpu,
                widen(host)
            ));
        }
        Nearness::SmtSibling => paired(&usable, host, nearness),
        _ => paired(&one_a_core(&usable), host, nearness),
    };
    match cpus.first() {
        Some(&(a, b)) => Ok(NearPairs {
            shares: host.shared(a, b),
            cpus,
        }),
        None => Err(missing(nearness, host, &usable)),
    }
}

/// The nearest two usable cores, and the next two; where there are no two, the threads of one, else
/// the one CPU; or that the kernel tells no CPUs.
pub fn pinned(host: &Host) -> Result<NearPairs, String> {
    use Nearness::{CrossCache, CrossNode, SameCache, SameCpu, SmtSibling};
    let first = |kinds: &[Nearness]| kinds.iter().find_map(|n| pairs(*n, host).ok());
    // Where the caches are not told, no two cores are known to be near each other or far apart.
    let untold = || {
        let cores: Vec<u32> = match host.cpus.is_empty() {
            true => host.cpus_allowed.clone(),
            false => one_a_core(&usable(host)).iter().map(|c| c.cpu).collect(),
        };
        let cpus: Vec<_> = cores.chunks_exact(2).map(|c| (c[0], c[1])).collect();
        let &(a, b) = cpus.first()?;
        let shares = host.shared(a, b);
        Some(NearPairs { cpus, shares })
    };
    first(&[SameCache, CrossCache, CrossNode])
        .or_else(untold)
        .or_else(|| first(&[SmtSibling]))
        .map_or_else(|| pairs(SameCpu, host), Ok)
}

/// A CPU so near to this one, not one to avoid if there is another; or why there is none.
pub fn cpu_near(nearness: Nearness, of: u32, avoid: &[u32], host: &Host) -> Result<u32, String> {
    let usable = usable(host);
    let Some(anchor) = host.cpus.iter().find(|c| c.cpu == of) else {
        return Err(format!("CPU {of} is not online"));
    };
    let mut fits: Vec<&Cpu> = (usable.iter().copied())
        .filter(|c| holds(nearness, anchor, c, host))
        .collect();
    fits.sort_by_key(|c| (avoid.contains(&c.cpu), c.kind, c.cpu));
    match fits.first() {
        Some(cpu) => Ok(cpu.cpu),
        None => Err(format!(
            "no CPU that this process may use is {} to CPU {of}: {}",
            nearness.name(),
            missing(nearness, host, &usable)
        )),
    }
}

/// What stops a CPU from being used: not there, offline, or not allowed; none where nothing does.
pub fn unusable_reason(cpu: u32, host: &Host) -> Option<String> {
    if host.cpus_allowed.contains(&cpu) || (host.cpus.is_empty() && host.cpus_allowed.is_empty()) {
        return None;
    }
    let allowed = cpulist::write(&host.cpus_allowed);
    if host.cpus_offline.contains(&cpu) {
        return Some(format!(
            "CPU {cpu} is offline: choose among {allowed}, or as root `echo 1 > /sys/devices/system/cpu/cpu{cpu}/online`"
        ));
    }
    if !host.cpus.is_empty() && host.cpus.iter().all(|c| c.cpu != cpu) {
        let there: Vec<u32> = host.cpus.iter().map(|c| c.cpu).collect();
        let there = cpulist::write(&there);
        return Some(format!(
            "there is no CPU {cpu} here ({there} are): choose among {allowed}"
        ));
    }
    Some(format!(
        "CPU {cpu} is not among those that this process may use ({allowed}): choose others, or widen the set with `taskset` or the cpuset"
    ))
}

/// Online and allowed, the fastest kind first.
pub(crate) fn usable(host: &Host) -> Vec<&Cpu> {
    let allowed = |c: &&Cpu| host.cpus_allowed.is_empty() || host.cpus_allowed.contains(&c.cpu);
    let mut cpus: Vec<&Cpu> = host.cpus.iter().filter(allowed).collect();
    cpus.sort_by_key(|c| (c.kind, c.cpu));
    cpus
}

fn one_a_core<'h>(cpus: &[&'h Cpu]) -> Vec<&'h Cpu> {
    let mut firsts: Vec<&Cpu> = Vec::new();
    for cpu in cpus {
        if firsts.iter().all(|f| !f.siblings.contains(&cpu.cpu)) {
            firsts.push(cpu);
        }
    }
    firsts
}

/// Each CPU with the nearest that is still free: of one kind, and of two where there is none.
fn paired(cpus: &[&Cpu], host: &Host, nearness: Nearness) -> Vec<(u32, u32)> {
    for one_kind in [true, false] {
        let mut free = cpus.to_vec();
        let mut pairs = Vec::new();
        while !free.is_empty() {
            let a = free.remove(0);
            let fits = |b: &&Cpu| (!one_kind || a.kind == b.kind) && holds(nearness, a, b, host);
            let best = (free.iter().enumerate())
                .filter(|(_, b)| fits(b))
                .min_by_key(|(_, b)| {
                    let level = host
                        .common_cache(a.cpu, b.cpu)
                        .map_or(u32::MAX, |c| c.level);
                    (level, Reverse(a.cluster.contains(&b.cpu)), b.kind, b.cpu)
                });
            if let Some((at, b)) = best {
                pairs.push((a.cpu, b.cpu));
                free.remove(at);
            }
        }
        if !pairs.is_empty() {
            return pairs;
        }
    }
    Vec::new()
}

fn holds(nearness: Nearness, a: &Cpu, b: &Cpu, host: &Host) -> bool {
    let core = a.siblings.contains(&b.cpu);
    let tells = |c: &Cpu| (host.caches.iter()).any(|cache| cache.shared_by.contains(&c.cpu));
    match nearness {
        Nearness::SameCpu => a.cpu == b.cpu,
        Nearness::SmtSibling => core && a.cpu != b.cpu,
        Nearness::SameCache => !core && host.common_cache(a.cpu, b.cpu).is_some(),
        Nearness::CrossCache => {
            !core
                && a.node == b.node
                && tells(a)
                && tells(b)
                && host.common_cache(a.cpu, b.cpu).is_none()
        }
        Nearness::CrossNode => a.node.is_some() && b.node.is_some() && a.node != b.node,
    }
}

fn missing(nearness: Nearness, host: &Host, usable: &[&Cpu]) -> String {
    let everywhere = Host {
        cpus_allowed: Vec::new(),
        ..host.clone()
    };
    if usable.len() < host.cpus.len() && pairs(nearness, &everywhere).is_ok() {
        return format!(
            "{} here, but not among the CPUs that this process may use ({}): {}",
            match nearness {
                Nearness::SameCpu => "there are CPUs",
                Nearness::SmtSibling => "hardware threads share cores",
                Nearness::SameCache => "cores share caches",
                Nearness::CrossCache => "cores of one node share no cache",
                Nearness::CrossNode => "there are several nodes",
            },
            cpulist::write(&numbers(usable)),
            widen(host)
        );
    }
    let no_caches = host.caches.is_empty();
    match nearness {
        Nearness::SameCpu => "the kernel reports no CPUs",
        Nearness::SmtSibling if host.virtualization.is_some() => {
            "the kernel reports no two CPUs that share a core; a hypervisor may hide them"
        }
        Nearness::SmtSibling if !host.cpus_offline.is_empty() => {
            "no two CPUs that are online share a core: as root, `echo on > /sys/devices/system/cpu/smt/control` where SMT was switched off"
        }
        Nearness::SmtSibling => "no two CPUs share a core here",
        Nearness::SameCache | Nearness::CrossCache if no_caches => {
            "the kernel reports no caches"
        }
        Nearness::SameCache => "the kernel reports no two cores that share a cache",
        Nearness::CrossCache if pairs(Nearness::CrossNode, host).is_ok() => {
            "all cores of a node share a cache here: choose cross-node"
        }
        Nearness::CrossCache => "all cores that may be used share a cache",
        Nearness::CrossNode => "the kernel reports one node",
    }
    .to_owned()
}

fn numbers(cpus: &[&Cpu]) -> Vec<u32> {
    let mut numbers: Vec<u32> = cpus.iter().map(|c| c.cpu).collect();
    numbers.sort_unstable();
    numbers
}

fn widen(host: &Host) -> &'static str {
    if host.cpus.len() > host.cpus_allowed.len() {
        "widen the set with `taskset`, or the cpuset of the container or slice"
    } else {
        "a machine with more CPUs"
    }
}
