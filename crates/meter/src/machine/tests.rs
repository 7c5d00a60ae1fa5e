use super::*;
use crate::tests::tree;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use std::fs;

const UNITS: Units = Units {
    stat_ns: 10_000_000,
    tick_ns: 4_000_000,
};
const MS: u64 = 1_000_000;

const STAT_TEXT: &str = "cpu  8546 0 5377 280452 1490 0 166 1380 0 0\ncpu0 3584 0 2143\n";

fn accounts(files: &[(&str, &str)]) -> (Option<u64>, Option<StatLine>, Option<u32>) {
    let root = tree(files);
    let read = MachineMeter::open(root.path()).read_start();
    (read.cpuacct_ns, read.stat, read.cpus)
}

#[test]
fn the_accounts_of_each_kind_of_host() {
    let stat = Some(StatLine {
        idle: 281_942,
        softirq: 166,
        steal: 1380,
    });
    let check = |dir: &str, usage: (&str, &str), other: &str, cpuacct: Option<u64>| {
        let [usage_file, other] = [usage.0, other].map(|f| format!("sys/fs/cgroup/{dir}{f}"));
        let of_group = [(&*usage_file, usage.1), (&other, "0\n")];
        let common = [(STAT, STAT_TEXT), (ONLINE, "0-1\n")];
        let found = accounts(&[common, of_group].concat());
        assert_eq!(found, (cpuacct, stat, Some(2)), "{dir} {usage:?}");
    };
    let usage = ("cpuacct.usage", "147432753800\n");
    let read = Some(147_432_753_800);
    check("cpuacct/", usage, "cgroup.sane_behavior", read);
    check("cpu,cpuacct/", usage, "release_agent", read);
    // Of a container the usage is its own, and of cgroup v2 it is of ticks, as in /proc/stat.
    check("cpuacct/", usage, "cgroup.procs", None);
    check("", ("cpu.stat", "usage_usec 9\n"), "cgroup.procs", None);
    let strange = ("cpuacct.usage", "much\n");
    check("cpuacct/", strange, "cgroup.sane_behavior", None);
    assert_eq!(accounts(&[]), (None, None, None));
}

#[test]
fn the_account_of_all_tasks_is_found_wherever_it_is_mounted() {
    let common = [(STAT, STAT_TEXT), (ONLINE, "0-1\n")];
    let elsewhere = [
        (
            MOUNTS,
            "22 1 0:20 / /sys rw - sysfs sysfs rw\n33 31 0:30 / /mnt/cg rw,relatime - cgroup none rw,cpu,cpuacct\n",
        ),
        ("mnt/cg/cpuacct.usage", "7\n"),
        ("mnt/cg/release_agent", "\n"),
    ];
    assert_eq!(accounts(&[&common[..], &elsewhere].concat()).0, Some(7));
    let of_others = [(MOUNTS, "33 31 0:30 / /mnt/cg rw - cgroup none rw,cpu\n")];
    let files = [&common[..], &of_others, &elsewhere[1..]].concat();
    assert_eq!(accounts(&files).0, None);
    let first = [
        ("proc/1/root/sys/fs/cgroup/cpuacct/cpuacct.usage", "8\n"),
        (
            "proc/1/root/sys/fs/cgroup/cpuacct/cgroup.sane_behavior",
            "0\n",
        ),
    ];
    assert_eq!(accounts(&[&common[..], &first].concat()).0, Some(8));
}

#[test]
fn files_are_read_anew_each_time() {
    let root = tree(&[(STAT, STAT_TEXT), (ONLINE, "0-1\n")]);
    let mut meter = MachineMeter::open(root.path());
    let start = meter.read_start();
    let later = "cpu  8600 0 5400 280600 1500 0 168 1383 0 0\n";
    fs::write(root.path().join(STAT), later).unwrap();
    let end = meter.read_end();
    let readings = meter.difference(&start, &end);
    let unit = clock::proc_stat_unit_ns();
    for (counter, expected) in [
        (Counter::MachineCpus, 2),
        (Counter::MachineSoftirqNs, 2 * unit),
        (Counter::MachineStealNs, 3 * unit),
        (Counter::MachineBusyNs, 0), // more idle than elapsed
        (Counter::MachineBusyResolutionNs, unit),
    ] {
        assert_eq!(readings[&counter].measured(), Some(expected), "{counter:?}");
    }
}

#[test]
fn a_host_without_accounts_says_what_is_missing() {
    let root = tree(&[]);
    let mut meter = MachineMeter::open(root.path());
    let (start, end) = (meter.read_start(), meter.read_end());
    let mut readings = meter.difference(&start, &end);
    let elapsed = readings.remove(&Counter::MachineElapsedNs).unwrap();
    assert!(elapsed.measured().is_some());
    let stat = "/proc/stat cannot be read or is not as expected";
    let online = "/sys/devices/system/cpu/online cannot be read or is not as expected";
    let expected = [
        (Counter::MachineCpus, online),
        (Counter::MachineBusyNs, online),
        (Counter::MachineBusyResolutionNs, online),
        (Counter::MachineIdleNs, stat),
        (Counter::MachineTasksNs, NO_TASKS),
        (Counter::MachineSoftirqNs, stat),
        (Counter::MachineStealNs, stat),
    ]
    .map(|(counter, why)| (counter, Reading::absent(why)));
    assert_eq!(readings, expected.into());
}

fn snapshot(clock_ms: u64, idle: u64, steal: u64, cpuacct_ms: Option<u64>) -> MachineSnapshot {
    MachineSnapshot {
        clock_ns: clock_ms * MS,
        cpus: Some(2),
        stat: Some(StatLine {
            idle,
            softirq: 0,
            steal,
        }),
        cpuacct_ns: cpuacct_ms.map(|ms| ms * MS),
    }
}

#[test]
fn busy_is_what_was_not_idle_unless_the_tasks_own_account_is_finer() {
    // 500 ms on two CPUs, of which 600 ms were idle and 40 ms stolen: 360 ms are left.
    let start = snapshot(1_000, 5_000, 10, Some(100));
    for (why, tasks_ms, busy_ms, step_ms) in [
        ("no account of tasks", None, 360, 10),
        ("they agree", Some(352), 352, 4),
        ("they agree just so", Some(330), 330, 4),
        ("the tasks' account missed something", Some(300), 360, 10),
        ("the idle time is too long", Some(470), 470, 4),
    ] {
        let mut end = snapshot(1_500, 5_060, 14, tasks_ms.map(|ms| ms + 100));
        if tasks_ms.is_none() {
            end.cpuacct_ns = None;
        }
        let readings = difference(UNITS, &start, &end);
        let ms = |counter| readings[&counter].measured().map(|ns| ns / MS);
        assert_eq!(ms(Counter::MachineElapsedNs), Some(500));
        assert_eq!(ms(Counter::MachineBusyNs), Some(busy_ms), "{why}");
        assert_eq!(ms(Counter::MachineBusyResolutionNs), Some(step_ms), "{why}");
        assert_eq!(ms(Counter::MachineStealNs), Some(40));
    }
}

#[test]
fn what_went_backwards_or_away_is_absent() {
    let good = snapshot(1_000, 5_000, 10, None);
    let back = "the kernel's counter went backwards within the window";
    let gone = "/proc/stat cannot be read or is not as expected";
    let mut hotplug = snapshot(1_500, 5_050, 10, None);
    hotplug.cpus = Some(1);
    let mut unreadable = snapshot(1_500, 5_050, 10, None);
    unreadable.stat = None;
    for (end, why) in [
        (snapshot(1_500, 5_050, 9, None), back),
        (snapshot(1_500, 4_000, 10, None), back),
        (snapshot(900, 5_050, 10, None), back),
        (hotplug, "CPUs came or went within the window"),
        (unreadable, gone),
    ] {
        let busy = &difference(UNITS, &good, &end)[&Counter::MachineBusyNs];
        assert_eq!(*busy, Reading::absent(why));
    }
    // The account of tasks alone is enough.
    let start = snapshot(1_000, 5_000, 10, Some(7));
    unreadable.cpuacct_ns = Some(207 * MS);
    let readings = difference(UNITS, &start, &unreadable);
    let busy = readings[&Counter::MachineBusyNs].measured();
    assert_eq!(busy, Some(200 * MS));
    assert_eq!(readings[&Counter::MachineStealNs], Reading::absent(gone));
}

fn any_snapshot() -> impl Strategy<Value = MachineSnapshot> {
    type Parts = (u64, Option<u32>, Option<[u64; 3]>, Option<u64>);
    any::<Parts>().prop_map(|(clock_ns, cpus, stat, cpuacct_ns)| MachineSnapshot {
        clock_ns,
        cpus,
        stat: stat.map(|[idle, softirq, steal]| StatLine {
            idle,
            softirq,
            steal,
        }),
        cpuacct_ns,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, rng_seed: RngSeed::Fixed(20_261_121), ..ProptestConfig::default() })]

    #[test]
    fn any_two_snapshots_have_a_difference(start in any_snapshot(), end in any_snapshot()) {
        let readings = difference(UNITS, &start, &end);
        prop_assert_eq!(readings.len(), 8);
        prop_assert!(readings.keys().all(|c| c.row().scope == bytecost_spec::reading::Scope::Machine));
        let busy = readings[&Counter::MachineBusyNs].measured();
        let resolution = readings[&Counter::MachineBusyResolutionNs].measured();
        prop_assert_eq!(busy.is_some(), resolution.is_some());
    }
}
