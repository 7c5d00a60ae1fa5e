//! Every server under real loads, by real endpoint processes: the results of both sides agree.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytecost_engine::{SERVERS, Server};
use bytecost_lab::files::Files;
use bytecost_lab::settings::Settings;
use bytecost_spec::{Cell, Counter, Reading, Readings, Sample};
use libtest_mimic::Trial;

use super::{case, cell, fails, given, lab, read, settings, trial, trial_in};

/// Loads as axes: a name, and whether a server in turn can have it and let nobody wait for ever.
const LOADS: &[(&str, bool, &str)] = &[
    ("one", true, ""),
    ("new", true, "connections=4 connect=new"),
    ("kept", false, "connections=20 idle=30 threads=2 depth=4"),
    ("open", false, "connections=8 rate=2000"),
    ("top", true, "service=top"),
    ("counted", false, "connections=3 perf=on think=1ms"),
];

pub fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for server in SERVERS {
        for (name, in_turn, load) in LOADS {
            if server.in_turn && !in_turn {
                continue;
            }
            let cell = serving(server, load);
            let name = format!("served/{}/{name}", server.name);
            trials.push(case(name, move || belongs_together(server, &cell)));
        }
    }
    for server in SERVERS {
        let name = format!("served/{}/a stranger fails its trial", server.name);
        trials.push(case(name, || is_only_of_the_load(server)));
    }
    trials.push(case("served/both sides are pinned", pinned));
    trials.push(case("served/what cannot be served is refused", refused));
    trials
}

fn serving(server: &Server, load: &str) -> Cell {
    cell(&format!(
        "server={} pattern=request-response size=64 {load}",
        server.name
    ))
}

/// A sample in which somebody was answered. A machine may stand still for a whole window.
fn sample(cell: &Cell) -> Sample {
    let within = |window: u64| {
        let settings = Settings {
            // Long enough for everyone to be let in, however busy the machine is.
            warmup: Duration::from_millis(200),
            window: Duration::from_millis(window),
            ..settings()
        };
        given(trial_in(&mut lab(settings, Files::default()), cell))
    };
    let answered = |s: &Sample| read(&s.sender.readings, Counter::Messages) > 0;
    let mut samples = [100, 1000, 10_000].into_iter().map(within);
    samples.find(answered).expect("nothing was answered")
}

fn belongs_together(server: &Server, cell: &Cell) {
    let sample = sample(cell);
    let served = sample.receiver.as_ref().expect("no server's side");
    let (asked, served) = (&sample.sender.readings, &served.readings);
    let answers = read(asked, Counter::Messages);
    assert_eq!(read(served, Counter::Messages), answers);
    for counter in Counter::REQUEST_ERRORS {
        assert_eq!(read(asked, counter), 0, "{}", counter.name());
    }
    // CPU time is brought up to date at ticks, so that little of it may be missing altogether.
    for counter in [
        Counter::ElapsedNs,
        Counter::ContextSwitchesVoluntary,
        Counter::PageFaultsMinor,
        Counter::CpuNs,
    ] {
        assert!(read(asked, counter) > 0 || counter != Counter::ElapsedNs);
        was_read_or_late(served, counter);
    }
    let all = cell.serving.all_connections();
    let tasks = read(served, Counter::Tasks);
    let kept = cell.serving.connect == bytecost_spec::Connect::Kept;
    let least = if server.task_per_connection && kept {
        all + 1
    } else {
        1
    };
    assert!(tasks >= least, "{tasks} tasks, not {least}");
    assert!(read(served, Counter::MemoryBytes) > 0, "no memory");
    match (&served[&Counter::TaskClockNs], cell.serving.perf) {
        (Reading::Measured(n), true) => assert!(*n > 0),
        (Reading::Absent { absent }, _) if absent.contains("ms late in a window") => {}
        (Reading::Absent { absent }, true) => assert!(absent.contains("perf_event"), "{absent}"),
        (Reading::Absent { absent }, false) => assert!(absent.contains("--perf on"), "{absent}"),
        (clock, false) => panic!("{clock:?}"),
    }
}

/// The usage of a server is there, or its absence says that a busy machine left no time for it.
fn was_read_or_late(served: &Readings, counter: Counter) {
    match &served[&counter] {
        Reading::Measured(n) => assert!(*n > 0 || counter != Counter::ElapsedNs),
        Reading::Absent { absent } => {
            let mut words = ["ms late in a window", "beside this window"].iter();
            assert!(words.any(|word| absent.contains(word)), "{absent}");
        }
    }
}

/// Another program that asks the server of a real trial, again and again, from before its window to
/// its end.
fn is_only_of_the_load(server: &Server) {
    let cell = serving(server, "connections=4 connect=new service=fixed");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let at = listener.local_addr().unwrap();
    drop(listener);
    let is_over = AtomicBool::new(false);
    let asks = || {
        let mut asked = TcpStream::connect(at)?;
        asked.set_read_timeout(Some(Duration::from_secs(10)))?;
        asked.write_all(b"get\n")?;
        asked.read_exact(&mut [0; 64])
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let _ = asks();
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let settings = Settings {
            warmup: Duration::from_millis(200),
            window: Duration::from_millis(100),
            port: Some(at.port()),
            ..settings()
        };
        let ended = trial_in(&mut lab(settings, Files::default()), &cell);
        is_over.store(true, Ordering::Relaxed);
        let words = [
            "the server accepted",
            "stop the other program that connects",
        ];
        fails(ended, &words);
    });
}

/// On one CPU each, nobody moves.
fn pinned() {
    for server in SERVERS.iter().filter(|s| !s.in_turn) {
        let sample = sample(&serving(server, "connections=3 placement=0:0"));
        let served = sample.receiver.as_ref().expect("no server's side");
        for side in [&sample.sender.readings, &served.readings] {
            match side.get(&Counter::Migrations) {
                Some(Reading::Measured(0)) => {}
                Some(Reading::Absent { absent })
                    if absent.contains("sched") || absent.contains("ms late in a window") => {}
                other => panic!("{}: {other:?}", server.name),
            }
        }
    }
}

fn refused() {
    for (values, words) in [
        ("server=epol", "server `epol` is not known"),
        ("service=tip", "service `tip` is not known"),
        ("placement=999:0", "CPUs [999]"),
        ("placement=0:999", "CPUs [999]"),
        ("congestion=nobody", "server: "),
    ] {
        let cell = cell(&format!("server=epoll size=64 {values}"));
        fails(trial(&cell), &[words]);
    }
}
