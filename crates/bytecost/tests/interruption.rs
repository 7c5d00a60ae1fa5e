//! A run that is interrupted, killed, or begun twice: what was finished is kept, nothing is left
//! behind, and `--resume` continues.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{
    Place, assert_only_known_files, edit, endpoints_of, kill, observers_of, says, until,
};
use bytecost_spec::sample::GROWING_BLOCKS;
use bytecost_spec::{Failure, Record, TrialKey};
use itertools::Itertools as _;
use rustix::process::Signal;
use serde_json::Value;

const LONG: &str = "run --mover null,send --size 4KiB --budget 60s --precision 0.1% --window 50ms --warmup 5ms --quiet";

/// Trials by block, cell and attempt, none of which may be there twice; and the cells by number.
fn trials(records: &[Record]) -> (BTreeSet<[u32; 3]>, BTreeMap<u32, &str>) {
    let (mut keys, mut cells) = (BTreeSet::new(), BTreeMap::new());
    for record in records {
        let (trial, id) = match record {
            Record::Sample(sample) => (sample.trial, sample.cell.as_str()),
            Record::Failure(failure) => (failure.trial, failure.cell.as_str()),
            _ => continue,
        };
        let key = [trial.block, trial.cell, trial.attempt];
        assert!(keys.insert(key), "{key:?} is there twice");
        let before = cells.insert(trial.cell, id);
        assert!(
            before.is_none_or(|b| b == id),
            "cell {} changed",
            trial.cell
        );
    }
    (keys, cells)
}

fn interrupted_by(signal: Signal) -> Place {
    let place = Place::new();
    let mut run = place.start(&mut place.bytecost(LONG));
    run.until("a few trials", || place.lines() >= 3);
    let report = place.call("report").flat();
    says(&report, &["This run ended early: it is still running"]);
    let coordinator = run.pid();
    let end = run.ended_by(signal);
    assert_eq!(end.status, Some(1), "{}", end.stderr);
    let dir = place.run();
    assert_eq!(endpoints_of(coordinator), [0u32; 0]);
    assert_eq!(observers_of(coordinator), [0u32; 0]);
    assert!(place.records().len() >= 3);
    for output in ["report.html", "report.md", "findings.json", "samples.csv"] {
        assert!(dir.join(output).is_file(), "{output}");
    }
    assert_only_known_files(&dir);
    says(&place.call("runs").stdout, &["interrupted"]);
    place
}

// Invariant 9.
#[test]
fn ctrl_c_keeps_what_is_finished_and_the_run_can_be_gone_on_with() {
    let place = interrupted_by(Signal::INT);
    let before = place.read("samples.jsonl");
    let words = place.resume("--blocks 8 --budget 60s --quiet");
    place.call(words).measured();
    let after = place.read("samples.jsonl");
    assert!(after.len() > before.len() && after.starts_with(&before));
    let all = place.records();
    let (_, first) = trials(&all[..before.matches('\n').count()]);
    let (keys, cells) = trials(&all);
    assert!(first.iter().all(|(k, v)| cells.get(k) == Some(v)));
    // Fewer than the plan has.
    let blocks = 8 + place.blocks_not_counted();
    assert!(keys.iter().all(|[block, ..]| *block < blocks), "{keys:?}");
    says(&place.call("runs").stdout, &["complete"]);
    assert_only_known_files(&place.run());
}

#[test]
fn a_termination_keeps_what_is_finished() {
    interrupted_by(Signal::TERM);
}

// Invariant 9.
#[test]
fn a_killed_run_takes_its_endpoints_along_and_can_be_gone_on_with() {
    let place = Place::new();
    let words = LONG.replace("50ms", "1s") + " --background spin --placement same-cpu";
    let mut run = place.start(&mut place.bytecost(words));
    let coordinator = run.pid();
    run.until("two sides and a background load", || {
        place.lines() >= 1 && endpoints_of(coordinator).len() == 3
    });
    assert_eq!(observers_of(coordinator).len(), 1);
    assert_eq!(run.ended_by(Signal::KILL).status, None);
    // The load's time would be over in half a minute.
    until("the end of all four", Duration::from_secs(25), || {
        [endpoints_of, observers_of]
            .iter()
            .all(|of| of(coordinator).is_empty())
    });
    let text = place.read("samples.jsonl");
    let whole = text.rfind('\n').unwrap() + 1;
    for line in text[..whole].lines() {
        serde_json::from_str::<Value>(line).unwrap();
    }
    says(&place.call("runs").stdout, &["killed"]);
    let report = place.call("report").flat();
    says(&report, &["This run ended early: it was killed"]);
    let lines_before = place.lines();
    let mut resumed = place.start(&mut place.bytecost(place.resume("--quiet")));
    resumed.until("another trial", || place.lines() > lines_before);
    resumed.interrupted();
    let after = place.read("samples.jsonl");
    assert!(after.starts_with(&text[..whole]));
    trials(&place.records());
}

// Invariant 6.
#[test]
fn a_run_of_a_longer_budget_goes_on_by_the_plan_that_it_has() {
    let place = Place::new();
    let words = "run --mover null,send,sendfile --size 4KiB --blocks 6 --window 20ms --warmup 2ms --budget 60s --quiet";
    place.call(words).measured();
    let plan = || {
        place.json("manifest.json")["plan"]["orders"]
            .as_array()
            .unwrap()
            .clone()
    };
    let before = plan();
    let growing = GROWING_BLOCKS as usize;
    assert_eq!(before.len(), 6 + growing);
    let more = place.resume("--blocks 11 --precision 0.01% --budget 600s --quiet");
    let lines_before = place.lines();
    let mut run = place.start(&mut place.bytecost(&more));
    run.until("a block behind those of the run", || {
        place.lines() >= lines_before + 3
    });
    run.ended_by(Signal::KILL);
    place.call(&more).measured();
    let after = plan();
    assert_eq!(after.len(), 11 + growing);
    assert_eq!(&after[..6 + growing], &before[..]);
    let (keys, _) = trials(&place.records());
    let measured = 11 + place.blocks_not_counted() as usize;
    for (block, order) in after.iter().enumerate().take(measured) {
        let first = keys
            .iter()
            .filter(|key| key[0] as usize == block && key[2] == 0);
        assert_eq!(
            first.count(),
            order.as_str().unwrap().split(' ').count(),
            "block {block}"
        );
    }
}

/// When a command is sent a signal.
type Phase = fn(&Place, u32) -> bool;

/// Handlers of these signals are there: a run is in its survey, or soon will be.
fn catches_signals(_: &Place, pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("SigCgt:"));
    let caught = line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    caught.is_some_and(|mask| mask & (1 << (Signal::INT.as_raw() - 1)) != 0)
}

fn plays(place: &Place, pid: u32) -> bool {
    place.has_run() && !endpoints_of(pid).is_empty()
}

/// An endpoint is stopped: whatever the trial waits for, it does not come.
fn is_stopped(place: &Place, pid: u32) -> bool {
    let ends = endpoints_of(pid);
    place.lines() > 0 && ends.len() == 2 && kill(ends[0], Signal::STOP).is_ok()
}

fn gathers_evidence(place: &Place, _: u32) -> bool {
    let runs = place.all_runs();
    let read = |run| fs::read_to_string(Path::join(run, "samples.jsonl")).ok();
    let log = runs.first().and_then(|run| read(run));
    log.is_some_and(|log| log.contains("{\"evidence\":"))
}

fn reports(place: &Place, _: u32) -> bool {
    place
        .all_runs()
        .iter()
        .any(|run| run.join("ended.json").exists())
}

fn has_threads(_: &Place, pid: u32) -> bool {
    fs::read_dir(format!("/proc/{pid}/task")).is_ok_and(|tasks| tasks.count() > 1)
}

fn at_once(_: &Place, _: u32) -> bool {
    true
}

/// Commands and the phases in which they get the signal. Some are over before it arrives.
const PHASES: &[(&str, Phase)] = &[
    ("", catches_signals),
    ("ceiling", catches_signals),
    (
        "run --mover null,send --transport loopback,veth,wire",
        catches_signals,
    ),
    ("run --mover send --size 4KiB --warmup 10s --quiet", plays),
    (
        "run --mover send --size 4KiB --window 10s --warmup 5ms --quiet",
        plays,
    ),
    (
        "run --mover send --size 4KiB --window 20ms --warmup 5ms --budget 60s --precision 0.1% --quiet",
        is_stopped,
    ),
    (
        "run --mover null,send --size 4KiB --blocks 6 --window 5ms --warmup 1ms --evidence footprint --quiet",
        gathers_evidence,
    ),
    (
        "run --mover null,send --size 4KiB --blocks 6 --window 5ms --warmup 1ms --quiet",
        reports,
    ),
    ("list --fresh", has_threads),
    ("doctor", at_once),
    ("doctor --clean", at_once),
    ("runs", at_once),
    ("report smt --all", at_once),
    ("explain smt", at_once),
    ("audit smt", at_once),
    ("export pa02-a --layout pa02-a", at_once),
    ("live server top --port 0", catches_signals),
    ("live send --listen 127.0.0.1:0", catches_signals),
    ("live receive --listen 127.0.0.1:0", catches_signals),
    ("live send --connect 127.0.0.1:1", catches_signals),
];

// Invariant 9.
#[test]
fn the_first_signal_ends_every_command_in_every_phase() {
    let ends = |signal: Signal| {
        for (words, phase) in PHASES {
            let named = |study: &&str| words.contains(study);
            let place = Place::recorded(&["smt", "pa02-a"].into_iter().filter(named).collect_vec());
            let mut command = place.start(&mut place.bytecost(words));
            let pid = command.pid();
            command.until(words, || phase(&place, pid));
            let began = Instant::now();
            let end = command.ended_by(signal);
            eprintln!(
                "{:?} {signal:?} `{words}`: {:?}",
                began.elapsed(),
                end.status
            );
            // By the signal itself, where nothing is to be kept.
            let is_right = matches!(end.status, None | Some(0 | 1 | 130));
            assert!(is_right, "{words}: {}", end.stderr);
            assert_eq!(endpoints_of(pid), [0_u32; 0], "{words}");
            place
                .all_runs()
                .iter()
                .for_each(|run| assert_only_known_files(run));
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| ends(Signal::INT));
        ends(Signal::TERM);
    });
}

// Invariant 8.
#[test]
fn a_survey_that_does_not_end_is_ended() {
    let place = Place::new();
    let java = place.path().join("java");
    fs::write(
        &java,
        "#!/bin/sh\necho $$ > \"$HOME/pid\"\nexec sleep 600\n",
    )
    .unwrap();
    fs::set_permissions(&java, PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = place.bytecost("run --mover java-stream --size 4KiB --quiet");
    let path = format!("{}:{}", place.path().display(), env!("PATH"));
    command
        .env_remove("JAVA_HOME")
        .env("PATH", path)
        .env("HOME", place.path());
    let mut run = place.start(&mut command);
    let pid = || fs::read_to_string(place.path().join("pid")).unwrap_or_default();
    run.until("a machine that says nothing", || pid().ends_with('\n'));
    let end = run.ended_by(Signal::INT);
    assert_eq!(end.status, Some(130), "{}", end.stderr);
    says(&end.stderr, &["did not end within 3 s of the signal"]);
    let machine = format!("/proc/{}", pid().trim());
    until("the end of the machine", Duration::from_secs(20), || {
        !Path::new(&machine).exists()
    });
    assert!(place.all_runs().is_empty());
}

#[test]
fn a_run_goes_on_without_an_endpoint_that_is_stopped() {
    let place = Place::new();
    let words = "run --mover null,send --size 4KiB --blocks 6 --window 50ms --warmup 5ms --budget 60s --quiet";
    let mut run = place.start(&mut place.bytecost(words));
    let coordinator = run.pid();
    run.until("a side of a trial", || is_stopped(&place, coordinator));
    let end = run.end().measured();
    let failed: Vec<String> = place
        .records()
        .into_iter()
        .filter_map(|record| match record {
            Record::Failure(failure) => Some(failure.reason),
            _ => None,
        })
        .collect();
    assert_eq!(failed.len(), 1, "{failed:?} {}", end.stderr);
    // In the last block too, the stopped one's cell among them.
    let measured = place
        .samples()
        .into_iter()
        .filter(|(_, sample)| sample.trial.block == 5);
    assert!(measured.count() >= 2, "{failed:?}");
    assert_eq!(endpoints_of(coordinator), [0_u32; 0]);
}

#[test]
fn a_run_whose_cells_are_all_given_up_ends_when_it_is_resumed() {
    let place = Place::with_two_cells();
    let samples = place.samples();
    let cells: BTreeMap<u32, String> = samples
        .iter()
        .map(|(cell, sample)| (sample.trial.cell, cell.id()))
        .collect();
    let mut log = String::new();
    for block in 0..3 {
        for (cell, id) in &cells {
            let failure = Record::Failure(Failure {
                trial: TrialKey {
                    block,
                    cell: *cell,
                    attempt: 0,
                },
                cell: id.clone(),
                started_ms: 1,
                reason: "it was to fail".to_owned(),
                stood_still_ns: None,
                wrong_bytes: false,
                for_evidence: false,
            });
            log += &(serde_json::to_string(&failure).unwrap() + "\n");
        }
    }
    fs::write(place.run().join("samples.jsonl"), &log).unwrap();
    let end = place.call(place.resume("--blocks 10000 --quiet"));
    assert_eq!(end.status, Some(1), "{}", end.stderr);
    assert_eq!(
        place.read("samples.jsonl"),
        log,
        "nothing is left to measure"
    );

    edit(&place.run(), |manifest| {
        manifest["study"]["blocks_most"] = u32::MAX.into()
    });
    place
        .call(place.resume("--quiet"))
        .refused(&["4294967295 blocks", "10000"]);
}
