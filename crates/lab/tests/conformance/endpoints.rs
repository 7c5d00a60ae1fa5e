//! Endpoints that are lost, and how those of one trial are known among others.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use bytecost_lab::Event;
use bytecost_lab::files::Files;
use bytecost_lab::program::Program;
use bytecost_lab::trial::Settings;
use bytecost_spec::{Axis, Record};
use libtest_mimic::Failed;
use rustix::process::Pid;
use tempfile::TempDir;

use super::{SOON, cell, ensure, lab, settings, trial_in};

/// Ends the first endpoint that appears, as a crash would.
pub fn lost_endpoint() -> Result<(), Failed> {
    let (_dir, marked) = marked()?;
    let killer = std::thread::spawn({
        let marked = marked.clone();
        move || {
            let until = Instant::now() + SOON;
            while Instant::now() < until {
                if let Some(pid) = endpoints(&marked).first() {
                    let _ = rustix::process::kill_process(*pid, rustix::process::Signal::KILL);
                    return;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    });
    let long = Settings {
        program: Program::at(&marked)?,
        window: SOON,
        ..settings()
    };
    let record = trial_in(&mut lab(long, Files::default()), &cell(&[]));
    killer.join().map_err(|_| "the killer panicked")?;
    match record {
        Err(f) => ensure(
            f.reason.contains("signal 9") || f.reason.contains("gone"),
            || f.reason.clone(),
        ),
        Ok(_) => Err("a trial without its endpoint gave a sample".into()),
    }
}

/// Those of the next trial are started ahead, each for one trial. Before the last cell, which is not
/// possible here, they are there in vain.
pub fn of_one_trial_each() -> Result<(), Failed> {
    let (_dir, marked) = marked()?;
    let settings = Settings {
        program: Program::at(&marked)?,
        ..settings()
    };
    let mut lab = lab(settings, Files::default());
    let impossible = [(Axis::Placement, "same-cpu")];
    let order = [&[][..], &[(Axis::Mover, "null")], &[], &[], &impossible];
    let order = (0..).zip(order.map(cell));
    let (mut ahead, mut failed) = (Vec::new(), Vec::new());
    let mut see = |event| match event {
        Event::TrialStarted { .. } => ahead.push(endpoints(&marked)),
        Event::TrialEnded(record) => failed.push(matches!(*record, Record::Failure(_))),
        Event::BlockEnded(_) => {}
    };
    lab.block((0, 0), order, &AtomicBool::new(false), &mut see);
    ensure(failed == [false, false, false, false, true], || {
        format!("{failed:?}")
    })?;
    let numbers: Vec<usize> = ahead.iter().map(Vec::len).collect();
    ensure(numbers == [0, 1, 2, 2, 2], || format!("{ahead:?}"))?;
    let all: HashSet<Pid> = ahead.iter().flatten().copied().collect();
    ensure(all.len() == numbers.iter().sum::<usize>(), || {
        format!("one is of two trials: {ahead:?}")
    })?;
    ensure(endpoints(&marked).len() == 2, || "they waited".into())?;
    drop(lab);
    ensure(endpoints(&marked).is_empty(), || "some are left".into())
}

/// A link of another name, which marks the endpoints of one trial apart from those beside it, and
/// the directory that it goes with.
pub fn marked() -> Result<(TempDir, PathBuf), Failed> {
    let dir = tempfile::tempdir()?;
    let marked = dir.path().join("marked");
    std::os::unix::fs::symlink(std::env::current_exe()?, &marked)?;
    Ok((dir, marked))
}

/// The endpoints that were started by that name.
pub fn endpoints(marked: &Path) -> Vec<Pid> {
    // Trials run in threads of the harness, which are the parents of their endpoints.
    let children = children(&std::process::id().to_string()).into_iter();
    let is_marked = |pid: &i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let name = marked.as_os_str().as_encoded_bytes();
        line.starts_with(name)
    };
    children
        .filter(is_marked)
        .filter_map(Pid::from_raw)
        .collect()
}

/// The processes that any thread of a process has started.
pub fn children(pid: &str) -> Vec<i32> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"));
    let of_each = threads.into_iter().flatten().flatten().flat_map(|thread| {
        let children = std::fs::read_to_string(thread.path().join("children"));
        let children = children.unwrap_or_default();
        let pids = children.split_whitespace().filter_map(|p| p.parse().ok());
        pids.collect::<Vec<i32>>()
    });
    of_each.collect()
}

pub fn no_endpoint() -> Result<(), Failed> {
    let without = Settings {
        program: Program::at("/bin/false".as_ref())?,
        ..settings()
    };
    match trial_in(&mut lab(without, Files::default()), &cell(&[])) {
        Err(f) => ensure(f.reason.contains("status 1"), || f.reason.clone()),
        Ok(_) => Err("/bin/false gave a sample".into()),
    }
}

/// A trial whose endpoints should be of a build that they are not.
pub fn another_build() -> Result<(), Failed> {
    let mut program = Program::own()?;
    let own = std::mem::replace(&mut program.build, "0123abcd".to_owned());
    let other = Settings {
        program,
        ..settings()
    };
    match trial_in(&mut lab(other, Files::default()), &cell(&[])) {
        Err(f) => ensure(
            f.reason.contains("another build")
                && f.reason.contains(&own)
                && f.reason.contains("0123abcd"),
            || f.reason.clone(),
        ),
        Ok(_) => Err("an endpoint of another build gave a sample".into()),
    }
}
