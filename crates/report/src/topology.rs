//! The machine's CPUs as a map of a few lines: who shares what.

use bytecost_analysis::grouped;
use bytecost_spec::Host;
use bytecost_spec::host::Cpu;
use bytecost_spec::units::bytes_in_words;
use itertools::Itertools as _;

/// The most cores that a line names.
const MOST_CORES: usize = 64;

/// One line for each group of CPUs of one node, package, last cache and kind: its cores in order,
/// the hardware threads of a core joined by `+`. CPUs that may not be used stand in brackets.
pub(crate) fn lines(host: &Host) -> Vec<String> {
    let groups = grouped(host.cpus.iter().map(|cpu| (place(cpu, host), cpu)));
    let line = |(place, cpus): (String, Vec<&Cpu>)| format!("{place}: {}", cores(&cpus, host));
    groups.into_iter().map(line).collect()
}

fn place(cpu: &Cpu, host: &Host) -> String {
    let mut parts = Vec::new();
    parts.extend(cpu.node.map(|n| format!("node {n}")));
    parts.extend(cpu.package.map(|p| format!("package {p}")));
    let siblings = &cpu.siblings;
    let shared = (host.caches.iter())
        .filter(|c| c.kind != "Instruction" && c.shared_by.contains(&cpu.cpu))
        .filter(|c| c.shared_by.iter().any(|other| !siblings.contains(other)))
        .max_by_key(|c| c.level);
    if let Some(cache) = shared {
        // Two caches of one size are two all the same.
        let first = cache.shared_by.first().copied().unwrap_or(cpu.cpu);
        let several = host.caches.iter().any(|c| {
            c.level == cache.level && c.kind == cache.kind && c.shared_by != cache.shared_by
        });
        let mut words = format!("L{} {}", cache.level, bytes_in_words(cache.size_bytes));
        if several {
            words += &format!(" of CPU {first}");
        }
        parts.push(words);
    }
    match cpu.kind {
        0 if host.cpus.iter().all(|c| c.kind == 0) => {}
        0 => parts.push("fast cores".to_owned()),
        1 => parts.push("slower cores".to_owned()),
        n => parts.push(format!("cores of kind {n}")),
    }
    if parts.is_empty() {
        parts.push("no group is reported".to_owned());
    }
    parts.join(" · ")
}

fn cores(cpus: &[&Cpu], host: &Host) -> String {
    let name = |cpu: &u32| {
        if host.cpus_allowed.is_empty() || host.cpus_allowed.contains(cpu) {
            cpu.to_string()
        } else {
            format!("({cpu})")
        }
    };
    let first = |cpu: &&&Cpu| cpu.siblings.iter().min() == Some(&cpu.cpu);
    let core = |cpu: &&Cpu| cpu.siblings.iter().map(name).join("+");
    let mut names: Vec<String> = cpus.iter().filter(first).map(core).collect();
    let count = names.len();
    if count > MOST_CORES {
        names.truncate(MOST_CORES);
        names.push(format!("and {} more", count - MOST_CORES));
    }
    names.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytecost_spec::host::CpuCache;

    fn host(cpus: u32, cpu: impl Fn(u32) -> Cpu) -> Host {
        let cpu = |n| Cpu { cpu: n, ..cpu(n) };
        Host {
            cpus: (0..cpus).map(cpu).collect(),
            ..Host::default()
        }
    }

    #[test]
    fn groups_are_told_by_what_they_share() {
        let cpu = |n: u32| Cpu {
            package: Some(n / 2 % 2),
            node: Some(n / 2 % 2),
            siblings: vec![n % 4, n % 4 + 4],
            ..Cpu::default()
        };
        let cache = |cpus: [u32; 4]| CpuCache {
            level: 3,
            kind: "Unified".into(),
            size_bytes: 32 << 20,
            shared_by: cpus.to_vec(),
        };
        let host = Host {
            cpus_allowed: vec![0, 1, 2, 3, 4, 5, 6],
            caches: vec![cache([0, 1, 4, 5]), cache([2, 3, 6, 7])],
            ..host(8, cpu)
        };
        assert_eq!(
            lines(&host),
            [
                "node 0 · package 0 · L3 32 MiB of CPU 0: 0+4 1+5",
                "node 1 · package 1 · L3 32 MiB of CPU 2: 2+6 3+(7)",
            ]
        );
    }

    #[test]
    fn kinds_are_told_and_nothing_is_made_up() {
        let cpu = |n: u32| Cpu {
            siblings: vec![n],
            kind: n / 2,
            ..Cpu::default()
        };
        let kinds = ["fast cores: 0 1", "slower cores: 2 3"];
        assert_eq!(lines(&host(4, cpu)), kinds);
        assert_eq!(lines(&host(1, cpu)), ["no group is reported: 0"]);
    }
}
