use super::*;
use std::time::Duration;

fn cell(change: impl FnOnce(&mut Cell)) -> Cell {
    let mut cell = Cell::default();
    change(&mut cell);
    cell
}

fn pins(sender: &[&[u32]], receiver: &[&[u32]]) -> Pins {
    let all = |side: &[&[u32]]| side.iter().map(|cpus| cpus.to_vec()).collect();
    Pins {
        sender: all(sender),
        receiver: all(receiver),
        neighbour: Vec::new(),
    }
}

fn trial<'t>(cell: &'t Cell, pins: &'t Pins, window: Duration) -> PinnedTrial<'t> {
    PinnedTrial { cell, pins, window }
}

/// The counters of a machine, by the share of elapsed time in a thread's CPU time.
fn means(percent: u64, no_task_clock: Option<&str>) -> AvailableCounters {
    AvailableCounters {
        clock: Some(CpuClock {
            tries: 10,
            elapsed_ns: 100,
            cpu_ns: percent,
            ..CpuClock::default()
        }),
        no_task_clock: no_task_clock.map(str::to_owned),
        ..AvailableCounters::default()
    }
}

const LONG: Duration = Duration::from_millis(400);
const SHORT: Duration = Duration::from_millis(40);

#[test]
fn a_clock_that_keeps_interrupts_is_the_means() {
    let apart = pins(&[&[0]], &[&[1]]);
    for means in [means(99, None), AvailableCounters::default()] {
        assert_eq!(
            means.cpu_by(trial(&Cell::default(), &apart, LONG)),
            CpuBy::Thread
        );
    }
    let mut unmeasured = means(0, None);
    unmeasured.clock = Some(CpuClock::default());
    let by = unmeasured.cpu_by(trial(&Cell::default(), &apart, LONG));
    assert_eq!(by, CpuBy::Thread);
}

#[test]
fn interrupts_matter_where_bytes_go_over_a_network() {
    let check = |change: fn(&mut Cell), expected: CpuBy| {
        let cell = cell(change);
        let by = means(70, None).cpu_by(trial(&cell, &pins(&[], &[]), SHORT));
        assert_eq!(by, expected, "{}", cell.id());
    };
    check(|_| (), CpuBy::TaskClock);
    check(|c| c.transport = Transport::Veth, CpuBy::TaskClock);
    check(|c| c.transport = Transport::Wire, CpuBy::TaskClock);
    check(|c| c.transport = Transport::Unix, CpuBy::Thread);
    check(|c| c.mover = "null".to_owned(), CpuBy::Thread);
    check(|c| c.mover = "pread".to_owned(), CpuBy::Thread);
}

#[test]
fn interrupts_of_the_cpus_serve_where_each_thread_has_one_alone_for_long() {
    let by = |pins: &Pins, window, threads| {
        let cell = cell(|c| c.threads = threads);
        means(70, None).cpu_by(trial(&cell, pins, window))
    };
    let apart = pins(&[&[0]], &[&[1]]);
    assert_eq!(by(&apart, LONG, 1), CpuBy::Interrupts);
    // 10 ms are 3 % of 333 ms.
    assert_eq!(by(&apart, Duration::from_millis(330), 1), CpuBy::TaskClock);
    for shared in [
        pins(&[&[0]], &[&[0]]),
        pins(&[&[0, 1]], &[&[2]]),
        pins(&[&[0]], &[]),
        pins(&[], &[]),
    ] {
        assert_eq!(by(&shared, LONG, 1), CpuBy::TaskClock, "{shared:?}");
    }
    assert_eq!(by(&apart, LONG, 2), CpuBy::TaskClock, "two on each CPU");
    let four = pins(&[&[0], &[2]], &[&[1], &[3]]);
    assert_eq!(by(&four, LONG, 2), CpuBy::Interrupts);
    // Known by its configuration alone, the clock may have them after all.
    let mut configured = means(70, None);
    configured.clock = Some(CpuClock {
        configured: Some(true),
        ..CpuClock::default()
    });
    let of_configured = configured.cpu_by(trial(&Cell::default(), &apart, LONG));
    assert_eq!(of_configured, CpuBy::TaskClock);
}

#[test]
fn where_nothing_serves_the_reason_says_what_would() {
    let denied = means(70, Some("perf events are not allowed"));
    let nowhere = pins(&[], &[]);
    let CpuBy::Nothing(reason) = denied.cpu_by(trial(&Cell::default(), &nowhere, SHORT)) else {
        panic!("nothing serves");
    };
    for needle in ["--window of 335 ms", "tsc=noirqtime", "not allowed"] {
        assert!(reason.contains(needle), "{reason}");
    }
    let mut served = cell(|c| c.serving.server = Some("epoll".to_owned()));
    let CpuBy::Nothing(why) = means(70, None).cpu_by(trial(&served, &nowhere, LONG)) else {
        panic!("no perf event is asked for");
    };
    assert!(why.contains("--perf on"), "{why}");
    served.serving.perf = true;
    let by = means(70, None).cpu_by(trial(&served, &nowhere, LONG));
    assert_eq!(by, CpuBy::TaskClock);
}

#[test]
fn the_cpu_time_is_that_of_the_means_and_the_thread_s_own_is_kept() {
    let check = |by: CpuBy, expected: Reading| {
        let meters = Meters {
            cpu_by: by,
            ..Meters::default()
        };
        let mut readings: Readings = [
            (Counter::CpuNs, Reading::Measured(70)),
            (Counter::SystemNs, Reading::Measured(60)),
            (Counter::InterruptNs, Reading::Measured(20)),
            (Counter::TaskClockNs, Reading::Measured(95)),
        ]
        .into();
        meters.take_cpu(&mut readings);
        assert_eq!(readings[&Counter::CpuNs], expected);
        let own = readings.get(&Counter::ThreadCpuNs);
        let is_own = meters.cpu_by == CpuBy::Thread;
        assert_eq!(own.is_none(), is_own);
        assert_eq!(readings[&Counter::SystemNs].measured().is_some(), is_own);
        assert!(own.is_none_or(|own| *own == Reading::Measured(70)));
    };
    check(CpuBy::Thread, Reading::Measured(70));
    check(CpuBy::Interrupts, Reading::Measured(90));
    check(CpuBy::TaskClock, Reading::Measured(95));
    check(CpuBy::Nothing("why".to_owned()), Reading::absent("why"));
    let mut nothing = Readings::new();
    let by_task_clock = Meters {
        cpu_by: CpuBy::TaskClock,
        ..Meters::default()
    };
    by_task_clock.take_cpu(&mut nothing);
    assert_eq!(nothing[&Counter::CpuNs].measured(), None);
}

#[test]
fn hardware_counters_are_for_one_thread_that_does_not_wait() {
    let check = |expected: bool, change: fn(&mut Cell)| {
        let cell = cell(change);
        assert_eq!(reads_hardware(&cell), expected, "{}", cell.id());
    };
    check(true, |_| ());
    check(true, |c| c.mover = "null".to_owned());
    check(true, |c| c.mover = "memcpy".to_owned());
    check(false, |c| c.pattern = Pattern::RequestResponse);
    check(false, |c| c.mover = "wake-up".to_owned());
    check(false, |c| c.serving.server = Some("epoll".to_owned()));
    let pread: fn(&mut Cell) = |c| c.mover = "pread".to_owned();
    check(true, pread);
    check(false, |c| {
        c.mover = "pread".to_owned();
        c.cache = Cache::Cold;
    });
    for in_flight in [InFlight::SeveralByThreads, InFlight::OneByProcess] {
        let mut movers = bytecost_engine::MOVERS.iter();
        let mover = movers.find(|m| m.in_flight == in_flight).unwrap();
        let cell = cell(|c| c.mover = mover.name.to_owned());
        assert!(!reads_hardware(&cell), "{}", mover.name);
    }
}

#[test]
fn each_absence_has_its_own_reason() {
    let with = |no_hardware: Option<&str>| AvailableCounters {
        no_hardware: no_hardware.map(str::to_owned),
        ..AvailableCounters::default()
    };
    let why = |means: &AvailableCounters, cell: &Cell| {
        means
            .meters(trial(cell, &pins(&[], &[]), SHORT))
            .no_hardware
    };
    let asks = cell(|c| c.pattern = Pattern::RequestResponse);
    let lacking = with(Some("no such counter"));
    for cell in [&Cell::default(), &asks] {
        assert_eq!(why(&lacking, cell).as_deref(), Some("no such counter"));
    }
    assert_eq!(why(&with(None), &Cell::default()), None);
    assert_eq!(why(&with(None), &asks).as_deref(), Some(LEFT_OUT));
}
