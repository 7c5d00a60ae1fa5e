//! The CPUs of named placements on recorded machines, and the reasons where there are none.

use crate::common;

use bytecost_host::placement::{self, NearPairs};
use bytecost_spec::{Host, Nearness, cpulist};
use common::{change, columns, host, probes, unpacked};

fn named(nearness: &str) -> Nearness {
    *Nearness::ALL.iter().find(|n| n.name() == nearness).unwrap()
}

/// The first pairs and what they share, or the reason.
fn in_words(found: Result<NearPairs, String>) -> String {
    match found {
        Ok(pairs) => {
            let listed = pairs.cpus.iter().take(3);
            let first: Vec<String> = listed.map(|(a, b)| format!("{a}:{b}")).collect();
            format!("{} share {}", first.join(" "), pairs.shares)
        }
        Err(why) => why,
    }
}

#[test]
fn each_machine_has_the_pairs_of_its_topology() {
    // Each row has a machine and the expected answer for each nearness.
    let table = "
        vm
            0:0 1:1 share all
            the kernel reports no two CPUs that share a core; a hypervisor may hide
            0:1 share the L3 of 32 MiB
            all cores that may be used share a cache
            the kernel reports one node
        # Fast cores first; the slow ones are paired by the nearer cache of their cluster.
        laptop
            0:0 1:1 2:2 share all
            0:1 2:3 4:5 share a core
            0:2 4:6 8:9 share the L3 of 18 MiB
            all cores that may be used share a cache
            the kernel reports one node
        server
            0:0 1:1 2:2 share all
            0:8 1:9 2:10 share a core
            0:1 2:3 4:5 share the L3 of 48 MiB
            all cores of a node share a cache here: choose cross-node
            0:4 1:5 2:6 share nothing: nodes 0 and 1
        epyc
            0:0 1:1 2:2 share all
            0:8 1:9 2:10 share a core
            0:1 2:3 4:5 share the L3 of 16 MiB
            0:2 1:3 4:6 share node 0, and no cache
            0:4 1:5 2:6 share nothing: nodes 0 and 1
        # The cluster's other core is nearer than the next number.
        kunpeng
            0:0 1:1 2:2 share all
            no two CPUs share a core here
            0:2 1:3 4:5 share the L3 of 24 MiB
            all cores of a node share a cache here: choose cross-node
            0:4 1:5 2:6 share nothing: nodes 0 and 1
        # Its last cache is not reported, so that no two cores are seen to share one.
        arm
            0:0 1:1 2:2 share all
            no two CPUs share a core here
            the kernel reports no two cores that share a cache
            0:1 2:3 share node 0, and no cache
            the kernel reports one node
        # Two of eight CPUs, which are the threads of one core.
        container
            4:4 5:5 share all
            4:5 share a core
            cores share caches here, but not among the CPUs that this process may use (4-5): widen the set
            all cores that may be used share a cache
            the kernel reports one node
        # The single fastest core has no like, so the next kind is paired.
        phone
            7:7 4:4 5:5 share all
            no two CPUs share a core here
            4:5 0:1 2:3 share the L3 of 8 MiB
            all cores that may be used share a cache
            the kernel reports one node";
    let rows: Vec<&str> = (table.lines().map(str::trim))
        .filter(|r| !r.is_empty() && !r.starts_with('#'))
        .collect();
    for machine in rows.chunks(6) {
        let host = host(machine[0]);
        for (nearness, expected) in Nearness::ALL.iter().zip(&machine[1..]) {
            let found = in_words(placement::pairs(*nearness, &host));
            assert!(
                found.starts_with(expected),
                "{machine:?} {nearness:?}: {found}"
            );
        }
    }
}

#[test]
fn pinned_ends_have_the_nearest_two_cores_or_else_threads_or_one_cpu() {
    let table = "vm |  | 0:1 share the L3 of 32 MiB
        laptop |  | 0:2 4:6 8:9 share the L3 of 18 MiB
        epyc |  | 0:1 2:3 4:5 share the L3 of 16 MiB
        epyc | 0,2 | 0:2 share node 0, and no cache
        server | 3,15 | 3:15 share nothing
        container |  | 4:5 share a core
        server | 5 | 5:5 share all";
    let pinned = |host: &Host| in_words(placement::pinned(host));
    for row in table.lines() {
        let [machine, allowed, expected] = columns(row);
        let mut host = host(machine);
        if !allowed.is_empty() {
            host.cpus_allowed = cpulist::parse(allowed).unwrap();
        }
        let found = pinned(&host);
        assert!(found.starts_with(expected), "{row}: {found}");
        // Without a report of the caches, any two cores serve.
        host.caches.clear();
        assert!(placement::pinned(&host).is_ok(), "{row}");
    }
    assert!(pinned(&Host::default()).contains("reports no CPUs"));
    let bare = Host {
        cpus_allowed: vec![2, 7],
        ..Host::default()
    };
    assert!(pinned(&bare).starts_with("2:7 share nothing that the kernel reports"));
}

#[test]
fn only_cpus_that_may_be_used_are_chosen() {
    let table = "smt-sibling | server | 4-7 | hardware threads share cores here, but not among the CPUs that this process may use (4-7)
        same-cache | server | 4-7 | 4:5 6:7 share the L3
        cross-node | server | 4-7 | there are several nodes here, but not among
        cross-node | server | 3,15 | 3:15 share nothing
        same-cpu | server | 5 | 5:5 share all
        same-cache | server | 5 | CPU 5 is the only one that this process may use: widen the set
        same-cache | laptop | 6-15 | 8:9 10:11 12:13 share the L2 of 2 MiB
        same-cache | laptop | 6,8 | 6:8 share the L3 of 18 MiB
        cross-cache | epyc | 0-1,8-9 | cores of one node share no cache here, but not among";
    for row in table.lines() {
        let [nearness, machine, allowed, expected] = columns(row);
        let mut host = host(machine);
        host.cpus_allowed = cpulist::parse(allowed).unwrap();
        let found = in_words(placement::pairs(named(nearness), &host));
        assert!(found.starts_with(expected), "{row}: {found}");
    }
}

#[test]
fn kinds_offline_cpus_and_memory_nodes_are_read() {
    let kinds = |machine: &str| -> Vec<u32> { host(machine).cpus.iter().map(|c| c.kind).collect() };
    assert_eq!(kinds("phone"), [2, 2, 2, 2, 1, 1, 1, 0]);
    assert_eq!(kinds("laptop")[6..10], [0, 0, 1, 1]);
    let favoured = kinds("epyc");
    assert!(favoured.iter().all(|k| *k == 0), "of the same kind");
    let path = "sys/devices/system/cpu/cpu1/cpufreq/cpuinfo_max_freq";
    let slow = change(path, "1800000\n");
    let mixed = unpacked("epyc").read(&[slow], &probes());
    let mixed_kinds: Vec<u32> = mixed.cpus[..3].iter().map(|c| c.kind).collect();
    assert_eq!(mixed_kinds, [0, 1, 0]);
    let epyc = host("epyc");
    // CPUs that could be plugged in do not count.
    assert_eq!(epyc.cpus_offline, [15]);
    assert_eq!(epyc.memory_nodes, [0, 1]);
    assert_eq!(host("kunpeng").memory_nodes, [0, 2, 3]);
    assert_eq!(host("kunpeng").cpus[2].cluster, [0, 2]);
    let status = "Cpus_allowed_list:\t0-3\nMems_allowed_list:\t1\n";
    let bound = change("proc/self/status", status);
    assert_eq!(unpacked("epyc").read(&[bound], &probes()).memory_nodes, [1]);
}

#[test]
fn a_cpu_that_cannot_be_used_has_a_reason() {
    let not_allowed = "CPU 0 is not among those that this process may use (4-5)";
    for (machine, cpu, expected) in [
        ("epyc", 14, ""),
        ("epyc", 15, "CPU 15 is offline"),
        ("epyc", 16, "there is no CPU 16 here (0-14 are)"),
        ("container", 5, ""),
        ("container", 0, not_allowed),
    ] {
        let reason = placement::unusable_reason(cpu, &host(machine)).unwrap_or_default();
        let fits = reason.starts_with(expected) && reason.is_empty() == expected.is_empty();
        assert!(fits, "{reason}");
    }
}

#[test]
fn a_cpu_near_another_is_none_of_those_to_avoid() {
    // Where there is no other, one that is in use is better than none.
    let table = "server | smt-sibling | 3 | none | 11
        server | same-cache | 0 | 0-1 | 2
        server | cross-node | 0 | 4 | 5
        server | same-cpu | 7 | 7 | 7
        vm | same-cache | 0 | 0-1 | 1
        vm | smt-sibling | 0 | none | no CPU that this process may use is smt-sibling to CPU 0
        epyc | cross-cache | 0 | none | 2
        epyc | smt-sibling | 7 | none | no CPU that this process may use is smt-sibling to CPU 7
        vm | same-cpu | 9 | none | CPU 9 is not online";
    for row in table.lines() {
        let [machine, nearness, anchor, avoid, expected] = columns(row);
        let avoided = cpulist::parse(avoid).unwrap_or_default();
        let cpu = anchor.parse().unwrap();
        match placement::cpu_near(named(nearness), cpu, &avoided, &host(machine)) {
            Ok(cpu) => assert_eq!(cpu.to_string(), expected, "{row}"),
            Err(why) => assert!(why.starts_with(expected), "{row}: {why}"),
        }
    }
}
