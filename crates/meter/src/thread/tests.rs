use super::*;
use crate::events::{HARDWARE, SOFTWARE};
use crate::lack::{Lack, skipped};
use bytecost_sys::perf::MAX_EVENTS;

fn layout() -> Layout {
    Layout {
        software: Members::of_all(&SOFTWARE),
        hardware: Members::of_all(&HARDWARE),
        migrations: Migrations::Perf,
    }
}

/// A snapshot in which all numbers differ: `step` × a different factor for each.
fn snapshot(step: u64) -> Snapshot {
    let group = |first: u64| {
        let mut values = [0; MAX_EVENTS];
        for (n, value) in values.iter_mut().enumerate() {
            *value = step * (first + n as u64);
        }
        Some(GroupValues {
            enabled_ns: step * 9,
            running_ns: step * 9,
            values,
        })
    };
    Snapshot {
        clock_ns: step,
        cpu_ns: step * 2,
        usage: Some(ThreadUsage {
            user_ns: step * 3,
            system_ns: step * 4,
            faults_minor: step * 5,
            faults_major: step * 6,
            switches_voluntary: step * 7,
            switches_involuntary: step * 8,
        }),
        software: group(10),
        hardware: group(20),
        sched_migrations: Some(step * 30),
        run_queue_ns: Some(step * 31),
        interrupts: None,
    }
}

fn readings(layout: &Layout, start: &Snapshot, end: &Snapshot) -> Readings {
    THREAD_COUNTERS
        .iter()
        .map(|c| (*c, layout.reading(*c, start, end)))
        .collect()
}

#[test]
fn each_counter_is_the_increase_of_its_own_source() {
    let readings = readings(&layout(), &snapshot(100), &snapshot(1_100));
    let factor = |counter| readings[&counter].measured().unwrap() / 1_000;
    for (counter, expected) in [
        (Counter::ElapsedNs, 1),
        (Counter::CpuNs, 2),
        (Counter::UserNs, 3),
        (Counter::SystemNs, 4),
        (Counter::PageFaultsMinor, 5),
        (Counter::PageFaultsMajor, 6),
        (Counter::ContextSwitchesVoluntary, 7),
        (Counter::ContextSwitchesInvoluntary, 8),
        (Counter::PerfEnabledNs, 9),
        (Counter::PerfRunningNs, 9),
        (Counter::TaskClockNs, 10),
        (Counter::Migrations, 12),
        (Counter::RunQueueNs, 31),
        (Counter::Cycles, 20),
        (Counter::Instructions, 21),
        (Counter::LlcLoadMisses, 22),
        (Counter::L1dLoadMisses, 23),
        (Counter::Branches, 24),
        (Counter::BranchMisses, 25),
    ] {
        assert_eq!(factor(counter), expected, "{counter:?}");
    }
    assert_eq!(readings.len(), THREAD_COUNTERS.len());
}

#[test]
fn a_hardware_group_that_was_shared_is_absent_and_its_times_are_reported() {
    let (start, mut end) = (snapshot(0), snapshot(1_000));
    end.hardware.as_mut().unwrap().running_ns = 3_000;
    let readings = readings(&layout(), &start, &end);
    let why = "the counter group was on the CPU 33 % of the time: another user of the counters?";
    for event in [Counter::Cycles, Counter::BranchMisses] {
        assert_eq!(readings[&event], Reading::absent(why));
    }
    assert_eq!(readings[&Counter::PerfRunningNs], Reading::Measured(3_000));
    assert_eq!(readings[&Counter::PerfEnabledNs], Reading::Measured(9_000));
    assert_eq!(readings[&Counter::TaskClockNs], Reading::Measured(10_000));
}

#[test]
fn migrations_come_from_where_they_are_counted() {
    let of = |migrations, end: &Snapshot| {
        let layout = Layout {
            migrations,
            ..layout()
        };
        layout.reading(Counter::Migrations, &snapshot(0), end)
    };
    let end = snapshot(1);
    assert_eq!(of(Migrations::Perf, &end), Reading::Measured(12));
    assert_eq!(of(Migrations::Sched, &end), Reading::Measured(30));
    let refused = Migrations::Refused("no way".to_owned());
    assert_eq!(of(refused, &end), Reading::absent("no way"));
    let unread = Snapshot {
        sched_migrations: None,
        ..end
    };
    let why = "/proc/thread-self/sched could not be read";
    assert_eq!(of(Migrations::Sched, &unread), Reading::absent(why));
}

#[test]
fn a_counter_that_cannot_be_read_is_absent_not_zero() {
    let (start, mut end) = (snapshot(0), snapshot(1));
    end.usage = None;
    end.software = None;
    end.hardware = None;
    let readings = readings(&layout(), &start, &end);
    let others = [Counter::ElapsedNs, Counter::CpuNs, Counter::RunQueueNs];
    for counter in THREAD_COUNTERS {
        let measured = readings[counter].measured().is_some();
        assert_eq!(measured, others.contains(counter), "{counter:?}");
    }
}

#[test]
fn refused_counters_are_absent() {
    for mut meter in [ThreadMeter::open(), ThreadMeter::open_without_perf()] {
        let (start, end) = (meter.read_start(), meter.read_end());
        let readings = meter.difference(&start, &end).into_iter();
        let absent = readings.filter_map(|(counter, reading)| match reading {
            Reading::Absent { absent } => Some((counter, absent)),
            Reading::Measured(_) => None,
        });
        let refused = meter.refused().into_iter().map(|r| (r.subject, r.why));
        assert!(absent.eq(refused), "{:?}", meter.refused());
    }
}

#[test]
fn only_requested_counters_are_opened() {
    let with = |hardware: Result<(), &str>, task_clock, interrupts| {
        let mut meter = ThreadMeter::with(&Extras {
            hardware: hardware.map_err(str::to_owned),
            task_clock,
            interrupts,
        });
        let (start, end) = (meter.read_start(), meter.read_end());
        (meter.difference(&start, &end), meter)
    };
    let (readings, meter) = with(Err("no such counter"), false, false);
    assert!(meter.software.is_none() && meter.hardware.is_none());
    let cycles = &readings[&Counter::Cycles];
    assert_eq!(*cycles, Reading::absent("no such counter"));
    assert_eq!(readings[&Counter::TaskClockNs], Reading::absent(LEFT_OUT));
    assert!(!readings.contains_key(&Counter::InterruptNs));
    let is_read = |counter| readings[&counter].measured().is_some();
    assert!(is_read(Counter::UserNs) && is_read(Counter::PageFaultsMinor));
    assert_eq!(is_read(Counter::Migrations), meter.sched.is_some());
    assert_eq!(is_read(Counter::RunQueueNs), meter.schedstat.is_some());
    let (counts, requested) = with(Err("no such counter"), true, true);
    assert!(requested.hardware.is_none());
    assert_ne!(counts[&Counter::TaskClockNs], Reading::absent(LEFT_OUT));
    let unit = clock::proc_stat_unit_ns();
    let interrupts = counts[&Counter::InterruptNs].measured().unwrap();
    assert_eq!(interrupts % unit, 0);
}

#[test]
fn a_thread_that_waits_for_a_cpu_has_run_queue_time() {
    if filled(SCHEDSTAT, run_queue_ns).is_none() {
        return skipped(Lack::Machine, NO_SCHEDSTAT);
    }
    let cpus = process::affinity().unwrap();
    // Two that are always ready on one CPU: each waits about as long as it runs.
    let barrier = std::sync::Barrier::new(2);
    let waited = |_| {
        process::set_affinity(&cpus[..1]).unwrap();
        barrier.wait();
        let mut meter = ThreadMeter::open_without_perf();
        let start = meter.read_start();
        while clock::thread_cpu_ns() - start.cpu_ns < 30_000_000 {}
        let end = meter.read_end();
        meter.difference(&start, &end)[&Counter::RunQueueNs]
            .measured()
            .unwrap()
    };
    let waited: u64 = std::thread::scope(|scope| {
        let both = [0, 1].map(|n| scope.spawn(move || waited(n)));
        both.into_iter().map(|t| t.join().unwrap()).sum()
    });
    assert!(waited > 10_000_000, "{waited} ns of 60 ms");
}
