use super::*;
use crate::tests::tree;
use proptest::prelude::*;
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
    let common = [(STAT, STAT_TEXT), (ONLINE, "0-1\n")];
    let usage = "147432753800\n";
    for (host, more, cpuacct) in [
        (
            "cgroup v1",
            &[
                ("sys/fs/cgroup/cpuacct/cpuacct.usage", usage),
                ("sys/fs/cgroup/cpuacct/cgroup.sane_behavior", "0\n"),
            ][..],
            Some(147_432_753_800),
        ),
        (
            "cgroup v1, controllers mounted together",
            &[
                ("sys/fs/cgroup/cpu,cpuacct/cpuacct.usage", usage),
                ("sys/fs/cgroup/cpu,cpuacct/release_agent", "\n"),
            ][..],
            Some(147_432_753_800),
        ),
        (
            "a container on cgroup v1: the usage is its own",
            &[
                ("sys/fs/cgroup/cpuacct/cpuacct.usage", usage),
                ("sys/fs/cgroup/cpuacct/cgroup.procs", "1\n"),
            ][..],
            None,
        ),
        (
            "cgroup v2: ticks, as in /proc/stat",
            &[("sys/fs/cgroup/cpu.stat", "usage_usec 140909328\n")][..],
            None,
        ),
        (
            "cgroup v1 with something else in its place",
            &[
                ("sys/fs/cgroup/cpuacct/cpuacct.usage", "much\n"),
                ("sys/fs/cgroup/cpuacct/cgroup.sane_behavior", "0\n"),
            ][..],
            None,
        ),
    ] {
        let files = [&common[..], more].concat();
        assert_eq!(accounts(&files), (cpuacct, stat, Some(2)), "{host}");
    }
    assert_eq!(accounts(&[]), (None, None, None));
}

#[test]
fn files_are_read_anew_each_time() {
    let root = tree(&[(STAT, STAT_TEXT), (ONLINE, "0-1\n")]);
    let mut meter = MachineMeter::open(root.path());
    let start = meter.read_start();
    fs::write(
        root.path().join(STAT),
        "cpu  8600 0 5400 280600 1500 0 168 1383 0 0\n",
    )
    .unwrap();
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
    let absent = |(counter, reading): (Counter, Reading)| match reading {
        Reading::Measured(_) => None,
        Reading::Absent { absent } => Some((counter.name(), absent)),
    };
    let readings = meter.difference(&start, &end).into_iter();
    let refused: Vec<(&str, String)> = readings.filter_map(absent).collect();
    let stat = "/proc/stat cannot be read or is not as expected";
    let online = "/sys/devices/system/cpu/online cannot be read or is not as expected";
    assert_eq!(
        refused,
        [
            ("machine_cpus", online),
            ("machine_busy_ns", online),
            ("machine_busy_resolution_ns", online),
            ("machine_idle_ns", stat),
            ("machine_tasks_ns", NO_TASKS),
            ("machine_softirq_ns", stat),
            ("machine_steal_ns", stat),
        ]
        .map(|(what, why)| (what, why.to_owned()))
    );
}

/// A snapshot of two CPUs.
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
    let busy =
        |end: &MachineSnapshot| difference(UNITS, &good, end)[&Counter::MachineBusyNs].clone();
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
        assert_eq!(busy(&end), Reading::absent(why));
    }
    // The account of tasks alone is enough.
    let (start, mut end) = (
        snapshot(1_000, 5_000, 10, Some(7)),
        snapshot(1_500, 5_050, 10, Some(207)),
    );
    end.stat = None;
    let readings = difference(UNITS, &start, &end);
    assert_eq!(
        readings[&Counter::MachineBusyNs],
        Reading::Measured(200 * MS)
    );
    assert_eq!(readings[&Counter::MachineStealNs], Reading::absent(gone));
}

fn any_snapshot() -> impl Strategy<Value = MachineSnapshot> {
    let line =
        (any::<u64>(), any::<u64>(), any::<u64>()).prop_map(|(idle, softirq, steal)| StatLine {
            idle,
            softirq,
            steal,
        });
    (
        any::<u64>(),
        any::<Option<u32>>(),
        proptest::option::of(line),
        any::<Option<u64>>(),
    )
        .prop_map(|(clock_ns, cpus, stat, cpuacct_ns)| MachineSnapshot {
            clock_ns,
            cpus,
            stat,
            cpuacct_ns,
        })
}

proptest! {
    #[test]
    fn any_two_snapshots_have_a_difference(start in any_snapshot(), end in any_snapshot()) {
        let readings = difference(UNITS, &start, &end);
        prop_assert_eq!(readings.len(), 8);
        prop_assert!(readings.keys().all(|c| c.row().of == bytecost_spec::reading::Of::Machine));
        let busy = readings[&Counter::MachineBusyNs].measured();
        let resolution = readings[&Counter::MachineBusyResolutionNs].measured();
        prop_assert_eq!(busy.is_some(), resolution.is_some());
    }

    #[test]
    fn malformed_files_are_absent_readings(
        stat in proptest::collection::vec(any::<u8>(), 0..64),
        usage in proptest::collection::vec(any::<u8>(), 0..32),
    ) {
        let root = tree(&[("sys/fs/cgroup/cpuacct/release_agent", "")]);
        fs::create_dir_all(root.path().join("proc")).unwrap();
        fs::write(root.path().join(STAT), &stat).unwrap();
        fs::write(root.path().join("sys/fs/cgroup/cpuacct/cpuacct.usage"), &usage).unwrap();
        let mut meter = MachineMeter::open(root.path());
        let (start, end) = (meter.read_start(), meter.read_end());
        let readings = meter.difference(&start, &end);
        prop_assert_eq!(readings[&Counter::MachineCpus].measured(), None);
    }
}
