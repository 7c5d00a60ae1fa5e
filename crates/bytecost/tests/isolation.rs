//! Scheduler classes and control groups, as a user asks for them and as the kernel shows them.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use crate::common::{
    Lack, PATIENCE, Place, among_no_others, below, endpoints_of, says, skipped, until,
};
use bytecost_spec::{Class, Counter, Reading};
use rustix::process::Signal;

const SHORT: &str = "run --size 4KiB --budget 20s --blocks 6 --warmup 2ms --seed 7 --quiet";

/// Returns true if the machine refuses all of a run, which is printed.
fn is_refused(said: &str) -> bool {
    let is_refused = said.contains("nothing of this study works on this machine");
    if is_refused {
        skipped(Lack::Machine, said);
    }
    is_refused
}

fn groups_of(coordinator: u32) -> Vec<PathBuf> {
    let mark = format!("-{coordinator}-");
    let is_one = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with("bytecost-") && name.contains(&mark)
    };
    let all = below("/sys/fs/cgroup".as_ref()).into_iter();
    all.filter(is_one).collect()
}

#[test]
fn threads_have_the_class_that_was_asked_for_and_the_record_says_so() {
    let place = Place::new();
    // Not those that come after all others: they may wait long on a busy machine.
    let words = "--mover work-integer --window 10ms --class other,batch:nice=1,fifo,deadline";
    place.call(format!("{SHORT} {words}")).measured();
    let mut seen = BTreeSet::new();
    for (cell, sample) in place.samples() {
        let held = &sample.sender.held;
        if cell.class == Class::default() {
            assert!(held.is_empty(), "{held:?}")
        } else {
            assert_eq!(held[0].class, Some(cell.class))
        }
        seen.insert(cell.class.to_string());
    }
    // Real time needs a permission.
    for usual in ["other", "batch:nice=1"] {
        assert!(seen.contains(usual), "{seen:?}");
    }
}

#[test]
fn a_quota_holds_back_and_says_for_how_long_and_its_group_is_gone_with_the_run() {
    let place = Place::new();
    let words = "--mover work-integer --window 120ms --cgroup max=10%";
    let run = place.start(&mut place.bytecost(format!("{SHORT} {words}")));
    let coordinator = run.pid();
    let end = run.end();
    assert_eq!(groups_of(coordinator), [""; 0].map(PathBuf::from));
    if is_refused(&end.stderr) {
        return;
    }
    let (mut held_ns, mut periods) = (0, 0);
    for (cell, sample) in place.samples() {
        let reading = |counter| sample.machine.get(&counter).and_then(Reading::measured);
        if cell.cgroup.is_none() {
            assert_eq!(reading(Counter::CgroupThrottledNs), None);
            continue;
        }
        held_ns += reading(Counter::CgroupThrottledNs).unwrap();
        periods += reading(Counter::CgroupThrottledPeriods).unwrap();
    }
    assert!(held_ns > 0 && periods > 0, "{held_ns} ns");
}

// Invariant 9.
#[test]
fn groups_of_a_killed_run_are_removed_by_the_next_and_by_doctor() {
    if !among_no_others("isolation::groups_of_a_killed_run_are_removed_by_the_next_and_by_doctor") {
        return;
    }
    let place = Place::new();
    let words = format!("{SHORT} --mover work-integer --window 5s --cgroup max=50%");
    let mut run = place.start(&mut place.bytecost(words));
    let coordinator = run.pid();
    let mut refused = false;
    until("a process in a group", PATIENCE, || {
        let said = run.err();
        refused = is_refused(&said);
        let is_in = |dir: &PathBuf| {
            fs::read_to_string(dir.join("cgroup.procs")).is_ok_and(|pids| !pids.trim().is_empty())
        };
        refused || groups_of(coordinator).iter().any(is_in) && place.all_runs().len() == 1
    });
    if refused {
        return;
    }
    run.until("its endpoint", || !endpoints_of(coordinator).is_empty());
    run.ended_by(Signal::KILL);
    until("the end of its endpoints", PATIENCE, || {
        endpoints_of(coordinator).is_empty()
    });
    let left = groups_of(coordinator);
    assert!(!left.is_empty(), "nobody removed them");

    let next = Place::new();
    let small_run = SHORT.replace("--quiet", "--mover memcpy --window 2ms");
    for command in [&small_run, "doctor --clean"] {
        left.iter().for_each(|dir| fs::create_dir_all(dir).unwrap());
        let end = next.call(command);
        for dir in &left {
            let note = format!("removed the control group {}", dir.display());
            says(&(end.stdout.clone() + &end.stderr), &[&note]);
            assert!(!dir.exists());
        }
    }
}
