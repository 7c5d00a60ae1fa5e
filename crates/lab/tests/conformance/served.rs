//! Every server under real loads, by real endpoint processes: what both sides tell belongs
//! together, and nothing is left behind.

use std::time::Duration;

use bytecost_engine::{SERVERS, Server};
use bytecost_lab::files::Files;
use bytecost_lab::trial::Settings;
use bytecost_spec::{Axis, Cell, Counter, Reading, Sample};
use libtest_mimic::{Failed, Trial};

use super::{cell, ensure, lab, read, settings, trial, trial_in};

/// A load: its name, whether a server that serves in turn can have it, and its axes.
type Load = (&'static str, bool, &'static [(Axis, &'static str)]);

/// Loads as changes of the axes; those that leave others waiting for ever are not for servers
/// that serve in turn.
const LOADS: &[Load] = &[
    ("one", true, &[]),
    (
        "new",
        true,
        &[(Axis::Connections, "4"), (Axis::Connect, "new")],
    ),
    (
        "kept",
        false,
        &[
            (Axis::Connections, "20"),
            (Axis::Idle, "30"),
            (Axis::Threads, "2"),
            (Axis::Depth, "4"),
        ],
    ),
    (
        "open",
        false,
        &[(Axis::Connections, "8"), (Axis::Rate, "2000")],
    ),
    ("top", true, &[(Axis::Service, "top")]),
    (
        "counted",
        false,
        &[
            (Axis::Connections, "3"),
            (Axis::Perf, "on"),
            (Axis::Think, "1ms"),
        ],
    ),
];

pub fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for server in SERVERS {
        for (name, in_turn, load) in LOADS {
            if server.in_turn && !in_turn {
                continue;
            }
            let mut values = vec![
                (Axis::Server, server.name),
                (Axis::Pattern, "ask"),
                (Axis::Size, "64"),
            ];
            values.extend_from_slice(load);
            let cell = cell(&values);
            let name = format!("served/{}/{name}", server.name);
            trials.push(Trial::test(name, move || belongs_together(server, &cell)));
        }
    }
    trials.push(Trial::test("served/both sides are pinned", pinned));
    trials.push(Trial::test("served/what cannot be is told", told));
    trials
}

fn sample(cell: &Cell) -> Result<Sample, Failed> {
    // Long enough for everyone to be let in, however busy the machine is.
    let patient = Settings {
        warmup: Duration::from_millis(200),
        window: Duration::from_millis(100),
        ..settings()
    };
    match trial_in(&mut lab(patient, Files::default()), cell) {
        Ok(sample) => Ok(sample),
        Err(f) => Err(f.reason.into()),
    }
}

fn belongs_together(server: &Server, cell: &Cell) -> Result<(), Failed> {
    let sample = sample(cell)?;
    let served = sample.receiver.as_ref().ok_or("no server's side")?;
    let (asked, served) = (&sample.sender.readings, &served.readings);
    let answers = read(asked, Counter::Messages)?;
    ensure(answers > 0, || "nothing was answered".to_owned())?;
    ensure(read(served, Counter::Messages)? == answers, || {
        "both sides have other answers".to_owned()
    })?;
    for counter in [
        Counter::ErrorsRefused,
        Counter::ErrorsReset,
        Counter::ErrorsClosed,
        Counter::ErrorsTimeout,
        Counter::ErrorsWrong,
        Counter::ErrorsLocal,
    ] {
        let errors = read(asked, counter)?;
        ensure(errors == 0, || format!("{errors} {}", counter.name()))?;
    }
    for side in [asked, served] {
        let window_ns = read(side, Counter::ElapsedNs)?;
        ensure(window_ns > 0, || format!("{window_ns} ns"))?;
        read(side, Counter::ContextSwitchesVoluntary)?;
        read(side, Counter::PageFaultsMinor)?;
    }
    // CPU time is brought up to date at ticks, so that little of it may be missing altogether.
    read(served, Counter::CpuNs)?;
    let all = cell.serving.all_connections();
    let tasks = read(served, Counter::Tasks)?;
    let kept = cell.serving.connect == bytecost_spec::Connect::Kept;
    let least = if server.task_per_connection && kept {
        all + 1
    } else {
        1
    };
    ensure(tasks >= least, || format!("{tasks} tasks, not {least}"))?;
    ensure(read(served, Counter::MemoryBytes)? > 0, || {
        "no memory".to_owned()
    })?;
    let clock = served.get(&Counter::TaskClockNs);
    if cell.serving.perf {
        let counted = matches!(clock, Some(Reading::Measured(n)) if *n > 0);
        let refused =
            matches!(clock, Some(Reading::Absent { absent }) if absent.contains("perf_event"));
        ensure(counted || refused, || format!("{clock:?}"))
    } else {
        let left_out =
            matches!(clock, Some(Reading::Absent { absent }) if absent.contains("--perf on"));
        ensure(left_out, || format!("{clock:?}"))
    }
}

/// On one CPU each, nobody moves.
fn pinned() -> Result<(), Failed> {
    for server in SERVERS.iter().filter(|s| !s.in_turn) {
        let sample = sample(&cell(&[
            (Axis::Server, server.name),
            (Axis::Pattern, "ask"),
            (Axis::Size, "64"),
            (Axis::Connections, "3"),
            (Axis::Placement, "0:0"),
        ]))?;
        let served = sample.receiver.as_ref().ok_or("no server's side")?;
        for side in [&sample.sender.readings, &served.readings] {
            match side.get(&Counter::Migrations) {
                Some(Reading::Measured(0)) => {}
                Some(Reading::Absent { absent }) if absent.contains("sched") => {}
                other => return Err(format!("{}: {other:?}", server.name).into()),
            }
        }
    }
    Ok(())
}

fn told() -> Result<(), Failed> {
    let check = |values: &[(Axis, &str)], words: &str| {
        let mut all = vec![(Axis::Server, "epoll"), (Axis::Size, "64")];
        all.extend_from_slice(values);
        match trial(&cell(&all)) {
            Err(f) => ensure(f.reason.contains(words), || f.reason.clone()),
            Ok(_) => Err(format!("{words}: it gave a sample").into()),
        }
    };
    check(&[(Axis::Server, "epol")], "server `epol` is not known")?;
    check(&[(Axis::Service, "tip")], "service `tip` is not known")?;
    check(&[(Axis::Placement, "999:0")], "CPUs [999]")?;
    check(&[(Axis::Placement, "0:999")], "CPUs [999]")?;
    check(&[(Axis::Congestion, "nobody")], "server: ")
}
