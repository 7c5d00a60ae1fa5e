//! CPUs and memory nodes of placements and background loads, or their refusals.

use bytecost_spec::Host;
use bytecost_spec::host::{Cpu, CpuCache};

use super::{cell, refuses};
use crate::Pins;

/// Two nodes of two cores of two threads: 0 and 4, 1 and 5 on node 0; a cache for each node.
fn host() -> Host {
    let cpu = |n: u32| Cpu {
        cpu: n,
        node: Some(n / 2 % 2),
        siblings: vec![n % 4, n % 4 + 4],
        ..Cpu::default()
    };
    let cache = |cpus: [u32; 4]| CpuCache {
        level: 3,
        kind: "Unified".into(),
        size_bytes: 1 << 20,
        shared_by: cpus.to_vec(),
    };
    Host {
        cpus: (0..8).map(cpu).collect(),
        cpus_allowed: (0..8).collect(),
        cpus_offline: vec![8],
        caches: vec![cache([0, 1, 4, 5]), cache([2, 3, 6, 7])],
        memory_nodes: vec![0, 1],
        ..Host::default()
    }
}

fn pins(axes: &str, has_peer: bool, host: &Host) -> Result<Pins, String> {
    Pins::new(&cell(axes), has_peer, host)
}

#[test]
fn every_placement_becomes_cpus() {
    // `stream@same-cache` does not get the cache's other cores, which are taken, but a thread of one.
    let table = "| [] | [] | []
        background spin | [] | [] | []
        background spin@all | [] | [] | [0, 1, 2, 3, 4, 5, 6, 7]
        background awake | [] | [] | [0, 1, 2, 3, 4, 5, 6, 7]
        background spin@2,3 | [] | [] | [2, 3]
        placement 0-2 | [[0, 1, 2]] | [[0, 1, 2]] | []
        placement 0,2:1 | [[0], [2]] | [[1]] | []
        placement smt-sibling | [[0], [1], [2], [3]] | [[4], [5], [6], [7]] | []
        placement same-cache | [[0], [2]] | [[1], [3]] | []
        placement pinned | [[0], [2]] | [[1], [3]] | []
        placement cross-node; background chase@smt-sibling | [[0], [1]] | [[2], [3]] | [4]
        placement same-cache; background stream@same-cache | [[0], [2]] | [[1], [3]] | [5]
        placement 0:1; background spin@same-cpu | [[0]] | [[1]] | [0]";
    for row in table.lines() {
        let (axes, expected) = row.split_once('|').expect("a bar");
        let pins = pins(axes, true, &host()).unwrap();
        let found = format!(
            "{:?} | {:?} | {:?}",
            pins.sender, pins.receiver, pins.neighbour
        );
        assert_eq!(found, expected.trim(), "{axes}");
    }
}

#[test]
fn flows_without_a_peer_take_from_both_lists() {
    for (placement, expected) in [
        ("smt-sibling", &[0, 4, 1, 5][..]),
        ("same-cpu", &[0, 0, 1, 1]),
        ("cross-node", &[0, 2, 1, 3]),
        ("0:1", &[0, 1]),
        ("0:1,2", &[0, 1, 0, 2]),
    ] {
        let pins = pins(&format!("placement {placement}"), false, &host()).unwrap();
        let first: Vec<u32> = pins.sender.iter().take(4).map(|set| set[0]).collect();
        assert_eq!(first, expected, "{placement}");
        assert_eq!(pins.receiver, Vec::<Vec<u32>>::new());
    }
    let within = pins("placement 2-3", false, &host()).unwrap();
    assert_eq!(within.sender, [[2, 3]]);
}

#[test]
fn an_unavailable_placement_is_refused_with_the_reason() {
    let confined = Host {
        cpus_allowed: vec![1, 2],
        memory_nodes: vec![1],
        ..host()
    };
    for (host, table) in [
        (
            &confined,
            "placement 0:1 | CPU 0 is not among those that this process may use (1-2)
            placement smt-sibling | hardware threads share cores here, but not among
            mem-node 0 | node 1 is the only one with memory",
        ),
        (
            &host(),
            "placement 0-9 | CPU 8 is offline
            placement 1:9 | there is no CPU 9 here (0-7 are)
            placement cross-cache | choose cross-node
            mem-node 2 | may take memory from nodes 0-1
            background spin@8 | CPU 8 is offline
            background spin@same-cache | relative to the sender's CPU",
        ),
        (&Host::default(), "mem-node 0 | reports no memory nodes"),
    ] {
        refuses(table, |axes| pins(axes, true, host).err());
    }
}
