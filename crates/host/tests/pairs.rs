//! The pairs of CPUs that are chosen for each recorded machine.

use crate::common;

use std::collections::BTreeSet;

use bytecost_host::pairs::{self, MOST_CPUS};
use bytecost_host::placement;
use bytecost_spec::host::{Cpu, CpuCache, Distance};
use bytecost_spec::{Host, Nearness, cpulist};
use common::host;

/// Compares the chosen CPUs and the nearest pair.
fn check(machine: &str, cpus: &str, nearest: &str) {
    let host = host(machine);
    let chosen = pairs::choose(&host).unwrap();
    assert_eq!(cpulist::write(&chosen.cpus), cpus, "{machine}");
    assert_eq!(chosen.nearest(), nearest, "{machine}");
    check_invariants(machine, &host);
}

/// Asserts that every pair is there once, near ones first, that no class of distance is missing, and
/// that a note says if CPUs are left out.
fn check_invariants(machine: &str, host: &Host) {
    let chosen = pairs::choose(host).unwrap();
    let n = chosen.cpus.len();
    assert_eq!(n, chosen.usable.min(MOST_CPUS), "{machine}");
    let pairs = chosen.pairs.iter();
    let unordered: BTreeSet<(u32, u32)> =
        pairs.clone().map(|(a, b)| (*a.min(b), *a.max(b))).collect();
    assert_eq!(unordered.len(), n * (n + 1) / 2, "{machine}");
    assert_eq!(chosen.pairs.len(), unordered.len(), "{machine}");
    let classes: Vec<Distance> = pairs.map(|(a, b)| host.distance(*a, *b).class()).collect();
    assert!(classes.is_sorted(), "{machine}");
    for (a, b) in &chosen.pairs {
        for cpu in [a, b] {
            assert_eq!(placement::unusable_reason(*cpu, host), None, "{machine}");
        }
    }
    for nearness in Nearness::ALL {
        let has = placement::pairs(*nearness, host).is_ok();
        // A distance that fits two names has the nearer one.
        let is_covered = classes.iter().any(|c| c.nearness == Some(*nearness));
        assert_eq!(has, is_covered, "{machine} {nearness:?}");
    }
    assert_eq!(chosen.note(host).is_none(), n == chosen.usable, "{machine}");
    let again = pairs::choose(host).unwrap();
    assert_eq!(chosen, again, "{machine}: the same each time");
}

#[test]
fn small_machines_have_all_their_cpus_among_the_pairs() {
    check("vm", "0-1", "0:1");
    check("container", "4-5", "4:5");
    check("arm", "0-3", "0:1");
    check("phone", "0-7", "0:1");
}

#[test]
fn large_machines_have_each_distance_among_the_pairs() {
    for machine in ["laptop", "server", "epyc"] {
        let host = host(machine);
        assert!(host.cpus_allowed.len() > MOST_CPUS, "{machine}");
        check_invariants(machine, &host);
    }
    // A core of the same cluster is nearer than the next number, and all four nodes are there.
    check("kunpeng", "0-2,4-5,8-9,12", "0:2");
    let laptop = host("laptop");
    let kinds: BTreeSet<u32> = (pairs::choose(&laptop).unwrap().cpus.iter())
        .map(|cpu| laptop.cpu(*cpu).unwrap().kind)
        .collect();
    assert_eq!(kinds, [0, 1].into(), "fast cores and slow ones");
}

/// A host with 16 cores of two threads on each node.
fn large(nodes: u32) -> Host {
    let cores = 16 * nodes;
    let cpu = |n: u32| Cpu {
        cpu: n,
        node: Some(n % cores / 16),
        siblings: vec![n % cores, n % cores + cores],
        ..Cpu::default()
    };
    let of_node = |node: u32| {
        let first = 16 * node..16 * (node + 1);
        first.clone().chain(first.map(|n| n + cores)).collect()
    };
    let cache = |node| CpuCache {
        level: 3,
        kind: "Unified".into(),
        size_bytes: 32 << 20,
        shared_by: of_node(node),
    };
    Host {
        cpus: (0..2 * cores).map(cpu).collect(),
        cpus_allowed: (0..2 * cores).collect(),
        caches: (0..nodes).map(cache).collect(),
        ..Host::default()
    }
}

#[test]
fn of_many_cpus_a_few_are_chosen_with_a_note() {
    // 128 CPUs on four nodes.
    let host = large(4);
    check_invariants("128 CPUs", &host);
    let chosen = pairs::choose(&host).unwrap();
    let cpus = chosen.cpus.iter();
    let nodes: BTreeSet<_> = cpus.map(|c| host.cpu(*c).unwrap().node).collect();
    assert_eq!(nodes.len(), 4, "{:?}", chosen.cpus);
    let note = chosen.note(&host).unwrap();
    for part in [
        "stand for all 128",
        "share a core",
        "share the L3 of 32 MiB",
        "nodes 0 and 1",
    ] {
        assert!(note.contains(part), "{part}: {note}");
    }
    check_invariants("eight nodes", &large(8));
    check_invariants("one node", &large(1));
    let why = pairs::choose(&Host::default()).unwrap_err();
    assert!(why.contains("does not report the CPUs"), "{why}");
}
