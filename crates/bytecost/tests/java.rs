//! Movers that have Java do their work, as a user calls them: what they measure, what is refused
//! and why, and that no virtual machine outlives a run.

use std::fs;
use std::path::Path;

use crate::common::{PATIENCE, Place, ended, says, until};
use bytecost_spec::Counter;
use rustix::process::Signal;

const WORDS: &str = "run --mover java-stream,java-transfer-to --size 64KiB --block 4KiB \
    --ring message --blocks 6 --window 100ms --warmup 2ms --budget 30s --seed 3 --quiet";

fn has_java() -> bool {
    let found = bytecost_engine::java::find();
    if let Err(e) = &found {
        eprintln!("skipped: {e}");
    }
    found.is_ok()
}

#[test]
fn both_ways_are_measured_and_the_machine_s_cpu_time_is_the_sender_s() {
    if !has_java() {
        return;
    }
    let place = Place::new();
    place.call(WORDS).measured();
    for name in ["java-stream", "java-transfer-to"] {
        let mut all = place.samples().into_iter();
        let (_, sample) = all.find(|(cell, _)| cell.mover == name).expect(name);
        let read = |counter| sample.sender.readings[&counter].measured();
        assert!(read(Counter::CpuNs).unwrap() > 0);
        assert!(read(Counter::ContextSwitchesVoluntary).is_some());
        assert_eq!(read(Counter::TaskClockNs), None, "of one thread only");
    }
    says(&place.read("report.md"), &[" · Java "]);
}

#[test]
fn without_java_the_others_are_measured_and_the_reason_is_told() {
    let place = Place::new();
    let words = WORDS.replace("java-stream,java-transfer-to", "read-write,java-stream");
    let mut command = place.bytecost(words);
    command.env_remove("JAVA_HOME").env("PATH", "/nowhere");
    let told = ended(&mut command).measured().flat();
    says(&told, &["there is no java in JAVA_HOME or PATH"]);
}

/// Virtual machines of ours that have this directory for their home.
fn machines(home: &Path) -> usize {
    let home = format!("HOME={}", home.display());
    let is_one = |dir: &Path| {
        let read = |name| fs::read(dir.join(name)).unwrap_or_default();
        let has = |bytes: &[u8], word: &str| {
            bytes
                .split(|b| *b == 0)
                .any(|w| w.starts_with(word.as_bytes()))
        };
        has(&read("environ"), &home) && has(&read("cmdline"), "-Dbytecost.endpoint=")
    };
    let all = fs::read_dir("/proc").unwrap().flatten();
    all.filter(|entry| is_one(&entry.path())).count()
}

#[test]
fn no_virtual_machine_outlives_a_run_that_is_killed_or_interrupted() {
    if !has_java() {
        return;
    }
    for signal in [Signal::KILL, Signal::INT] {
        let place = Place::new();
        let words = WORDS.replace("100ms", "3s").replace("30s", "200s");
        let mut command = place.bytecost(&words);
        let mut run = place.start(command.env("HOME", place.dir.path()));
        let coordinator = run.pid();
        run.until("a trial of a virtual machine", || {
            crate::common::endpoints_of(coordinator).len() == 2 && machines(place.dir.path()) > 0
        });
        run.send(signal);
        run.end(PATIENCE);
        until("the end of the machines", PATIENCE, || {
            machines(place.dir.path()) == 0
        });
    }
}
