//! CPUs and caches, from sysfs (the kernel's Documentation/ABI/stable/sysfs-devices-system-cpu).

use std::collections::BTreeMap;

use bytecost_spec::host::{Cache, Cpu};

use crate::cpulist;
use crate::roots::Roots;

/// The most caches of one CPU that are looked at.
const MOST_CACHES: u32 = 16;
const CPUS: &str = "devices/system/cpu";

/// The CPUs online.
pub(crate) fn cpus(roots: &Roots) -> Vec<Cpu> {
    let nodes = nodes(roots);
    online(roots)
        .into_iter()
        .map(|cpu| {
            let dir = format!("{CPUS}/cpu{cpu}");
            let topology = |file: &str| -> Option<u32> {
                // -1 where the firmware says nothing.
                roots
                    .sys(&format!("{dir}/topology/{file}"))
                    .ok()?
                    .parse()
                    .ok()
            };
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
            }
        })
        .collect()
}

/// The caches of these CPUs, each once, in the order of their first CPU and index.
pub(crate) fn caches(roots: &Roots, cpus: &[Cpu]) -> Vec<Cache> {
    let mut caches: Vec<Cache> = Vec::new();
    for cpu in cpus {
        for index in 0..MOST_CACHES {
            let dir = format!("{CPUS}/cpu{}/cache/index{index}", cpu.cpu);
            let Some(cache) = cache(roots, &dir, cpu.cpu) else {
                continue;
            };
            // One that an earlier CPU shares was noted there.
            let known = cache
                .shared_by
                .first()
                .is_some_and(|first| *first < cpu.cpu)
                && caches.contains(&cache);
            if !known {
                caches.push(cache);
            }
        }
    }
    caches
}

fn cache(roots: &Roots, dir: &str, cpu: u32) -> Option<Cache> {
    let file = |name: &str| roots.sys(&format!("{dir}/{name}")).ok();
    Some(Cache {
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

fn online(roots: &Roots) -> Vec<u32> {
    list(roots, &format!("{CPUS}/online"))
        .filter(|cpus| !cpus.is_empty())
        .unwrap_or_else(|| counted(roots))
}

/// The CPUs that /proc/stat has a line for, where sysfs is not to be had.
fn counted(roots: &Roots) -> Vec<u32> {
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

/// Node by CPU.
fn nodes(roots: &Roots) -> BTreeMap<u32, u32> {
    const NODES: &str = "devices/system/node";
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
