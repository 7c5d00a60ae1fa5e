use bytecost_sys::clock;

use super::*;
use crate::tests::spin;

const BUSY_NS: u64 = 60_000_000;

fn snapshot(usage: Usage, live: Option<ThreadUsage>) -> ProcessTreeSnapshot {
    ProcessTreeSnapshot {
        usage,
        live_cpu_ns: live.map(|l| l.switches_voluntary),
        early: EarlyReading {
            children: live.map(|l| vec![1; usize::from(l != ThreadUsage::default())]),
            live,
            ..EarlyReading::default()
        },
        counts: InheritedCounts::default(),
    }
}

#[test]
fn threads_that_have_ended_are_counted() {
    let tree = ProcessTreeMeter::open(true, None);
    let start = tree.read_own();
    std::thread::spawn(|| spin(BUSY_NS)).join().unwrap();
    let end = tree.read_own();
    let readings = tree.difference(&start, &end, false);
    let read = |counter| readings[&counter].measured();
    assert!(read(Counter::CpuNs).unwrap() >= BUSY_NS);
    if let Some(clock) = read(Counter::TaskClockNs) {
        assert!(clock >= BUSY_NS * 9 / 10, "{clock}");
    }
    // Without perf events, the migrations of that thread are not known.
    let without_perf = ProcessTreeMeter::open(false, None);
    let unknown = without_perf.difference(&start, &end, false);
    assert_eq!(unknown[&Counter::Migrations].measured(), None);
    assert_eq!(unknown[&Counter::Cycles].measured(), None);
}

#[test]
fn children_count_whether_they_live_or_not() {
    let live = |n| ThreadUsage {
        switches_voluntary: n,
        switches_involuntary: n,
        faults_minor: n,
        faults_major: n,
        ..ThreadUsage::default()
    };
    let whole = |n| ThreadUsage {
        user_ns: n,
        system_ns: n,
        ..live(n)
    };
    let usage = |clock_ns, cpu_ns, own, children| Usage {
        clock_ns,
        cpu_ns,
        own: whole(own),
        children: whole(children),
    };
    let tree = ProcessTreeMeter::open(false, None);
    let check =
        |living: [Option<ThreadUsage>; 2], cpu: Option<u64>, switches: Option<u64>, user| {
            let start = snapshot(usage(100, 10, 1, 2), living[0]);
            let end = snapshot(usage(600, 30, 4, 7), living[1]);
            let readings = tree.difference(&start, &end, true);
            let read = |counter| readings[&counter].measured();
            assert_eq!(read(Counter::ElapsedNs), Some(500));
            assert_eq!(read(Counter::CpuNs), cpu);
            assert_eq!(read(Counter::ContextSwitchesVoluntary), switches);
            assert_eq!(read(Counter::UserNs), user);
        };
    let none = Some(ThreadUsage::default());
    check([none, none], Some(30), Some(8), Some(8));
    check([none, Some(live(5))], Some(35), Some(13), None);
    check([Some(live(5)), Some(live(6))], Some(31), Some(9), None);
    check([none, None], None, None, None);
    // Clocks were read in time, and all else was not.
    let start = snapshot(usage(100, 10, 1, 2), Some(live(5)));
    let mut end = snapshot(usage(600, 30, 4, 7), Some(live(6)));
    end.early.live = None;
    let readings = tree.difference(&start, &end, true);
    assert_eq!(readings[&Counter::CpuNs].measured(), Some(31));
    let switches = &readings[&Counter::ContextSwitchesVoluntary];
    assert_eq!(*switches, Reading::absent(NO_TIME));
}

#[test]
fn late_readings_are_errors() {
    let at = |clock_ns| {
        let usage = Usage {
            clock_ns,
            ..Usage::default()
        };
        snapshot(usage, None)
    };
    let read = |start, end| measured_ns([&at(start), &at(end)], 100_000_000, 120_000_000);
    assert_eq!(read(100_100_000, 119_900_000), Ok(19_800_000));
    // No request was sent before or after the window.
    assert_eq!(read(99_000_000, 125_000_000), Ok(20_000_000));
    assert_eq!(read(110_000_000, 120_000_000), Ok(10_000_000), "the most");
    // Hundreds of threads were ready, and the first edge was read when the clients had ended.
    for (start, end, expected) in [
        (118_300_000, 120_000_000, "18.3 ms late in a window of 20.0"),
        (100_100_000, 125_100_000, "5.1 ms late"),
    ] {
        let late = read(start, end).unwrap_err();
        assert!(late.contains(expected), "{late}");
    }
}

#[test]
fn migrations_are_those_of_threads_that_stayed() {
    let check = |end: &[(u32, u64)], steady, expected: Option<u64>| {
        let start = &[(1, 5), (2, 1)][..];
        let [start, end] = [start, end].map(|all| all.iter().copied().collect());
        let reading = migrations([Some(&start), Some(&end)], steady);
        assert_eq!(reading.measured(), expected);
    };
    let late = [(1, 9), (2, 1)];
    check(&late, true, Some(4));
    check(&late, false, None);
    check(&late[..1], true, None);
    let unread = migrations([Some(&late.into()), None], true);
    assert_eq!(unread, Reading::absent(NO_THREADS));
}

#[test]
fn run_queue_time_is_read_of_one_thread_alone() {
    let tree = ProcessTreeMeter::open(false, None);
    let check = |start, end, expected| {
        let [start, end] = [start, end].map(|run_queue_ns| {
            let mut all = snapshot(Usage::default(), None);
            all.early.run_queue_ns = run_queue_ns;
            all
        });
        let readings = tree.difference(&start, &end, true);
        assert_eq!(readings[&Counter::RunQueueNs].measured(), expected);
    };
    check(Some(5), Some(12), Some(7));
    check(Some(5), None, None);
    check(None, Some(12), None);
    let of_several = || live::run_queue_ns(std::process::id());
    let several = std::thread::scope(|scope| scope.spawn(of_several).join().unwrap());
    assert_eq!(several, None);
    let mut sleep = std::process::Command::new("sleep");
    let mut child = sleep.arg("60").spawn().unwrap();
    let is_available = std::fs::read_to_string("/proc/self/schedstat").is_ok();
    // Not before it has had a CPU.
    let deadline_ns = clock::monotonic_ns() + 60_000_000_000;
    while is_available
        && live::run_queue_ns(child.id()).is_none()
        && clock::monotonic_ns() < deadline_ns
    {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let run_queue_ns = live::run_queue_ns(child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(run_queue_ns.is_some(), is_available);
}
