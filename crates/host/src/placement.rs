//! The CPUs of a named placement (`same-cache`, `cross-node`), by the topology that the kernel reports.
//!
//! Pure functions of a [`Host`]; each gives CPUs, or the reason why there are none. CPUs of the
//! fastest kind come first, then the nearest, then the lowest numbers.

use std::cmp::Reverse;

use bytecost_spec::host::Cpu;
use bytecost_spec::{Host, Nearness, cpulist};

/// Pairs of CPUs of one nearness.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NearPairs {
    /// The pairs; never empty, and no CPU is in two of them.
    pub cpus: Vec<(u32, u32)>,
    /// The nearest part of the machine that the first pair shares, in words: `the L3 of 32 MiB`.
    pub shares: String,
}

/// The usable pairs of a nearness.
///
/// # Errors
/// Why there is none, with the remedy.
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
        Nearness::SmtSibling => disjoint_pairs(&usable, host, nearness),
        _ => disjoint_pairs(&one_per_core(&usable), host, nearness),
    };
    match cpus.first() {
        Some(&(a, b)) => Ok(NearPairs {
            shares: host.shared(a, b),
            cpus,
        }),
        None => Err(missing(nearness, host, &usable)),
    }
}

/// Pairs of the nearest usable cores; where there is one core only, its threads, else its one CPU.
///
/// # Errors
/// The kernel reports no CPUs.
pub fn pinned(host: &Host) -> Result<NearPairs, String> {
    use Nearness::{CrossCache, CrossNode, SameCache, SameCpu, SmtSibling};
    let first = |kinds: &[Nearness]| kinds.iter().find_map(|n| pairs(*n, host).ok());
    // Without a report of the caches, no two cores are known to be near each other or far apart.
    let by_number = || {
        let cores: Vec<u32> = if host.cpus.is_empty() {
            host.cpus_allowed.clone()
        } else {
            one_per_core(&usable(host)).iter().map(|c| c.cpu).collect()
        };
        let cpus: Vec<_> = cores.chunks_exact(2).map(|c| (c[0], c[1])).collect();
        let &(a, b) = cpus.first()?;
        let shares = host.shared(a, b);
        Some(NearPairs { cpus, shares })
    };
    first(&[SameCache, CrossCache, CrossNode])
        .or_else(by_number)
        .or_else(|| first(&[SmtSibling]))
        .map_or_else(|| pairs(SameCpu, host), Ok)
}

/// The best CPU of a nearness to an anchor: one of `avoid` only if there is no other.
///
/// # Errors
/// Why there is none, with the remedy.
pub fn cpu_near(
    nearness: Nearness,
    anchor: u32,
    avoid: &[u32],
    host: &Host,
) -> Result<u32, String> {
    let usable = usable(host);
    let Some(anchor_cpu) = host.cpus.iter().find(|c| c.cpu == anchor) else {
        return Err(format!("CPU {anchor} is not online"));
    };
    let mut fits: Vec<&Cpu> = (usable.iter().copied())
        .filter(|c| holds(nearness, anchor_cpu, c, host))
        .collect();
    fits.sort_by_key(|c| (avoid.contains(&c.cpu), c.kind, c.cpu));
    match fits.first() {
        Some(cpu) => Ok(cpu.cpu),
        None => Err(format!(
            "no CPU that this process may use is {} to CPU {anchor}: {}",
            nearness.name(),
            missing(nearness, host, &usable)
        )),
    }
}

/// The reason why this process cannot use a CPU (there is no such CPU, it is offline, or not allowed),
/// with the remedy; none if it can.
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
        let online = cpulist::write(&host.cpus.iter().map(|c| c.cpu).collect::<Vec<_>>());
        return Some(format!(
            "there is no CPU {cpu} here ({online} are): choose among {allowed}"
        ));
    }
    Some(format!(
        "CPU {cpu} is not among those that this process may use ({allowed}): choose others, or widen the set with `taskset` or the cpuset"
    ))
}

/// The CPUs that are online and allowed, those of the fastest kind first.
pub(crate) fn usable(host: &Host) -> Vec<&Cpu> {
    let allowed = |c: &&Cpu| host.cpus_allowed.is_empty() || host.cpus_allowed.contains(&c.cpu);
    let mut cpus: Vec<&Cpu> = host.cpus.iter().filter(allowed).collect();
    cpus.sort_by_key(|c| (c.kind, c.cpu));
    cpus
}

fn one_per_core<'h>(cpus: &[&'h Cpu]) -> Vec<&'h Cpu> {
    let mut firsts: Vec<&Cpu> = Vec::new();
    for cpu in cpus {
        if firsts.iter().all(|f| !f.siblings.contains(&cpu.cpu)) {
            firsts.push(cpu);
        }
    }
    firsts
}

/// Disjoint pairs of a nearness: each CPU with the nearest that is still free, of its own kind; of
/// different kinds only if there is no pair of one kind.
fn disjoint_pairs(cpus: &[&Cpu], host: &Host, nearness: Nearness) -> Vec<(u32, u32)> {
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
            if let Some((index, b)) = best {
                pairs.push((a.cpu, b.cpu));
                free.remove(index);
            }
        }
        if !pairs.is_empty() {
            return pairs;
        }
    }
    Vec::new()
}

/// Returns true if two CPUs have a nearness.
fn holds(nearness: Nearness, a: &Cpu, b: &Cpu, host: &Host) -> bool {
    let same_core = a.siblings.contains(&b.cpu);
    let has_cache = |c: &Cpu| (host.caches.iter()).any(|cache| cache.shared_by.contains(&c.cpu));
    match nearness {
        Nearness::SameCpu => a.cpu == b.cpu,
        Nearness::SmtSibling => same_core && a.cpu != b.cpu,
        Nearness::SameCache => !same_core && host.common_cache(a.cpu, b.cpu).is_some(),
        Nearness::CrossCache => {
            !same_core
                && a.node == b.node
                && has_cache(a)
                && has_cache(b)
                && host.common_cache(a.cpu, b.cpu).is_none()
        }
        Nearness::CrossNode => a.node.is_some() && b.node.is_some() && a.node != b.node,
    }
}

/// The reason why no usable CPUs have a nearness, with the remedy.
fn missing(nearness: Nearness, host: &Host, usable: &[&Cpu]) -> String {
    let unrestricted = Host {
        cpus_allowed: Vec::new(),
        ..host.clone()
    };
    if usable.len() < host.cpus.len() && pairs(nearness, &unrestricted).is_ok() {
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

/// The remedy for too few CPUs.
fn widen(host: &Host) -> &'static str {
    if host.cpus.len() > host.cpus_allowed.len() {
        "widen the set with `taskset`, or the cpuset of the container or slice"
    } else {
        "a machine with more CPUs"
    }
}
