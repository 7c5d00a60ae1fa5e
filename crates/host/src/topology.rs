//! CPUs, caches and memory nodes, from sysfs (the kernel's
//! Documentation/ABI/stable/sysfs-devices-system-cpu).

use std::collections::BTreeMap;

use bytecost_spec::cpulist;
use bytecost_spec::host::{Cpu, CpuCache};

use crate::roots::Roots;

const MOST_CACHES: u32 = 16;
const CPUS: &str = "devices/system/cpu";
const NODES: &str = "devices/system/node";

/// The online CPUs in ascending order.
pub(crate) fn cpus(roots: &Roots) -> Vec<Cpu> {
    let nodes = nodes(roots);
    let online = online(roots);
    let kinds = kinds(roots, &online);
    online
        .into_iter()
        .map(|cpu| {
            let dir = format!("{CPUS}/cpu{cpu}");
            // -1, where the firmware does not report it, is no u32.
            let topology = |file: &str| roots.sys_as(&format!("{dir}/topology/{file}"));
            Cpu {
                cpu,
                package: topology("physical_package_id"),
                core: topology("core_id"),
                node: nodes.get(&cpu).copied(),
                siblings: list(roots, &format!("{dir}/topology/thread_siblings_list"))
                    .filter(|siblings| siblings.contains(&cpu))
                    .unwrap_or_else(|| vec![cpu]),
                governor: roots
                    .sys(&format!("{dir}/cpufreq/scaling_governor"))
                    .ok()
                    .filter(|governor| !governor.is_empty()),
                cluster: list(roots, &format!("{dir}/topology/cluster_cpus_list"))
                    .filter(|cluster| cluster.contains(&cpu))
                    .unwrap_or_default(),
                kind: kinds.get(&cpu).copied().unwrap_or(0),
            }
        })
        .collect()
}

/// The caches of these CPUs, each once, in the order of their first CPU and index.
pub(crate) fn caches(roots: &Roots, cpus: &[Cpu]) -> Vec<CpuCache> {
    let mut caches: Vec<CpuCache> = Vec::new();
    for cpu in cpus {
        for index in 0..MOST_CACHES {
            let dir = format!("{CPUS}/cpu{}/cache/index{index}", cpu.cpu);
            let Some(cache) = cache(roots, &dir, cpu.cpu) else {
                continue;
            };
            // A cache of an earlier CPU is in the list already.
            let is_of_earlier = (cache.shared_by.first()).is_some_and(|first| *first < cpu.cpu);
            if !(is_of_earlier && caches.contains(&cache)) {
                caches.push(cache);
            }
        }
    }
    caches
}

fn cache(roots: &Roots, dir: &str, cpu: u32) -> Option<CpuCache> {
    let file = |name: &str| roots.sys(&format!("{dir}/{name}")).ok();
    Some(CpuCache {
        level: file("level")?.parse().ok()?,
        kind: file("type")?,
        size_bytes: size(&file("size")?)?,
        shared_by: list(roots, &format!("{dir}/shared_cpu_list"))
            .filter(|shared| shared.contains(&cpu))
            .unwrap_or_else(|| vec![cpu]),
    })
}

/// A cache's size as sysfs writes it: `32K`.
fn size(text: &str) -> Option<u64> {
    let (digits, shift) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 10),
        b'M' => (&text[..text.len() - 1], 20),
        b'G' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let n: u64 = digits.parse().ok()?;
    n.checked_mul(1 << shift).filter(|bytes| *bytes > 0)
}

/// The CPUs that are present and not online. (The file `offline` has those as well that could be
/// plugged in.)
pub(crate) fn offline(roots: &Roots, online: &[Cpu]) -> Vec<u32> {
    let mut present = list(roots, &format!("{CPUS}/present")).unwrap_or_default();
    present.retain(|cpu| online.iter().all(|c| c.cpu != *cpu));
    present
}

/// The nodes with memory from which this process may allocate (Mems_allowed_list, cpuset(7)).
pub(crate) fn memory_nodes(roots: &Roots) -> Vec<u32> {
    let mut nodes = list(roots, &format!("{NODES}/has_memory"))
        .or_else(|| list(roots, &format!("{NODES}/online")))
        .unwrap_or_default();
    if let Some(list) = roots.proc_value("self/status", "Mems_allowed_list")
        && let Ok(allowed) = cpulist::parse(&list)
    {
        nodes.retain(|node| allowed.contains(node));
    }
    nodes
}

/// The kind of each CPU, 0 the fastest: by Intel's perf devices (`cpu_core`, `cpu_atom`), Arm's
/// capacities, or maximum frequencies that are far apart. Empty where all are alike.
fn kinds(roots: &Roots, online: &[u32]) -> BTreeMap<u32, u32> {
    let named = |kind: &str| list(roots, &format!("devices/cpu_{kind}/cpus"));
    if let (Some(fast), Some(slow)) = (named("core"), named("atom"))
        && !fast.is_empty()
    {
        return slow.into_iter().map(|cpu| (cpu, 1)).collect();
    }
    // Cores of one kind that turbo favours are rated a few percent higher than the others.
    for (file, min_share) in [("cpu_capacity", 0.95), ("cpufreq/cpuinfo_max_freq", 0.85)] {
        let number = |cpu: &u32| -> Option<(u32, u64)> {
            Some((*cpu, roots.sys_as(&format!("{CPUS}/cpu{cpu}/{file}"))?))
        };
        if let Some(mut rated) = online.iter().map(number).collect::<Option<Vec<_>>>() {
            rated.sort_by_key(|(_, rating)| std::cmp::Reverse(*rating));
            let ranks = ranks(&rated, min_share);
            if ranks.values().any(|rank| *rank > 0) {
                return ranks;
            }
        }
    }
    BTreeMap::new()
}

/// The kind of each CPU by falling ratings: a new kind begins with a rating below that share of the
/// highest of its kind.
fn ranks(rated: &[(u32, u64)], min_share: f64) -> BTreeMap<u32, u32> {
    let (mut rank, mut top) = (0, rated.first().map_or(0, |(_, rating)| *rating));
    let mut ranks = BTreeMap::new();
    for (cpu, rating) in rated {
        if (*rating as f64) < min_share * top as f64 {
            rank += 1;
            top = *rating;
        }
        ranks.insert(*cpu, rank);
    }
    ranks
}

fn online(roots: &Roots) -> Vec<u32> {
    list(roots, &format!("{CPUS}/online"))
        .filter(|cpus| !cpus.is_empty())
        .unwrap_or_else(|| online_by_stat(roots))
}

/// The CPUs with a line in /proc/stat, for machines without sysfs.
fn online_by_stat(roots: &Roots) -> Vec<u32> {
    let stat = roots.proc("stat").unwrap_or_default();
    let mut cpus: Vec<u32> = stat
        .lines()
        .filter_map(|line| line.strip_prefix("cpu")?.split(' ').next()?.parse().ok())
        .filter(|cpu| *cpu < cpulist::MOST)
        .collect();
    cpus.sort_unstable();
    cpus.dedup();
    cpus
}

/// The node of each CPU.
fn nodes(roots: &Roots) -> BTreeMap<u32, u32> {
    let mut by_cpu = BTreeMap::new();
    for node in list(roots, &format!("{NODES}/online")).unwrap_or_default() {
        let cpus = list(roots, &format!("{NODES}/node{node}/cpulist")).unwrap_or_default();
        by_cpu.extend(cpus.into_iter().map(|cpu| (cpu, node)));
    }
    by_cpu
}

fn list(roots: &Roots, path: &str) -> Option<Vec<u32>> {
    cpulist::parse(&roots.sys(path).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_sizes_have_a_unit() {
        for (text, bytes) in [
            ("32K", Some(32 << 10)),
            ("36608K", Some(36_608 << 10)),
            ("2M", Some(2 << 20)),
            ("512", Some(512)),
            ("0K", None),
            ("K", None),
            ("", None),
            ("-1K", None),
            ("99999999999999999999K", None),
            ("18446744073709551615K", None),
            ("3ü", None),
        ] {
            assert_eq!(size(text), bytes, "{text}");
        }
    }
}
