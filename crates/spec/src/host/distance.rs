//! The distance of two CPUs, as far as the kernel reports the topology.

use super::{Cpu, CpuCache, Host};
use crate::cell::Nearness;
use crate::units::bytes_in_words;

/// The distance of two CPUs. The order is from near to far, as far as the topology is known.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Distance {
    /// Its name; none where the kernel reports too little for one.
    pub nearness: Option<Nearness>,
    /// Level of the nearest data cache that two cores share.
    pub cache_level: Option<u32>,
    /// True if two cores that share a cache belong to different clusters, which the kernel forms
    /// below that cache.
    pub crosses_clusters: bool,
    /// The two NUMA nodes, the lower one first; none on one node.
    pub nodes: Option<(u32, u32)>,
    /// Their kinds of core, the faster one first.
    pub kinds: (u32, u32),
}

impl Distance {
    /// The distance without the numbers of nodes and the kinds of core: equal for equivalent pairs.
    pub fn class(&self) -> Distance {
        Distance {
            nodes: self.nodes.map(|_| (0, 1)),
            kinds: (0, 0),
            ..self.clone()
        }
    }
}

impl Host {
    /// The CPU with this number.
    pub fn cpu(&self, number: u32) -> Option<&Cpu> {
        self.cpus.iter().find(|c| c.cpu == number)
    }

    /// The nearest data cache that both CPUs use.
    pub fn common_cache(&self, a: u32, b: u32) -> Option<&CpuCache> {
        (self.caches.iter())
            .filter(|c| c.kind != "Instruction")
            .filter(|c| c.shared_by.contains(&a) && c.shared_by.contains(&b))
            .min_by_key(|c| c.level)
    }

    /// The distance of two CPUs; the nearer name where two fit, as on a machine whose nodes share a
    /// cache.
    pub fn distance(&self, a: u32, b: u32) -> Distance {
        let both = self.cpu(a).zip(self.cpu(b));
        let nodes = both
            .and_then(|(x, y)| x.node.zip(y.node))
            .filter(|(x, y)| x != y);
        let cache_level = self.common_cache(a, b).map(|cache| cache.level);
        let has_cache = |cpu: u32| self.caches.iter().any(|c| c.shared_by.contains(&cpu));
        let is_core = both.is_some_and(|(x, _)| x.siblings.contains(&b));
        let nearness = match (is_core, cache_level, nodes) {
            _ if a == b => Some(Nearness::SameCpu),
            (true, _, _) => Some(Nearness::SmtSibling),
            (false, Some(_), _) => Some(Nearness::SameCache),
            (false, None, Some(_)) => Some(Nearness::CrossNode),
            (false, None, None) => (has_cache(a) && has_cache(b)).then_some(Nearness::CrossCache),
        };
        // Threads of one core share all of its caches.
        let is_within = a == b || is_core;
        let kinds = both.map_or((0, 0), |(x, y)| (x.kind, y.kind));
        Distance {
            nearness,
            cache_level: cache_level.filter(|_| !is_within),
            crosses_clusters: nearness == Some(Nearness::SameCache)
                && both.is_some_and(|(x, y)| {
                    !x.cluster.is_empty() && !y.cluster.is_empty() && !x.cluster.contains(&b)
                }),
            nodes: nodes.map(|(x, y)| (x.min(y), x.max(y))),
            kinds: (kinds.0.min(kinds.1), kinds.0.max(kinds.1)),
        }
    }

    /// The resource that two CPUs share, in words: `a core`, `the L3 of 32 MiB`, `nothing: nodes 0 and 1`.
    pub fn shared(&self, a: u32, b: u32) -> String {
        let (Some(x), Some(y)) = (self.cpu(a), self.cpu(b)) else {
            return "nothing that the kernel reports".to_owned();
        };
        if a == b {
            return "all".to_owned();
        }
        if x.siblings.contains(&b) {
            return "a core".to_owned();
        }
        if let Some(cache) = self.common_cache(a, b) {
            let size = bytes_in_words(cache.size_bytes);
            return format!("the L{} of {size}", cache.level);
        }
        match (x.node, y.node) {
            (Some(n), Some(m)) if n == m => format!("node {n}, and no cache"),
            (Some(n), Some(m)) => format!("nothing: nodes {n} and {m}"),
            _ => "no cache".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two nodes of two cores with two threads each; the cores of node 0 share a cache.
    fn host() -> Host {
        let cpu = |n: u32| Cpu {
            cpu: n,
            node: Some(n / 2 % 2),
            siblings: vec![n % 4, n % 4 + 4],
            kind: n / 2 % 2,
            ..Cpu::default()
        };
        let cache = |level, cpus: &[u32]| CpuCache {
            level,
            kind: "Unified".into(),
            size_bytes: 32 << 20,
            shared_by: cpus.to_vec(),
        };
        Host {
            cpus: (0..8).map(cpu).collect(),
            caches: vec![
                cache(3, &[0, 1, 4, 5]),
                cache(2, &[0, 4]),
                cache(2, &[2, 6]),
                cache(2, &[3, 7]),
            ],
            ..Host::default()
        }
    }

    #[test]
    fn a_distance_is_symmetric_and_named_for_the_shared_resource() {
        use Nearness::{CrossCache, CrossNode, SameCache, SameCpu, SmtSibling};
        let host = host();
        let from_near_to_far = [
            (0, 0, SameCpu, None, "all"),
            (0, 4, SmtSibling, None, "a core"),
            (0, 1, SameCache, Some(3), "the L3 of 32 MiB"),
            (2, 3, CrossCache, None, "node 1, and no cache"),
            (5, 2, CrossNode, None, "nothing: nodes 0 and 1"),
        ];
        let distances = from_near_to_far.map(|(a, b, nearness, level, shared)| {
            let distance = host.distance(a, b);
            let found = (distance.nearness, distance.cache_level);
            assert_eq!(found, (Some(nearness), level), "{a}:{b}");
            assert_eq!(distance, host.distance(b, a), "{a}:{b}");
            assert_eq!(host.shared(a, b), shared);
            distance
        });
        assert!(distances.is_sorted(), "{distances:?}");
        let far = &distances[4];
        assert_eq!((far.nodes, far.kinds), (Some((0, 1)), (0, 1)));
        assert_eq!(host.distance(0, 9).nearness, None);
        assert_eq!(host.shared(0, 9), "nothing that the kernel reports");
    }
}
