//! Endpoints that are lost, and how those of one trial are known among others.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use bytecost_lab::Event;
use bytecost_lab::files::Files;
use bytecost_lab::program::Program;
use bytecost_lab::settings::Settings;
use bytecost_spec::{Cell, Failure, Record, Sample};
use libtest_mimic::Trial;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::harness::HELD;
use super::{SOON, case, cell, fails, lab, settings, trial_in};

pub fn trials() -> [Trial; 5] {
    const OF_ONE: &str =
        "each trial has endpoints of its own, and those that none has used are gone";
    [
        // Invariant 9.
        case("a lost endpoint fails the trial alone", lost_endpoint),
        // Invariant 9.
        case("a lost observer fails the trial alone", lost_observer),
        // Invariant 8.
        case("an endpoint that does not end is killed", held_when_done),
        // Invariant 9.
        case(OF_ONE, of_one_trial_each),
        case("a program that is no endpoint is reported", no_endpoint),
    ]
}

/// Ends the first endpoint that appears, as a crash would.
fn lost_endpoint() {
    let record = disturbed(&cell(""), Files::default(), |all| is_ended(&all));
    fails(record, &["SIGKILL", "gone"]);
}

/// The observer stays from trial to trial, and there is another one after it was lost.
fn lost_observer() {
    let (_dir, marked) = marked();
    let observers = || processes(&marked, true);
    let mut lab = lab(
        Settings {
            program: Program::at(&marked).unwrap(),
            ..settings()
        },
        Files::default(),
    );
    trial_in(&mut lab, &cell("")).unwrap();
    let first = observers();
    trial_in(&mut lab, &cell("mover=null")).unwrap();
    assert_eq!((first.len(), observers()), (1, first.clone()));
    // It cannot answer, and is not waited for without a bound.
    kill_process(first[0], Signal::STOP).unwrap();
    fails(trial_in(&mut lab, &cell("")), &["observer"]);
    let last = observers();
    kill_process(last[0], Signal::KILL).unwrap();
    let _ = trial_in(&mut lab, &cell(""));
    trial_in(&mut lab, &cell("")).unwrap();
    assert_ne!(observers(), last);
    drop(lab);
    assert!(observers().is_empty(), "one is left");
}

/// A side that does not end after its result fails its trial alone, with all kinds of sides.
fn held_when_done() {
    let (dir, held) = linked(HELD);
    let settings = Settings {
        program: Program::at(&held).unwrap(),
        ..settings()
    };
    let mut lab = lab(settings, Files::default());
    for values in ["", "server=epoll service=echo", "background=spin"] {
        let began = Instant::now();
        let ended = trial_in(&mut lab, &cell(values));
        fails(
            ended,
            &["did not end within 2 s of its result: it was killed"],
        );
        assert!(began.elapsed() < SOON, "{values}: {:?}", began.elapsed());
        assert!(
            endpoints(&held).len() <= 2,
            "none but those of the next trial are there"
        );
    }
    drop(lab);
    assert!(endpoints(&held).is_empty(), "some are left");
    drop(dir);
}

/// Ends the first of them, if there is one.
pub fn is_ended(all: &[Pid]) -> bool {
    let kill = |pid| kill_process(pid, Signal::KILL);
    all.first().is_some_and(|pid| kill(*pid).is_ok())
}

/// A trial of some seconds, with what is done to its endpoints, tried until it is done.
pub fn disturbed(
    cell: &Cell,
    files: Files,
    mut is_done: impl FnMut(Vec<Pid>) -> bool + Send + 'static,
) -> Result<Sample, Failure> {
    let (_link, marked) = marked();
    let disturber = std::thread::spawn({
        let marked = marked.clone();
        move || {
            let until = Instant::now() + SOON;
            while !is_done(endpoints(&marked)) {
                assert!(Instant::now() < until, "nothing was disturbed");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    });
    let long = Settings {
        program: Program::at(&marked).unwrap(),
        window: SOON,
        ..settings()
    };
    let record = trial_in(&mut lab(long, files), cell);
    let reason = record.as_ref().err().map(|f| &f.reason);
    assert!(disturber.join().is_ok(), "{reason:?}");
    record
}

/// Endpoints are started ahead, each for one trial; before the last, impossible cell in vain.
fn of_one_trial_each() {
    let (_dir, marked) = marked();
    let settings = Settings {
        program: Program::at(&marked).unwrap(),
        ..settings()
    };
    let mut lab = lab(settings, Files::default());
    let order = ["", "mover=null", "", "", "placement=same-cpu"];
    let order = (0..).zip(order.map(cell));
    let (mut ahead, mut failed) = (Vec::new(), Vec::new());
    let numbers = [0, 1, 2, 2, 2];
    // A listing of /proc may lack a process while another ends: it is read until all are listed.
    let seen = |number: usize| {
        let until = Instant::now() + SOON;
        let mut there = endpoints(&marked);
        while there.len() < number && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
            there = endpoints(&marked);
        }
        there
    };
    let mut see = |event| match event {
        Event::TrialStarted { .. } => ahead.push(seen(numbers[ahead.len()])),
        Event::TrialEnded(record) => failed.push(matches!(*record, Record::Failure(_))),
    };
    lab.block((0, 0), order, &AtomicBool::new(false), &mut see);
    assert!(failed == [false, false, false, false, true], "{failed:?}");
    assert!(ahead.iter().map(Vec::len).eq(numbers), "{ahead:?}");
    let all: HashSet<Pid> = ahead.iter().flatten().copied().collect();
    let of_two = all.len() < numbers.iter().sum();
    assert!(!of_two, "one is of two trials: {ahead:?}");
    assert_eq!(seen(2).len(), 2, "they waited");
    drop(lab);
    assert!(endpoints(&marked).is_empty(), "some are left");
}

/// A link of another name, which marks the endpoints of one trial, and its directory.
fn marked() -> (TempDir, PathBuf) {
    linked("marked")
}

fn linked(name: &str) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let marked = dir.path().join(name);
    std::os::unix::fs::symlink(std::env::current_exe().unwrap(), &marked).unwrap();
    (dir, marked)
}

/// The last word of an observer's command line.
const OBSERVER: &[u8] = b"\0observer\0";

/// The endpoints of trials.
fn endpoints(marked: &Path) -> Vec<Pid> {
    processes(marked, false)
}

fn processes(marked: &Path, observer: bool) -> Vec<Pid> {
    // Trials run in threads of the harness, which are the parents of their endpoints.
    let children = children(&std::process::id().to_string()).into_iter();
    let is_marked = |pid: &i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let name = marked.as_os_str().as_encoded_bytes();
        line.starts_with(name) && line.ends_with(OBSERVER) == observer
    };
    children
        .filter(is_marked)
        .filter_map(Pid::from_raw)
        .collect()
}

pub fn children(pid: &str) -> Vec<i32> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"));
    let of_each = threads.into_iter().flatten().flatten().flat_map(|thread| {
        let file = thread.path().join("children");
        let children = std::fs::read_to_string(file).unwrap_or_default();
        let pids = children.split_whitespace().filter_map(|p| p.parse().ok());
        pids.collect::<Vec<i32>>()
    });
    of_each.collect()
}

fn no_endpoint() {
    let without = Settings {
        program: Program::at("/bin/false".as_ref()).unwrap(),
        ..settings()
    };
    let ended = trial_in(&mut lab(without, Files::default()), &cell(""));
    fails(ended, &["status 1"]);
}
