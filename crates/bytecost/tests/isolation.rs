//! Scheduler classes and control groups, as a user asks for them and as the kernel tells them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{PATIENCE, Place, among_no_others, endpoints_of, says, until};
use bytecost_spec::{Cell, Class, Counter, Reading, Sample};
use rustix::process::Signal;

const SHORT: &str = "run --budget 20s --blocks 6 --warmup 2ms --seed 7 --quiet";

/// The samples of a run, each with its cell; none where the machine refuses all of it.
fn samples(place: &Place, words: &str) -> Vec<(Cell, Sample)> {
    let end = place.call(format!("{SHORT} {words}"));
    if end.stderr.contains("nothing of this study works here") {
        eprintln!("skipped: {}", end.stderr);
        return Vec::new();
    }
    end.measured();
    place.samples()
}

/// Groups of a coordinator's, wherever they are.
fn groups_of(coordinator: u32) -> Vec<PathBuf> {
    fn look(dir: &Path, depth: u32, mark: &str, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if !entry.file_type().is_ok_and(|t| t.is_dir()) {
                continue;
            }
            if name.starts_with("bytecost-") && name.contains(mark) {
                found.push(entry.path());
            } else if depth > 0 {
                look(&entry.path(), depth - 1, mark, found);
            }
        }
    }
    let mut found = Vec::new();
    look(
        Path::new("/sys/fs/cgroup"),
        5,
        &format!("-{coordinator}-"),
        &mut found,
    );
    found
}

#[test]
fn threads_have_the_class_that_was_asked_for_and_the_record_says_so() {
    let place = Place::new();
    // Not those that come after all others: they may wait long on a busy machine.
    let words = "--mover work-integer --window 10ms --class other,batch:nice=1,fifo,deadline";
    let mut seen = BTreeSet::new();
    for (cell, sample) in samples(&place, words) {
        let held = &sample.sender.held;
        match cell.class == Class::default() {
            true => assert!(held.is_empty(), "{held:?}"),
            false => assert_eq!(held[0].class, Some(cell.class)),
        }
        seen.insert(cell.class.to_string());
    }
    // Real time needs a permission.
    for usual in ["other", "batch:nice=1"] {
        assert!(seen.contains(usual), "{seen:?}");
    }
}

#[test]
fn a_thread_wakes_at_its_beats_and_says_how_late() {
    let place = Place::new();
    let all = samples(
        &place,
        "--mover wake-up,wake-work --window 20ms --threads 2",
    );
    let reading = |sample: &Sample, counter| sample.sender.readings[&counter].measured().unwrap();
    let mut woken = 0;
    for (cell, sample) in all.iter().filter(|(c, _)| c.mover != "null") {
        let wakes = reading(sample, Counter::Messages);
        let elapsed_ns = reading(sample, Counter::ElapsedNs);
        assert!(sample.latency_ns_histogram.is_some(), "{}", cell.mover);
        // A beat a millisecond for each of two threads; one may begin before the window.
        assert!(
            wakes <= 2 * (elapsed_ns / 1_000_000 + 2),
            "{wakes} in {elapsed_ns} ns"
        );
        assert!(sample.sender.readings.contains_key(&Counter::BeatsMissed));
        woken += wakes;
    }
    assert!(woken > 0);
}

#[test]
fn a_quota_holds_back_and_says_for_how_long() {
    let place = Place::new();
    let all = samples(
        &place,
        "--mover work-integer --window 120ms --cgroup max=10%",
    );
    let (mut held_ns, mut periods) = (0, 0);
    for (cell, sample) in &all {
        let reading = |counter| sample.machine.get(&counter).and_then(Reading::measured);
        if cell.cgroup.is_none() {
            assert_eq!(reading(Counter::CgroupThrottledNs), None);
            continue;
        }
        held_ns += reading(Counter::CgroupThrottledNs).unwrap();
        periods += reading(Counter::CgroupThrottledPeriods).unwrap();
    }
    assert_eq!(held_ns > 0 && periods > 0, !all.is_empty(), "{held_ns} ns");
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
        let said = fs::read_to_string(place.dir.path().join("stderr")).unwrap();
        refused = said.contains("nothing of this study works here");
        let is_in = |dir: &PathBuf| {
            fs::read_to_string(dir.join("cgroup.procs")).is_ok_and(|pids| !pids.trim().is_empty())
        };
        refused || groups_of(coordinator).iter().any(is_in) && place.all_runs().len() == 1
    });
    if refused {
        return eprintln!("skipped: no control groups here");
    }
    run.until("its endpoint", || !endpoints_of(coordinator).is_empty());
    run.send(Signal::KILL);
    run.end(PATIENCE);
    until("the end of its endpoints", PATIENCE, || {
        endpoints_of(coordinator).is_empty()
    });
    let left = groups_of(coordinator);
    assert!(!left.is_empty(), "nobody removed them");

    let next = Place::new();
    let end = next.call(SHORT.replace("--quiet", "--mover memcpy --window 2ms"));
    for dir in &left {
        let note = format!("removed the control group {}", dir.display());
        says(&end.stderr, &[&note]);
        assert!(!dir.exists());
        fs::create_dir(dir).unwrap();
    }
    let said = next.call("doctor --clean").stdout;
    for dir in &left {
        let note = format!("removed the control group {}", dir.display());
        says(&said, &[&note]);
        assert!(!dir.exists());
    }
}

#[test]
fn a_run_that_ends_well_leaves_no_group() {
    let place = Place::new();
    let words = format!("{SHORT} --mover work-integer --window 2ms --cgroup weight=50");
    let run = place.start(&mut place.bytecost(words));
    let coordinator = run.pid();
    run.end(PATIENCE);
    let left = groups_of(coordinator);
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn what_cannot_be_had_is_refused_in_one_line() {
    Place::new().refuses(
        &format!("{SHORT} --mover work-integer"),
        "--class blue => `deadline` | other:nice=10
        --class other:nice=20 => from -20 to 19
        --cgroup max => max=50% (of one CPU)
        --class deadline --placement same-cpu => deadline
        --cgroup cpuset=8000 => cpuset=8000",
    );
}
