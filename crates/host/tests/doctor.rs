//! The checks of recorded machines.

use crate::common;

use bytecost_host::Probes;
use bytecost_spec::host::Level::{self, Good, Note, Warning};
use bytecost_spec::survey::CpuClock;
use common::{MACHINES, Unpacked, change, check, columns, host, probes, unpacked};

/// Holds a table against the checks. A line is a machine, the name of a check, its level, and a part of
/// its text.
fn check_all(table: &str) {
    for row in table.lines() {
        let [machine, name, level, needle] = columns(row);
        let host = host(machine);
        let check = check(&host, name);
        let remedy = check.remedy.as_deref().unwrap_or_default();
        let text = format!("{} | {} | {remedy}", check.found, check.means);
        assert_eq!(format!("{:?}", check.level), level, "{row}: {text}");
        assert!(text.contains(needle), "{row}: {text}");
    }
}

#[test]
fn processors() {
    check_all(
        "vm | kernel | Good | 6.18.44 on x86_64, Debian
        server | kernel | Note | before 6.0
        vm | CPUs | Note | 2 CPUs online, 2 cores, AMD EPYC
        server | CPUs | Good | 16 CPUs online, 8 cores, Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz, 2 packages
        container | CPUs | Note | this process may use 4-5
        laptop | kinds of cores | Warning | fast 0-7, slow 8-15
        laptop | kinds of cores | Warning | --placement 0:7
        arm | kinds of cores | Good | one kind
        vm | caches | Good | L1d 32 KiB, L2 512 KiB, L3 32 MiB shared by 2
        arm | caches | Good | L1d 64 KiB, L2 1 MiB
        laptop | SMT | Note | --placement 0:2
        server | SMT | Note | 0,8
        arm | SMT | Good | no two CPUs share a core
        vm | SMT | Good | under a hypervisor
        server | NUMA | Warning | taskset -c 0-3,8-11
        vm | NUMA | Good | one node
        vm | virtualization | Note | KVM
        laptop | virtualization | Good | none seen
        laptop | frequency governor | Warning | cpupower frequency-set -g performance
        server | frequency governor | Good | performance
        vm | frequency governor | Note | none
        laptop | turbo | Note | echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo
        arm | turbo | Note | echo 0 > /sys/devices/system/cpu/cpufreq/boost
        server | turbo | Good | off
        vm | mitigations | Note | vulnerable: spec_rstack_overflow, spec_store_bypass
        server | mitigations | Note | mitigations=off
        container | mitigations | Good | none needed",
    );
}

#[test]
fn permits() {
    check_all(
        "vm | perf_event_paranoid | Good | a capability that lifts it
        laptop | perf_event_paranoid | Warning | sysctl kernel.perf_event_paranoid=1
        vm | capabilities | Note | NET_ADMIN, NET_RAW, IPC_LOCK, SYS_ADMIN
        laptop | capabilities | Note | none
        container | capabilities | Note | in a user namespace
        server | capabilities | Good | BPF
        vm | locked memory | Good | 8 MiB, lifted by CAP_IPC_LOCK
        laptop | locked memory | Warning | ulimit -l 32768
        server | locked memory | Good | no limit
        arm | locked memory | Good | registered buffers
        arm | optmem | Warning | sysctl net.core.optmem_max=131072
        vm | optmem | Good | 128 KiB
        container | optmem | Note | not known
        laptop | socket buffers | Note | 208 KiB
        server | socket buffers | Good | 16 MiB
        container | open files | Note | ulimit -n 4096
        vm | open files | Good | 20000
        server | io_uring | Warning | kernel.io_uring_disabled = 2
        vm | congestion control | Note | bytecost sets cubic, which does not pace, for each socket
        container | congestion control | Note | bytecost sets reno, which does not pace
        laptop | congestion control | Good | cubic by default
        laptop | packet sockets | Warning | 2 packet sockets open
        vm | packet sockets | Good | none open",
    );
}

#[test]
fn noise() {
    check_all(
        "container | CPU quota | Warning | 1.50 CPUs: 150 ms in each 100 ms
        vm | CPU quota | Good | none
        laptop | CPU quota | Good | none
        server | CPU quota | Good | none
        arm | load | Warning | 3.50 in the last minute, 0 others
        container | load | Warning | 8 others running now
        server | load | Good | 0.00 in the last minute
        container | steal | Warning | 4.99 %
        server | steal | Good | 0.00 %
        vm | clock source | Good | tsc
        arm | clock source | Good | arch_sys_counter
        server | clock source | Warning | current_clocksource
        laptop | huge pages | Note | always
        vm | huge pages | Good | madvise
        container | huge pages | Note | not known
        server | NUMA balancing | Warning | sysctl kernel.numa_balancing=0
        vm | NUMA balancing | Good | off
        laptop | swap | Note | 1 area, 512 MiB in use
        arm | swap | Good | 1 area, unused
        vm | swap | Good | none
        vm | memory | Good | of 23.5 GiB
        container | memory | Warning | 0.9 GiB available",
    );
}

/// Compares a check of the recorded virtual machine, one file of which has another content.
#[track_caller]
fn checked(name: &str, path: &str, content: &str, level: Level, parts: &[&str]) {
    let host = unpacked("vm").read(&[change(path, content)], &probes());
    let check = check(&host, name);
    let remedy = check.remedy.as_deref().unwrap_or_default();
    let text = format!("{} | {} | {remedy}", check.found, check.means);
    assert_eq!(check.level, level, "{text}");
    assert!(parts.iter().all(|part| text.contains(part)), "{text}");
}

#[test]
fn settings_of_the_kernel_are_checked() {
    let range = "proc/sys/net/ipv4/ip_local_port_range";
    let few = ["40 (net.ipv4.ip_local_port_range)", "sysctl -w"];
    checked("ports", range, "40000\t40039\n", Warning, &few);
    checked("ports", range, "32768\t60999\n", Good, &["28232 for"]);
    checked("ports", range, "many", Note, &["not known"]);
    let sys = "sys/devices/system/cpu";
    let isolated = ["isolated 1", "--placement"];
    checked(
        "isolated CPUs",
        &format!("{sys}/isolated"),
        "1\n",
        Note,
        &isolated,
    );
    let nohz = ["nohz_full 1", "isolcpus and nohz_full"];
    checked(
        "isolated CPUs",
        &format!("{sys}/nohz_full"),
        "1",
        Note,
        &nohz,
    );
    checked(
        "isolated CPUs",
        &format!("{sys}/nohz_full"),
        "(null)",
        Good,
        &["none"],
    );
    let huge = "sys/kernel/mm/transparent_hugepage/enabled";
    checked(
        "huge pages",
        huge,
        "always madvise [never]",
        Note,
        &["never", "echo madvise"],
    );
}

#[test]
fn limits_of_the_process_are_checked() {
    let status = "TracerPid:\t7\nCpus_allowed_list:\t0-1\n";
    checked(
        "tracer",
        "proc/self/status",
        status,
        Warning,
        &["traced by process 7", "without it"],
    );
    let zeros = "0 ".repeat(15);
    let stat = format!("9 (x) R {zeros}5 {}0 0", "0 ".repeat(20));
    checked(
        "nice value",
        "proc/self/stat",
        &stat,
        Warning,
        &["nice 5", "--class nice:N"],
    );
    checked(
        "scheduler class",
        "proc/self/stat",
        &stat,
        Good,
        &["SCHED_OTHER"],
    );
    let limits = "Max stack size            524288               unlimited            bytes";
    let small = ["stack 512 KiB", "ulimit -s"];
    checked(
        "limits of a process",
        "proc/self/limits",
        limits,
        Warning,
        &small,
    );
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
    let half = found(&vm, &cpu("cpu", "50000", "100000"));
    assert_eq!(half, "0.500 CPUs: 50.0 ms in each 100 ms");
    assert_eq!(found(&vm, &cpu("cpu", "50000", "0")), "none");
    let mut nested = cpu("cpu,cpuacct/a", "-1", "100000").to_vec();
    nested.extend(cpu("cpu,cpuacct/a/b", "300000", "100000"));
    nested.push(change("proc/self/cgroup", "4:cpu,cpuacct:/a/b/c"));
    assert_eq!(found(&vm, &nested), "3.00 CPUs: 300 ms in each 100 ms");
    let parent = change("sys/fs/cgroup/user.slice/cpu.max", "200000 100000");
    let two = found(&laptop, &[parent]);
    assert_eq!(two, "2.00 CPUs: 200 ms in each 100 ms");
}

#[test]
fn probes_of_the_caller_are_rated() {
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
        ..probes()
    };
    let poor = Probes {
        hardware_counters: Err("ENOENT".into()),
        io_uring: Err("EPERM".into()),
        timer_overshoot_ns: 1_500_000,
        cpu_clock: clock(712),
        ..probes()
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
fn a_single_cpu_is_a_warning() {
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
    check_all(
        "laptop | smt-sibling | Good | CPUs 0:1 2:3 4:5 6:7; the first share a core
        laptop | same-cache | Good | --placement same-cache
        laptop | cross-node | Note | the kernel reports one node
        server | cross-node | Good | 0:4 1:5 2:6 3:7; the first share nothing: nodes 0 and 1
        server | same-cpu | Good | CPUs 0:0 1:1 2:2 3:3 and 12 more
        container | same-cache | Note | not among the CPUs that this process may use (4-5)
        vm | smt-sibling | Note | a hypervisor may hide
        vm | offline CPUs | Good | none
        epyc | offline CPUs | Note | echo 1 > /sys/devices/system/cpu/cpu15/online
        kunpeng | memory nodes | Note | 3 nodes: 0,2-3
        vm | memory nodes | Good | no memory to choose",
    );
}
