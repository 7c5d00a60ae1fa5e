//! The facts of recorded machines.

use crate::common;

use bytecost_host::{Roots, read};
use bytecost_spec::host::CpuCache;
use bytecost_spec::{Host, cpulist};
use common::{MACHINES, Unpacked, change, host, probes, tree, unpacked};

/// A host's caches in the kernel's words: level, kind, KiB, CPUs.
fn caches(host: &Host) -> Vec<String> {
    let in_words = |c: &CpuCache| {
        let (level, kind, kib) = (c.level, &c.kind, c.size_bytes / 1024);
        format!("L{level} {kind} {kib}K {}", cpulist::write(&c.shared_by))
    };
    host.caches.iter().map(in_words).collect()
}

#[test]
fn kernel_distribution_and_model_are_read() {
    let table = [
        "vm | 6.18.44 | Debian GNU/Linux 12 (bookworm) | x86_64 | AMD EPYC | KVM",
        "laptop | 6.17.8-300.fc43.x86_64 | Fedora Linux 43 (Workstation Edition) | x86_64 | 12th Gen Intel(R) Core(TM) i7-1260P | none",
        "server | 5.14.0-611.5.1.el9_7.x86_64 | Red Hat Enterprise Linux 9.7 (Plow) | this one's | Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz | none",
        "arm | 6.8.0-87-generic | Ubuntu 24.04.3 LTS | aarch64 | Neoverse-N1 | none",
        "container | 6.12.57+deb13-cloud-amd64 | Alpine Linux v3.22 | x86_64 | AMD EPYC 9R14 | KVM (Amazon EC2), container",
    ];
    for row in table {
        let (machine, expected) = row.split_once(" | ").unwrap();
        let host = host(machine);
        let distribution = host.distribution.as_deref().unwrap();
        let virtualization = host.virtualization.as_deref().unwrap_or("none");
        let named = [
            &host.kernel,
            distribution,
            &host.architecture,
            &host.cpu_model,
            virtualization,
        ];
        assert_eq!(
            named.join(" | "),
            expected.replace("this one's", std::env::consts::ARCH)
        );
    }
}

#[test]
fn machine_boot_and_settings_are_read_and_the_machine_id_is_not_kept() {
    let host = host("vm");
    let it = &host.identity;
    let hash = "d92da27fcb3a685c763c09980f4b05b2";
    assert_eq!(it.machine_id_hash.as_deref(), Some(hash));
    let text = format!("{host:?}");
    assert!(!text.contains("0123456789abcdef0123456789abcdef"));
    let boot = "8e4b9a52-6d0f-4f0c-9f6b-1d3c2a7e5b10";
    assert_eq!(it.boot_id.as_deref(), Some(boot));
    assert!(it.kernel_version.as_deref().unwrap().starts_with("#1 SMP"));
    let line = it.kernel_command_line.as_deref().unwrap();
    assert!(line.starts_with("mitigations=auto,"), "{line}");
    assert_eq!(it.microcode.as_deref(), Some("0x1000065"));
    let settings: Vec<(&str, &str)> = it.settings.iter().map(|(k, v)| (&**k, &**v)).collect();
    assert!(settings.contains(&("net.ipv4.tcp_rmem", "4096 131072 6291456")));
    assert!(settings.contains(&("net.ipv4.tcp_sack", "1")));
    assert!(settings.contains(&("transparent_hugepage/enabled", "madvise")));
    // The phone has no boot id.
    assert_eq!(common::host("phone").identity.boot_id, None);
}

#[test]
fn cores_packages_and_nodes_are_exact() {
    let laptop = host("laptop");
    assert_eq!(laptop.cpus.len(), 16);
    assert_eq!(laptop.cpus[5].siblings, [4, 5]);
    assert_eq!(laptop.cpus[5].core, Some(8));
    assert_eq!(laptop.cpus[9].siblings, [9]);
    assert_eq!(laptop.cpus[9].governor.as_deref(), Some("powersave"));

    let server = host("server");
    let places = |cpu: usize| {
        let cpu = &server.cpus[cpu];
        (cpu.package, cpu.core, cpu.node, cpu.siblings.clone())
    };
    assert_eq!(places(0), (Some(0), Some(0), Some(0), vec![0, 8]));
    assert_eq!(places(7), (Some(1), Some(3), Some(1), vec![7, 15]));
    assert_eq!(places(9), (Some(0), Some(1), Some(0), vec![1, 9]));

    let arm = host("arm");
    assert_eq!(arm.cpus[2].package, None, "-1 is no package");
    assert_eq!(arm.cpus[2].core, Some(256));

    let container = host("container");
    assert_eq!(container.cpus.len(), 8);
    assert_eq!(container.cpus_allowed, [4, 5]);
    assert_eq!(container.cpus[0].governor, None);
}

#[test]
fn each_cache_is_listed_once_with_those_that_share_it() {
    assert_eq!(
        caches(&host("vm")),
        [
            "L1 Data 32K 0",
            "L1 Instruction 32K 0",
            "L2 Unified 512K 0",
            "L3 Unified 32768K 0-1",
            "L1 Data 32K 1",
            "L1 Instruction 32K 1",
            "L2 Unified 512K 1",
        ]
    );
    let laptop = caches(&host("laptop"));
    assert_eq!(laptop.len(), 4 * 3 + 1 + 8 * 2 + 2);
    for cache in [
        "L2 Unified 1280K 6-7",
        "L2 Unified 2048K 8-11",
        "L2 Unified 2048K 12-15",
        "L1 Instruction 64K 15",
        "L3 Unified 18432K 0-15",
    ] {
        assert_eq!(laptop.iter().filter(|c| *c == cache).count(), 1, "{cache}");
    }
    let server = caches(&host("server"));
    assert_eq!(server.len(), 8 * 3 + 2);
    assert!(server.contains(&"L3 Unified 49152K 4-7,12-15".to_owned()));
    assert_eq!(caches(&host("arm")).len(), 4 * 3);
}

#[test]
fn limits_and_memory_are_exact() {
    // CAP_IPC_LOCK in a user namespace lifts nothing; its own network lacks optmem_max.
    let table = "vm Some(8388608) true 20000 Some(131072) 25274793984
        laptop Some(8388608) false 1024 Some(131072) 33322029056
        server None true 1048576 Some(81920) 270109904896
        arm Some(8405442560) false 1024 Some(20480) 67240153088
        container Some(65536) false 256 None 33322029056";
    for row in table.lines() {
        let (machine, expected) = row.trim().split_once(' ').unwrap();
        let host = host(machine);
        let (locked, exempt) = (host.memlock_limit_bytes, host.memlock_exempt);
        let (files, optmem) = (host.nofile_limit, host.optmem_max_bytes);
        let limits = format!(
            "{locked:?} {exempt} {files} {optmem:?} {}",
            host.memory_bytes
        );
        assert_eq!(limits, expected, "{machine}");
    }
    let first = change("proc/self/uid_map", "0 0 4294967295\n");
    let host = unpacked("container").read(&[first], &probes());
    assert!(host.memlock_exempt, "in the first user namespace it does");
}

#[test]
fn congestion_controls_are_listed() {
    let vm = host("vm");
    assert_eq!(vm.congestion_default.as_deref(), Some("bbr"));
    assert_eq!(vm.congestion_available, ["reno", "bbr", "cubic"]);
}

#[test]
fn hypervisors_and_containers_are_recognised() {
    let laptop = unpacked("laptop");
    let with = |changes: &[(&str, &str)]| {
        let files: Vec<_> = changes.iter().map(|(p, c)| change(p, c)).collect();
        laptop.read(&files, &probes()).virtualization
    };
    let vendor = "sys/class/dmi/id/sys_vendor";
    let product = "sys/class/dmi/id/product_name";
    let cgroup = "proc/self/cgroup";
    let flags = "proc/cpuinfo";
    let compatible = "proc/device-tree/hypervisor/compatible";
    for (changes, expected) in [
        (&[][..], None),
        (&[(vendor, "QEMU")], Some("QEMU")),
        (&[(product, "KVM")], Some("KVM")),
        (&[(vendor, "VMware, Inc.")], Some("VMware")),
        (&[(product, "Virtual Machine")], Some("Hyper-V")),
        (&[(vendor, "innotek GmbH")], Some("VirtualBox")),
        (&[("sys/hypervisor/type", "xen")], Some("xen")),
        (&[(flags, "flags : fpu hypervisor\n")], Some("a hypervisor")),
        (&[(flags, "flags : fpu nohypervisor\n")], None),
        (&[(compatible, "linux,kvm\0")], Some("kvm")),
        (&[(vendor, "Amazon EC2"), (product, "m7i.metal")], None),
        (
            &[(cgroup, "0::/kubepods.slice/pod1/x")],
            Some("container (kubernetes)"),
        ),
        (
            &[("proc/1/cgroup", "1:cpu:/docker/abc")],
            Some("container (docker)"),
        ),
    ] {
        assert_eq!(with(changes).as_deref(), expected, "{changes:?}");
    }
}

#[test]
fn arm_cores_that_are_not_known_keep_their_numbers() {
    let cpuinfo = change(
        "proc/cpuinfo",
        "CPU implementer\t: 0x41\nCPU part\t: 0xd03\n\nCPU implementer\t: 0x7f\nCPU part\t: 0x0ab\n",
    );
    let host = unpacked("arm").read(&[cpuinfo], &probes());
    let expected = "Cortex-A53 + Arm implementer 0x7f part 0x0ab";
    assert_eq!(host.cpu_model, expected);
}

#[test]
fn without_sysfs_the_cpus_are_counted() {
    let mut tree = tree("vm");
    tree.retain(|path, _| path.starts_with("proc/"));
    let host = Unpacked::new(tree).read(&[], &probes());
    let numbers: Vec<u32> = host.cpus.iter().map(|c| c.cpu).collect();
    assert_eq!(numbers, [0, 1]);
    assert_eq!(host.cpus[1].siblings, [1]);
    assert_eq!(host.cpus_allowed, [0, 1]);
    assert!(host.caches.is_empty());
}

#[test]
fn a_machine_without_any_file_is_read() {
    let empty = tempfile::tempdir().unwrap();
    let nothing = read(&Roots::under(empty.path()), &probes());
    assert_eq!(nothing.kernel, "unknown");
    assert_eq!(nothing.cpus, []);
    assert_eq!(nothing.checks.len(), host(MACHINES[0].0).checks.len());
}

#[test]
fn the_machine_that_this_runs_on_is_read() {
    let host = read(&Roots::real(), &probes());
    assert!(!host.cpus.is_empty() && !host.cpus_allowed.is_empty());
    assert!(host.kernel.contains('.'), "{}", host.kernel);
    assert!(host.memory_bytes > 1 << 20);
    assert!(host.nofile_limit > 2);
}
