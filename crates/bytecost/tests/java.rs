//! Movers that have Java do their work, as a user calls them: what is refused and why, and that no
//! virtual machine outlives a run.

use std::fs;
use std::path::Path;

use crate::common::{Lack, PATIENCE, Place, ended, endpoints_of, says, skipped, until};
use rustix::process::Signal;

const WORDS: &str = "run --mover java-stream,java-transfer-to --size 64KiB --block 4KiB \
    --ring message --blocks 6 --window 100ms --warmup 2ms --budget 30s --seed 3 --quiet";

#[test]
fn without_java_the_others_are_measured_and_the_reason_is_reported() {
    let place = Place::new();
    let words = WORDS.replace("java-stream,java-transfer-to", "read-write,java-stream");
    let mut command = place.bytecost(words);
    command.env_remove("JAVA_HOME").env("PATH", "/nowhere");
    let output = ended(&mut command).measured().flat();
    says(&output, &["there is no java in JAVA_HOME or PATH"]);
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
    if let Err(e) = bytecost_engine::java::find() {
        return skipped(Lack::Tool, e);
    }
    for signal in [Signal::KILL, Signal::INT] {
        let place = Place::new();
        let words = WORDS.replace("100ms", "3s").replace("30s", "200s");
        let mut command = place.bytecost(&words);
        let mut run = place.start(command.env("HOME", place.path()));
        let coordinator = run.pid();
        run.until("a trial of a virtual machine", || {
            place.has_run() && endpoints_of(coordinator).len() == 2 && machines(place.path()) > 0
        });
        run.ended_by(signal);
        until("the end of the machines", PATIENCE, || {
            machines(place.path()) == 0
        });
    }
}
