//! The caches in which a sender looks for what it displaces.

use bytecost_spec::Host;
use bytecost_spec::host::CpuCache;

use super::Watch;

impl Watch {
    /// The caches that the sender is to look at: those of the CPU that it is held on, else those
    /// of the first.
    pub(crate) fn caches(&self, host: &Host, pins: &[Vec<u32>]) -> Vec<CpuCache> {
        if !self.probes {
            return Vec::new();
        }
        let first = host.cpus.first().map_or(0, |c| c.cpu);
        let cpu = pins.first().and_then(|set| set.first()).copied();
        caches_of(host, cpu.unwrap_or(first))
    }
}

/// The caches of data of a CPU, nearest first, each level once.
fn caches_of(host: &Host, cpu: u32) -> Vec<CpuCache> {
    let own = |c: &&CpuCache| c.kind != "Instruction" && c.shared_by.contains(&cpu);
    let mut caches: Vec<CpuCache> = host.caches.iter().filter(own).cloned().collect();
    caches.sort_by_key(|c| c.level);
    caches.dedup_by_key(|c| c.level);
    caches
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_caches_are_those_of_the_cpu_that_the_sender_is_held_on() {
        let cache = |level, kind: &str, size_bytes, cpu| CpuCache {
            level,
            kind: kind.to_owned(),
            size_bytes,
            shared_by: vec![cpu],
        };
        let both = |size_bytes| CpuCache {
            shared_by: vec![0, 1],
            ..cache(3, "Unified", size_bytes, 0)
        };
        let host = Host {
            caches: vec![
                both(32 << 20),
                cache(1, "Instruction", 1 << 10, 1),
                cache(1, "Data", 32 << 10, 0),
                cache(1, "Data", 48 << 10, 1),
                cache(2, "Unified", 1 << 20, 1),
            ],
            ..Host::default()
        };
        let sizes = |watch: &Watch, pins: &[Vec<u32>]| -> Vec<u64> {
            let caches = watch.caches(&host, pins);
            caches.iter().map(|c| c.size_bytes >> 10).collect()
        };
        let probing = Watch::of_footprint(Duration::from_millis(1));
        assert_eq!(sizes(&probing, &[]), [32, 32 << 10]);
        assert_eq!(sizes(&probing, &[vec![1, 0]]), [48, 1 << 10, 32 << 10]);
        let blind = Watch {
            probes: false,
            ..probing
        };
        assert_eq!(sizes(&blind, &[]), [0; 0]);
    }
}
