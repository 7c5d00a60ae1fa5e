//! What the checks say of recorded machines.

use crate::common;

use bytecost_host::Probes;
use bytecost_spec::host::Level::{self, Good, Note, Warning};
use bytecost_spec::survey::CpuClock;
use common::{MACHINES, Unpacked, change, check, host, probes, unpacked};

/// A check's level, and a part of what it found, means or advises.
fn says(machine: &str, name: &str, level: Level, needle: &str) {
    let host = host(machine);
    let check = check(&host, name);
    let remedy = check.remedy.as_deref().unwrap_or_default();
    let text = format!("{} | {} | {remedy}", check.found, check.means);
    assert_eq!(check.level, level, "{machine}, {name}: {text}");
    assert!(text.contains(needle), "{machine}, {name}: {text}");
}

#[test]
fn processors() {
    says("vm", "kernel", Good, "6.18.44 on x86_64, Debian");
    says("server", "kernel", Note, "before 6.0");
    says("vm", "CPUs", Note, "2 CPUs online, 2 cores, AMD EPYC");
    says(
        "server",
        "CPUs",
        Good,
        "16 CPUs online, 8 cores, Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz, 2 packages",
    );
    says("container", "CPUs", Note, "this process may use 4-5");
    says("laptop", "kinds of cores", Warning, "fast 0-7, slow 8-15");
    says("laptop", "kinds of cores", Warning, "--placement 0:7");
    says("arm", "kinds of cores", Good, "one kind");
    says(
        "vm",
        "caches",
        Good,
        "L1d 32 KiB, L2 512 KiB, L3 32 MiB shared by 2",
    );
    says("arm", "caches", Good, "L1d 64 KiB, L2 1 MiB");
    says("laptop", "SMT", Note, "--placement 0:2");
    says("server", "SMT", Note, "0,8");
    says("arm", "SMT", Good, "no two CPUs share a core");
    says("vm", "SMT", Good, "under a hypervisor");
    says("server", "NUMA", Warning, "taskset -c 0-3,8-11");
    says("vm", "NUMA", Good, "one node");
    says("vm", "virtualization", Note, "KVM");
    says("laptop", "virtualization", Good, "none seen");
    says(
        "laptop",
        "frequency governor",
        Warning,
        "cpupower frequency-set -g performance",
    );
    says("server", "frequency governor", Good, "performance");
    says("vm", "frequency governor", Note, "none");
    says(
        "laptop",
        "turbo",
        Note,
        "echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo",
    );
    says(
        "arm",
        "turbo",
        Note,
        "echo 0 > /sys/devices/system/cpu/cpufreq/boost",
    );
    says("server", "turbo", Good, "off");
    says(
        "vm",
        "mitigations",
        Note,
        "vulnerable: spec_rstack_overflow, spec_store_bypass",
    );
    says("server", "mitigations", Note, "mitigations=off");
    says("container", "mitigations", Good, "none needed");
}

#[test]
fn permits() {
    says(
        "vm",
        "perf_event_paranoid",
        Good,
        "a capability that lifts it",
    );
    says(
        "laptop",
        "perf_event_paranoid",
        Warning,
        "sysctl kernel.perf_event_paranoid=1",
    );
    says(
        "vm",
        "capabilities",
        Note,
        "NET_ADMIN, NET_RAW, IPC_LOCK, SYS_ADMIN",
    );
    says("laptop", "capabilities", Note, "none");
    says("container", "capabilities", Note, "in a user namespace");
    says("server", "capabilities", Good, "BPF");
    says("vm", "locked memory", Good, "8 MiB, lifted by CAP_IPC_LOCK");
    says("laptop", "locked memory", Warning, "ulimit -l 32768");
    says("server", "locked memory", Good, "no limit");
    says("arm", "locked memory", Good, "registered buffers");
    says(
        "arm",
        "optmem",
        Warning,
        "sysctl net.core.optmem_max=131072",
    );
    says("vm", "optmem", Good, "128 KiB");
    says("container", "optmem", Note, "not known");
    says("laptop", "socket buffers", Note, "208 KiB");
    says("server", "socket buffers", Good, "16 MiB");
    says("container", "open files", Note, "ulimit -n 4096");
    says("vm", "open files", Good, "20000");
    says(
        "server",
        "io_uring",
        Warning,
        "kernel.io_uring_disabled = 2",
    );
    says(
        "vm",
        "congestion control",
        Warning,
        "bytecost sets cubic for each socket",
    );
    says(
        "container",
        "congestion control",
        Warning,
        "modprobe tcp_cubic",
    );
    says("laptop", "congestion control", Good, "cubic by default");
    says("laptop", "packet sockets", Warning, "2 packet sockets open");
    says("vm", "packet sockets", Good, "none open");
}

#[test]
fn noise() {
    says(
        "container",
        "CPU quota",
        Warning,
        "1.50 CPUs: 150 ms in each 100 ms",
    );
    for machine in ["vm", "laptop", "server"] {
        says(machine, "CPU quota", Good, "none");
    }
    says("arm", "load", Warning, "3.50 in the last minute, 0 others");
    says("container", "load", Warning, "8 others running now");
    says("server", "load", Good, "0.00 in the last minute");
    says("container", "steal", Warning, "4.99 %");
    says("server", "steal", Good, "0.00 %");
    says("vm", "clock source", Good, "tsc");
    says("arm", "clock source", Good, "arch_sys_counter");
    says("server", "clock source", Warning, "current_clocksource");
    says("laptop", "huge pages", Note, "always");
    says("vm", "huge pages", Good, "madvise");
    says("container", "huge pages", Note, "not known");
    says(
        "server",
        "NUMA balancing",
        Warning,
        "sysctl kernel.numa_balancing=0",
    );
    says("vm", "NUMA balancing", Good, "off");
    says("laptop", "swap", Note, "1 area, 512 MiB in use");
    says("arm", "swap", Good, "1 area, unused");
    says("vm", "swap", Good, "none");
    says("vm", "memory", Good, "of 23.5 GiB");
    says("container", "memory", Warning, "0.9 GiB available");
}

#[test]
fn quotas_are_found_in_both_versions_and_on_every_level() {
    let cpu = |path: &str, quota: &str, period: &str| {
        let dir = format!("sys/fs/cgroup/{path}");
        [
            change(&format!("{dir}/cpu.cfs_quota_us"), quota),
            change(&format!("{dir}/cpu.cfs_period_us"), period),
        ]
    };
    let (vm, laptop) = (unpacked("vm"), unpacked("laptop"));
    let found = |machine: &Unpacked, changes: &[_]| {
        let host = machine.read(changes, &probes());
        check(&host, "CPU quota").found.clone()
    };
    assert_eq!(
        found(&vm, &cpu("cpu", "50000", "100000")),
        "0.500 CPUs: 50.0 ms in each 100 ms"
    );
    assert_eq!(found(&vm, &cpu("cpu", "50000", "0")), "none");
    let mut nested = cpu("cpu,cpuacct/a", "-1", "100000").to_vec();
    nested.extend(cpu("cpu,cpuacct/a/b", "300000", "100000"));
    nested.push(change("proc/self/cgroup", "4:cpu,cpuacct:/a/b/c"));
    assert_eq!(found(&vm, &nested), "3.00 CPUs: 300 ms in each 100 ms");
    let parent = change("sys/fs/cgroup/user.slice/cpu.max", "200000 100000");
    assert_eq!(
        found(&laptop, &[parent]),
        "2.00 CPUs: 200 ms in each 100 ms"
    );
}

#[test]
fn probes_are_told_as_the_caller_found_them() {
    let vm = unpacked("vm");
    let with = |probes: &Probes, name: &str| {
        let host = vm.read(&[], probes);
        let check = check(&host, name);
        (check.level, format!("{} | {}", check.found, check.means))
    };
    let clock = |cpu_ns| CpuClock {
        tries: 10,
        elapsed_ns: 1000,
        cpu_ns,
        ..CpuClock::default()
    };
    let fine = Probes {
        hardware_counters: Ok(()),
        io_uring: Ok(()),
        clock_resolution_ns: 1,
        timer_overshoot_ns: 55_000,
        cpu_clock: clock(998),
        obstacles: Vec::new(),
        unseen: Vec::new(),
    };
    let poor = Probes {
        hardware_counters: Err("ENOENT".into()),
        io_uring: Err("EPERM".into()),
        clock_resolution_ns: 4_000_000,
        timer_overshoot_ns: 1_500_000,
        cpu_clock: clock(712),
        obstacles: Vec::new(),
        unseen: Vec::new(),
    };
    for (name, level, needle) in [
        ("hardware counters", Note, "not available: ENOENT"),
        ("io_uring", Warning, "does not work: EPERM"),
        ("clock resolution", Warning, "4,000,000 ns"),
        ("timers", Note, "1,500 µs late"),
        ("CPU clock", Warning, "71.2 % of elapsed time"),
    ] {
        assert_eq!(with(&fine, name).0, Good, "{name}");
        let (found, text) = with(&poor, name);
        assert_eq!(found, level, "{name}");
        assert!(text.contains(needle), "{text}");
    }
}

#[test]
fn a_cpu_alone_is_a_warning() {
    let status = change("proc/self/status", "CapEff: 0\nCpus_allowed_list:\t1\n");
    let host = unpacked("vm").read(&[status], &probes());
    assert_eq!(host.cpus_allowed, [1]);
    assert_eq!(check(&host, "CPUs").level, Warning);
}

#[test]
fn every_warning_says_what_to_do() {
    for (machine, _) in MACHINES {
        for check in host(machine).checks {
            let remedied = check.remedy.is_some();
            assert!(check.level != Warning || remedied, "{machine}: {check:?}");
        }
    }
}

#[test]
fn placements() {
    says(
        "laptop",
        "smt-sibling",
        Good,
        "CPUs 0:1 2:3 4:5 6:7; the first share a core",
    );
    says("laptop", "same-cache", Good, "--placement same-cache");
    says("laptop", "cross-node", Note, "the kernel reports one node");
    says(
        "server",
        "cross-node",
        Good,
        "0:4 1:5 2:6 3:7; the first share nothing: nodes 0 and 1",
    );
    says(
        "server",
        "same-cpu",
        Good,
        "CPUs 0:0 1:1 2:2 3:3 and 12 more",
    );
    says(
        "container",
        "same-cache",
        Note,
        "not among the CPUs that this process may use (4-5)",
    );
    says("vm", "smt-sibling", Note, "a hypervisor may hide");
    says("vm", "offline CPUs", Good, "none");
    says(
        "epyc",
        "offline CPUs",
        Note,
        "echo 1 > /sys/devices/system/cpu/cpu15/online",
    );
    says("kunpeng", "memory nodes", Note, "3 nodes: 0,2-3");
    says("vm", "memory nodes", Good, "no memory to choose");
}
